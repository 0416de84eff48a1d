"""The list of gates: a line each, by incident, filtered, sorted, and one of them beside it."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from looptrace.collector.page.rendering import ASSETS, asset_url
from looptrace.collector.page.worklist.lines import LINES_A_PAGE, LINES_OF_INCIDENT_MAX
from tests.analyzer.report.contents import Page
from tests.collector.page.conftest import (
    TOKEN,
    Browser,
    gate_ids,
    send,
    served_by,
    signed_in,
    words,
)
from tests.collector.store.stored import call
from tests.otlp import Trace
from tests.reliability.serving import Served, until

PAGE_BYTES_MAX = 200_000
ALIKE, OTHERS = LINES_OF_INCIDENT_MAX + 2, LINES_A_PAGE


def repeating(task: str, tool: str, calls: int, agent: str = "") -> Trace:
    """Return a trace in which a call fails alike."""
    at = f"2026-03-02T09:{int(task.rpartition('-')[2]) % 60:02}:00+00:00"
    trace = Trace(task, service="shop" if agent else "search", name=task, at=at)
    for _ in range(calls):
        call(trace, {"gen_ai.agent.name": agent} if agent else {}, tool=tool)
    return trace


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a store in which some tasks loop alike, and more than a page of others do not."""
    with served_by(tmp_path_factory.mktemp("worklist"), TOKEN) as found:
        for n in range(ALIKE):
            send(found, repeating(f"alike-{n}", "run_tests", 4, "packer").request())
        for n in range(OTHERS):
            send(found, repeating(f"other-{n}", f"fetch_{n}", 9 if n == 3 else 4).request())
        with signed_in(found.address) as browser:
            until(lambda: f"{ALIKE + OTHERS} gates open" in browser.get("/").text)
            until(lambda: "failed the same way 9 times" in browser.get("/?sort=times").text)
        yield found


def lines(browser: Browser, path: str) -> list[str]:
    """Return the ids of the gates that a list shows, in order."""
    return lines_of(browser.get(path).text)


def lines_of(html: str) -> list[str]:
    """Return the ids of the gates of a page, in order."""
    links = Page(html).all("a")
    return [link["id"].removeprefix("line-") for link in links if "data-line" in link]


def test_gates_of_one_loop_are_lines_of_its_incident(browser: Browser) -> None:
    """Its first gates are lines, the rest is a link away, and one decision reaches all."""
    text = words(browser, "/?agent=packer")

    assert len(lines(browser, "/?agent=packer")) == LINES_OF_INCIDENT_MAX
    assert f"{ALIKE} gates; decide on all" in text
    assert "2 more of these" in text
    (more,) = re.findall(r'href="(/\?incident=\w+)"', browser.get("/?agent=packer").text)
    assert len(lines(browser, more)) == ALIKE


def test_no_gate_is_on_two_pages_and_none_on_no_page(browser: Browser) -> None:
    """However many gates are open, the page stays small."""
    pages = [lines(browser, f"/?sort=newest&page={page}") for page in (1, 2, 3)]

    assert all(len(page) <= LINES_A_PAGE for page in pages)
    assert len({*pages[0], *pages[1]}) == OTHERS + LINES_OF_INCIDENT_MAX
    assert not set(pages[0]) & set(pages[1])
    assert not pages[2]
    assert 'rel="next"' in browser.get("/").text
    assert 'rel="next"' not in browser.get("/?page=2").text


def test_a_full_page_is_small(browser: Browser) -> None:
    """On a phone at night: the longest list, with script and style."""
    files = ["/?sort=newest", *map(asset_url, ASSETS)]

    assert sum(len(browser.get(path).content) for path in files) < PAGE_BYTES_MAX


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("q=FETCH_3( TIMES", 1),
        ("q=alike-2", 1),
        ("q=nothing", 0),
        ("service=shop", ALIKE),
        ("agent=packer", ALIKE),
        ("agent=pack", 0),
        ("rule=repeated_failure&service=shop", ALIKE),
        ("rule=cycle", 0),
        ("waits=waits", 0),
    ],
)
def test_gates_are_found(browser: Browser, query: str, count: int) -> None:
    """By words, service, agent, rule and what the agent does."""
    text = words(browser, f"/?{query}")

    assert f"{count} of {ALIKE + OTHERS} gates" in text if count else "No gate matches." in text


def test_the_list_is_sorted(browser: Browser) -> None:
    """The most times first; the newest and the oldest are each other's reverse."""
    (worst,) = lines(browser, "/?q=fetch_3(")
    assert lines(browser, "/?sort=times&service=search")[0] == worst
    newest, oldest = (lines(browser, f"/?sort={by}&q=other-1")[:1] for by in ("newest", "oldest"))
    assert newest == lines(browser, "/?q=other-19@")
    assert oldest == lines(browser, "/?q=other-1@")
    assert 'aria-sort="descending"' in browser.get("/?sort=times").text


def test_a_line_opens_beside_the_list(browser: Browser) -> None:
    """The gate of the address is shown, stays while others come, and has its own form."""
    third = lines(browser, "/")[2]
    page = browser.get(f"/?gate={third}&sort=newest").text

    assert f'id="gate-{third}"' in page
    assert f'hx-get="/?sort=newest&amp;gate={third}"' in page
    assert "has-chosen" in page  # A phone shows the gate in place of the list.
    shown = browser.get("/").text  # By default gates move when their agents are heard of.
    assert f'hx-get="/?shown={lines_of(shown)[0]}"' in shown
    assert "has-chosen" not in shown
    assert "has-chosen" not in browser.get("/?gate=none").text


def test_a_decision_beside_the_list_leads_back_to_it(browser: Browser) -> None:
    """With the same filter, so that the next gate is one key away; a refusal is shown there."""
    (gate,) = lines(browser, "/?q=fetch_7(")
    path = f"/?q=fetch_7(&gate={gate}"
    resolve = f"/gates/{gate}/resolve"
    sent = {"decision": "continue", "note": "", "list": "?q=fetch_7(&sort=cost&to=//evil"}
    refused = browser.submit(path, resolve, **sent).headers["location"]
    assert "without a note the agent is likely" in words(browser, refused)
    done = browser.submit(path, resolve, **(sent | {"note": "Do it by hand."})).headers["location"]
    assert urlsplit(done) == ("", "", "/", f"q=fetch_7%28&sort=cost&gate={gate}", "")
    assert "Resolved: Go on." in words(browser, done)
    until(lambda: gate in gate_ids(browser, "resolved"))
    text = words(browser, "/?status=resolved&q=by+hand")
    assert "Go on Do it by hand." in text
    assert lines(browser, "/?status=resolved&q=by+hand") == [gate]
