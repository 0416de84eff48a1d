"""Access to the page, and the headers of its answers for browsers."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from looptrace.analyzer.settings.sections import default
from looptrace.collector.page import overview
from looptrace.collector.page.rendering import ASSETS, HEADERS, PAGES, asset_url
from looptrace.collector.page.sessions import FORM_COOKIE, SESSION_COOKIE, SignIns
from looptrace.collector.page.site import Site
from looptrace.collector.server.access import Access
from looptrace.collector.server.receiver.receiver_metrics import Instrument
from looptrace.collector.server.service import Options, Service
from looptrace.collector.store import reader
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.sql.connection import ask_each
from tests.analyzer.report.contents import Page
from tests.collector.page.conftest import LOOKS, TOKEN, Browser, gate_ids, signed_in
from tests.reliability.serving import Served, looping, served

HOURS_S = 168 * 3600
WAIT_S = 30
READS = [*PAGES.values(), "/task?id=s1", "/task/turn?id=s1&turn=1", "/task/why?id=s1"]


@pytest.mark.parametrize("path", [*READS, "/gates/nope", "/changes", "/?a=%22%3E"])
def test_nobody_sees_anything_without_a_token(stranger: Browser, path: str) -> None:
    """Each page asks for the token, says nothing of what it shows, and leads back afterwards."""
    answer = stranger.get(path)

    if path == "/changes":
        assert answer.status_code == 401
        return
    assert answer.status_code == 303
    asked = stranger.get(answer.headers["location"])
    assert asked.status_code == 200
    assert "run_tests" not in asked.text
    (to,) = [field["value"] for field in Page(asked.text).all("input") if field["name"] == "to"]
    assert stranger.sign_in(TOKEN, to).headers["location"] == to
    assert stranger.get(to).status_code in (200, 404)


@pytest.mark.parametrize("path", [*READS, "/sign-in", "/gates/nope", "/changes/x"])
def test_every_answer_forbids_what_it_does_not_use(browser: Browser, path: str) -> None:
    """Neither scripts nor styles within a page, nothing of another host, no frame, no copy kept."""
    answer = browser.get(path)

    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "*" not in policy
    if answer.status_code != 303:
        assert answer.headers["cache-control"] == "no-store"
        assert is_plain(answer.text)


def is_plain(html: str) -> bool:
    """Return whether a page holds no script or style, and names no other host but for links."""
    page = Page(html)
    assert page.open == []
    for tag, attributes in page.elements:
        assert tag != "style"
        assert not [name for name in attributes if name.startswith(("on", "hx-on", "style"))]
        for name in ("src", "href", "action", "hx-get"):
            if tag in ("a", "use") and attributes.get("rel") == "noreferrer noopener":
                continue
            assert attributes.get(name, "/").startswith(("/", "#")), attributes
    return True


def test_scripts_and_styles_may_be_kept(stranger: Browser) -> None:
    """Their addresses change with what they hold, so that no browser shows an old one."""
    for name in ASSETS:
        answer = stranger.get(asset_url(name))
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert b"http" not in answer.content.replace(b"http://www.w3.org/2000/svg", b"") or (
            name == "htmx.min.js"
        )
    for path in ("/assets/0/page.css", asset_url("page.css").replace("page.css", "../site.py")):
        assert stranger.get(path).status_code == 404


def test_the_library_lies_beside_its_licence() -> None:
    """The licence of the library is shipped with it."""
    folder = Path(asset_url.__code__.co_filename).parent / "assets"

    assert "Zero-Clause BSD" in (folder / "htmx.LICENSE").read_text(encoding="utf-8")
    assert "fetch" in (folder / "htmx.min.js").read_text(encoding="utf-8")


def cookies(answer: httpx.Response) -> dict[str, str]:
    """Return the cookies that are set, with what they are set by."""
    return dict(each.split("=", 1) for each in answer.headers.get_list("set-cookie"))


def test_a_browser_is_signed_in_by_a_cookie_that_holds_no_token(stranger: Browser) -> None:
    """No script reads it, no other site sends it, and it ends."""
    answer = stranger.sign_in(TOKEN)
    (cookie,) = [value for name, value in cookies(answer).items() if name == SESSION_COOKIE]

    assert answer.headers["location"] == "/"
    assert {"HttpOnly", "SameSite=strict", "Path=/", f"Max-Age={HOURS_S}"} <= set(
        cookie.split("; ")
    )
    assert TOKEN not in cookie
    assert stranger.get("/").status_code == 200
    # It opens the page, and not the API, which another site could make a browser ask.
    assert stranger.get("/v1/gates").status_code == 401


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "\u00e4" * 20, "x" * 900])
def test_a_wrong_token_is_said_clearly(stranger: Browser, token: str) -> None:
    """A mistyped token shows what to do, and signs nobody in."""
    answer = stranger.sign_in(token)

    assert answer.status_code == 401
    assert "not a token of this server" in answer.text
    assert SESSION_COOKIE not in cookies(answer)
    assert stranger.get("/").status_code == 303


@pytest.mark.parametrize(
    "change",
    [
        lambda until, sign: f"{int(until) + 1}.{sign}",
        lambda _until, sign: f"1.{sign}",
        lambda until, sign: f"{until}.{sign[:-1]}0",
        lambda until, _sign: until,
        lambda _until, sign: f"\u0662.{sign}",
        lambda _until, sign: f"{'9' * 5_000}.{sign}",
        lambda _until, _sign: "",
    ],
)
def test_a_made_up_cookie_opens_nothing(browser: Browser, change: Any) -> None:
    """Neither a longer time nor another sign can be made without the token."""
    until, _, sign = browser.cookies[SESSION_COOKIE].partition(".")
    value = change(until, sign)
    with httpx.Client(base_url=browser.base_url, trust_env=False) as other:
        own = other.get("/", headers={"cookie": f"{SESSION_COOKIE}={until}.{sign}"})
        headers = httpx.Headers({"cookie": f"{SESSION_COOKIE}={value}"}, encoding="utf-8")
        made_up = other.get("/", headers=headers)

    if sign[-1] != "0" or value != f"{until}.{sign}":
        assert (own.status_code, made_up.status_code) == (200, 303)


@pytest.mark.parametrize(
    "host", ["{host}/sign-in", "{host}/assets/", "{host}/sign-in?", "{host}/sign-in#", "x/sign-in"]
)
@pytest.mark.parametrize("path", ["/", "/tasks", "/v1/gates"])
def test_no_host_opens_a_path(stranger: Browser, host: str, path: str) -> None:
    """What is open without a token is decided by the path that is served, and by nothing else."""
    named = host.replace("{host}", stranger.base_url.netloc.decode())
    answer = stranger.get(path, headers={"host": named})

    assert answer.status_code in (303, 401, 403)
    assert "run_tests" not in answer.text


def test_a_token_of_the_api_opens_the_page_too(stranger: Browser) -> None:
    """The same rules hold: a script that has the token needs no cookie."""
    headers = {"authorization": f"Bearer {TOKEN}"}

    assert stranger.get("/", headers=headers).status_code == 200
    assert stranger.get("/", headers={"authorization": "Bearer x"}).status_code == 303


def test_whoever_signs_out_is_out(browser: Browser) -> None:
    """The browser that is left behind shows nothing."""
    answer = browser.submit("/", "/sign-out")

    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert browser.get("/").status_code == 303


def test_who_may_only_look_is_shown_no_form_and_told_so(server: Served, browser: Browser) -> None:
    """A form that would be refused misleads; a decider's token sees it."""
    (gate,) = gate_ids(browser)[:1]
    assert 'class="looks"' not in browser.get(f"/gates/{gate}").text
    with signed_in(server.address, LOOKS) as visitor:
        shown = visitor.get(f"/gates/{gate}").text
        assert 'class="looks"' in shown
        assert "Your token lets you look." in shown
        refused = visitor.decide(gate, decision="cancel", note="")
        assert refused.status_code == 403
        assert "this token is that of a viewer" in refused.text
        assert visitor.submit("/", "/sign-out").status_code == 303


