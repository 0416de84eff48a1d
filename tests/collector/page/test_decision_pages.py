"""The form behind a signed link: it decides one thing, once, and only when it is confirmed."""

import re
import time

import pytest

from looptrace.collector.decision_links import DecisionLinks
from looptrace.collector.page.sessions import FORM_COOKIE
from looptrace.collector.store.key import content_key
from tests.collector.page.conftest import Browser, gate_of, send, signed_in
from tests.reliability.serving import Served, looping, until

HOUR_S = 3_600


def opened(server: Served, task: str) -> str:
    """Let a task loop, and return its gate."""
    send(server, looping(task, 6).request())
    with signed_in(server.address) as browser:
        return gate_of(browser, task)


def path_of(server: Served, gate: str, hours: int = 1) -> str:
    """Return the path of the link that cancels a gate's task."""
    links = DecisionLinks(content_key(server.store_dir))
    return links.link("", gate, "cancel", int(time.time()) + hours * HOUR_S)


def hidden(page: str) -> dict[str, str]:
    """Return the hidden fields of a form."""
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))


def test_a_link_asks_and_then_decides(server: Served, stranger: Browser) -> None:
    """Its holder sees the gate, gives a reason, and the agent stops; no sign-in is needed."""
    gate = opened(server, "linked")
    path = path_of(server, gate)

    shown = stranger.get(path, headers={"sec-fetch-site": "cross-site"})
    assert shown.status_code == 200
    assert "Cancel the task?" in shown.text
    assert "run_tests(tests/test_cart.py)" in shown.text
    with signed_in(server.address) as browser:
        assert "Open for" in browser.get(f"/gates/{gate}").text  # Looking decides nothing.
        form = hidden(shown.text) | {"note": "Use the other key.", "who": "Ada"}
        answer = stranger.send_form(f"/decide/{gate}", **form)
        assert answer.status_code == 303
        assert "Resolved: Cancel the task." in stranger.get(answer.headers["location"]).text
        text = until(lambda: (t := browser.get(f"/gates/{gate}").text) and "By Ada" in t and t)
        assert "Use the other key." in text
        again = stranger.send_form(f"/decide/{gate}", **form)
        assert again.status_code == 303
        text = stranger.get(again.headers["location"]).text
        assert "“Cancel the task” was not carried out: Ada had decided" in text


@pytest.mark.parametrize("change", ["decision=continue", "until=99999999999", "sign=00", ""])
def test_a_link_that_was_changed_shows_nothing(
    server: Served, stranger: Browser, change: str
) -> None:
    """Nor does an expired one."""
    gate = opened(server, f"forged-{change[:3]}")
    name = change.partition("=")[0]
    path = path_of(server, gate, hours=1 if change else -1)
    path = re.sub(rf"\b{name}=\w+", change, path) if change else path

    answer = stranger.get(path)
    assert answer.status_code == 403
    assert "run_tests" not in answer.text
    query = dict(pair.split("=") for pair in path.partition("?")[2].split("&"))
    form = {**query, "link_sign": query["sign"], "sign": stranger.sign("/sign-in")}
    assert stranger.send_form(f"/decide/{gate}", **form).status_code == 403
    with signed_in(server.address) as browser:
        assert "Open for" in browser.get(f"/gates/{gate}").text


def test_another_site_cannot_send_the_form(server: Served, stranger: Browser) -> None:
    """A link works in the browser of its holder, and not from another site."""
    gate = opened(server, "foreign")
    form = hidden(stranger.get(path_of(server, gate)).text)
    stranger.cookies.delete(FORM_COOKIE)
    assert stranger.send_form(f"/decide/{gate}", **form).status_code == 403
