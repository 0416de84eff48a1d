"""A server with a token, and a browser's side of it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.analyzer.report.contents import Page
from tests.reliability.serving import NO_TLS, OK, Served, looping, served, until

TOKEN = "a-token-of-20-letters"  # noqa: S105
NAMED = "another-token-of-letters"
LOOKS = "a-token-for-a-visitor"
SETTINGS = """
[server]
retention_days = 36500
store_every_s = 1

[page]
trace_url = "https://traces.example.com/trace/{trace_id}?span={span_id}"
"""


class Browser(httpx.Client):
    """A client that keeps cookies and sends forms as a browser does."""

    def __init__(self, address: str) -> None:
        url = f"http://{address}"
        super().__init__(base_url=url, trust_env=False, verify=NO_TLS, timeout=60)

    def sign_in(self, token: str, to: str = "/") -> httpx.Response:
        """Send the sign-in form."""
        return self.submit("/sign-in", "/sign-in", token=token, to=to)

    def submit(self, page: str, action: str, **fields: str) -> httpx.Response:
        """Open a page and send a form of it."""
        assert f'action="{action}"' in self.get(page).text
        return self.send_form(action, sign=self.sign(page), **fields)

    def decide(self, gate: str, **fields: str) -> httpx.Response:
        """Send the form of a gate."""
        return self.submit(f"/gates/{gate}", f"/gates/{gate}/resolve", **fields)

    def sign(self, page: str) -> str:
        """Return the sign that each form of a page has."""
        (sign,) = set(re.findall(r'name="sign" value="([0-9a-f]+)"', self.get(page).text))
        return str(sign)

    def send_form(self, action: str, **fields: str) -> httpx.Response:
        """Send a form as one of this site, whether a page has it or not."""
        headers = {"origin": str(self.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
        return self.post(action, data=fields, headers=headers)


@contextmanager
def signed_in(address: str, token: str = TOKEN) -> Iterator[Browser]:
    """Open a browser, and sign in."""
    with Browser(address) as browser:
        assert browser.sign_in(token).status_code == 303
        yield browser


@contextmanager
def served_by(folder: Path, tokens: str) -> Iterator[Served]:
    """Serve a store in a folder to the holders of tokens."""
    with served(folder / "store", config=SETTINGS, tokens=tokens) as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a store with a gate that is open."""
    tokens = f"{TOKEN}\nAda Lovelace {NAMED}\nGrace role=viewer {LOOKS}\n"
    with served_by(tmp_path_factory.mktemp("page"), tokens) as found:
        send(found, looping("s1", 6).request())
        with signed_in(found.address) as browser:
            until(lambda: "1 gate open" in browser.get("/").text)
        yield found


def send(server: Served, request: dict[str, object]) -> None:
    """Send spans, with the token."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    url = f"http://{server.address}/v1/traces"
    sent = httpx.post(url, json=request, headers=headers, trust_env=False, verify=NO_TLS)
    assert sent.status_code == OK


@pytest.fixture
def browser(server: Served) -> Iterator[Browser]:
    """Return a browser that has signed in."""
    with signed_in(server.address) as opened:
        yield opened


@pytest.fixture
def stranger(server: Served) -> Iterator[Browser]:
    """Return a browser that has not."""
    with Browser(server.address) as opened:
        yield opened


def gate_ids(browser: Browser, status: str = "open") -> list[str]:
    """Return the ids of gates."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    listed = browser.get(f"/v1/gates?status={status}", headers=headers).json()
    return [gate["id"] for gate in listed["gates"]]


def words(browser: Browser, path: str) -> str:
    """Return what a reader of a page sees."""
    return " ".join(Page(browser.get(path).text).text.split())


def gate_of(browser: Browser, task: str) -> str:
    """Return the open gate of a task, once there is one."""
    found: list[str] = until(
        lambda: [g for g in gate_ids(browser) if task in words(browser, f"/gates/{g}")]
    )
    return found[0]