def test_another_site_sends_no_form(browser: Browser) -> None:
    """Without the sign of the page that this browser was given nothing is changed."""
    (gate,) = gate_ids(browser)[:1]
    path, origin = f"/gates/{gate}/resolve", str(browser.base_url).rstrip("/")
    fields = {"decision": "cancel", "sign": browser.sign("/")}
    own = {"origin": origin}
    for headers, form, status in (
        (own, {"decision": "cancel"}, 403),
        (own, fields | {"sign": "0" * 64}, 403),
        (own, fields | {"sign": "\u00e4"}, 403),
        ({"origin": "https://evil.example"}, fields, 403),
        ({"origin": "null"}, fields, 403),
        (own | {"sec-fetch-site": "cross-site"}, fields, 403),
        (own | {"sec-fetch-site": "same-site"}, fields, 403),
    ):
        answer = browser.post(path, data=form, headers=headers)
        assert answer.status_code == status, (headers, form)
    with signed_in(browser.base_url.netloc.decode()) as other:
        assert other.post(path, data=fields, headers=own).status_code == 403
    for content in (b'{"decision": "cancel"}', b"\xff", b"a=b&" * 30_000):
        kind = "json" if content[:1] == b"{" else "x-www-form-urlencoded"
        headers = own | {"content-type": f"application/{kind}"}
        assert browser.post(path, content=content, headers=headers).status_code in (400, 403)
    assert gate in gate_ids(browser)


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "\\\\evil.example",
        "/\t/evil.example",
        "evil",
        "",
    ],
)
def test_signing_in_leads_to_no_other_site(stranger: Browser, to: str) -> None:
    """A received link must not end on a page that only looks like ours."""
    assert stranger.sign_in(TOKEN, to).headers["location"] == "/"


def test_a_link_of_a_pager_works_for_those_who_are_signed_in(browser: Browser) -> None:
    """The browser keeps the cookie back from another site's link, so the page asks it again."""
    headers = {"sec-fetch-site": "cross-site"}
    with httpx.Client(base_url=browser.base_url, trust_env=False) as without:
        answer = without.get("/gates/abc", headers=headers)

    assert answer.status_code == 200
    refresh = [meta["content"] for meta in Page(answer.text).all("meta") if "http-equiv" in meta]
    assert refresh == ["0; url=/gates/abc"]


def test_methods_and_paths_that_are_none_say_so(browser: Browser) -> None:
    """An unknown page is answered by a page, and paths of the API by the API."""
    assert browser.get("/gates/nope").status_code == 404
    assert browser.get("/settings/x").status_code == 404
    assert browser.post("/tasks").status_code == 405
    assert browser.get("/sign-out").status_code == 405
    assert browser.get("/healthz").text == "ok\n"
    assert browser.get("/v1/nope").status_code == 401


def test_a_server_of_one_machine_asks_for_nothing(tmp_path: Path) -> None:
    """A trial needs no token; forms of other sites are refused all the same."""
    with served(tmp_path / "store") as alone:
        assert alone.send(looping("s1", 6).request()) == 200
        with Browser(alone.address) as browser:
            assert browser.get("/").status_code == 200
            assert "Sign out" not in browser.get("/").text
            assert browser.get("/sign-in").headers["location"] == "/"
            assert browser.cookies[FORM_COOKIE]
            refused = browser.send_form("/gates/nope/resolve", decision="cancel")
            assert refused.status_code == 403
            assert browser.get("/", headers={"host": "evil.example"}).status_code == 403


@asynccontextmanager
async def opened(store_dir: Path) -> AsyncIterator[tuple[Service, Site, httpx.AsyncClient]]:
    """Serve the page within this process; yield what serves it, and a client."""
    options = Options(store_dir, default(), Access(), 0, None)
    service = Service(options)
    site = Site(service, options)
    try:
        transport = httpx.ASGITransport(site)
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as browser:
            yield service, site, browser
    finally:
        await asyncio.to_thread(service.close)


async def until_holds(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0.01)


def test_nobody_waits_for_figures_that_can_be_computed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After opening any page the overview and the tasks are ready a moment later."""
    asked: list[str] = []

    def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def of(*arguments: Any) -> Any:
            asked.append(name)
            return call(*arguments)

        return of

    monkeypatch.setattr(overview, "ask_each", noted("overview", ask_each))
    monkeypatch.setattr(reader, "read_tasks", noted("tasks", reader.read_tasks))

    async def look() -> list[int]:
        async with opened(tmp_path) as (_, _, browser):
            assert asked == []  # A server without visitors has no use for it.
            assert (await browser.get("/rules")).status_code == 200
            await until_holds(lambda: asked == ["overview", "tasks"])
            return [(await browser.get(path)).status_code for path in ("/overview", "/tasks")]

    assert asyncio.run(look()) == [200, 200]
    assert asked == ["overview", "tasks"]


def test_browsers_get_a_page_for_what_is_not_there_and_clients_get_json(
    browser: Browser, stranger: Browser
) -> None:
    """A person who mistypes an address reads words, and finds the way back."""
    html = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    token = {"authorization": f"Bearer {TOKEN}"}
    for path in ("/nope", "/v1/nope", "/v1/gates/a/b/c", "/metricsx", "/gates/a/b/c"):
        shown = browser.get(path, headers=html)
        assert (shown.status_code, "There is no such page." in shown.text) == (404, True), path
        assert shown.headers["content-type"].startswith("text/html")
        assert stranger.get(path, headers=html).headers["location"].startswith("/sign-in"), path
    for path in ("/nope", "/v1/nope"):
        answer = browser.get(path, headers=token)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")
        assert stranger.get(path).status_code == 401
    # What is there stays as it is, whoever asks.
    assert browser.get("/v1/gates", headers=html | token).headers["content-type"] == (
        "application/json"
    )


def test_figures_that_take_long_are_shown_with_their_time_and_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store can be so large that figures of now take longer than a visitor waits."""
    versions, may_go_on = count(), threading.Event()
    may_go_on.set()

    def slow(*arguments: Any) -> Any:
        assert may_go_on.wait(WAIT_S)
        return ask_each(*arguments)

    monkeypatch.setattr(overview, "ask_each", slow)
    monkeypatch.setattr(overview, "WAIT_S", 0.05)

    async def look() -> None:
        async with opened(tmp_path) as (_, site, browser):
            monkeypatch.setattr(site._overview, "version", lambda: next(versions))
            assert "newer figures" not in (await browser.get("/overview")).text
            may_go_on.clear()
            old = (await browser.get("/overview")).text
            assert "newer figures are being computed, and appear here by themselves" in old
            assert 'data-every-s="1"' in old
            may_go_on.set()
            monkeypatch.setattr(overview, "WAIT_S", WAIT_S)
            assert "newer figures" not in (await browser.get("/overview")).text

    asyncio.run(look())


def test_reading_the_health_of_a_large_store_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers that come out of the store take a second at first; spans are taken meanwhile."""
    read_by: set[int] = set()

    def read() -> dict[tuple[str, ...], float]:
        read_by.add(threading.get_ident())
        return {(): 1.0}

    async def look() -> int:
        async with opened(tmp_path) as (service, _, browser):
            slow = Instrument("looptrace.loops.slow", "Slow.", read)
            monkeypatch.setattr(service, "instruments", lambda: [slow])
            return (await browser.get("/health")).status_code

    assert asyncio.run(look()) == 200
    assert read_by
    assert threading.get_ident() not in read_by


def test_figures_that_cannot_be_computed_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A store that cannot be read ends no server."""

    def fail(*_: object) -> None:
        raise StoreError("turns.parquet: damaged.")

    monkeypatch.setattr(overview, "ask_each", fail)

    async def look() -> None:
        async with opened(tmp_path) as (_, _, browser):
            assert (await browser.get("/rules")).status_code == 200
            await until_holds(lambda: "will take longer" in caplog.text)

    asyncio.run(look())

    assert "the first look at the page will take longer: turns.parquet: damaged." in caplog.text


def test_a_form_outlives_a_restart() -> None:
    """A note written during a restart of the server is not lost: the key is the store's."""
    before, after, other = (
        SignIns(Access(), key, hours=1).form_sign("nonce") for key in (b"a", b"a", b"b")
    )

    assert before == after != other


def test_a_server_is_its_page_and_its_api(server: Served) -> None:
    """What a program sends to the root is answered by the page, and OTLP as before."""
    assert server.ask("POST", "/v1/traces", b"{}")[0] == 401
