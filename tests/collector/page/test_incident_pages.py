"""Incidents on the page: one line each, one decision for all gates, and what people say."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from looptrace.analyzer.settings.sections import default
from looptrace.analyzer.tuning.exceptions import exceptions_of
from looptrace.collector.page.operating.exception_trials import tried_on
from looptrace.collector.page.worklist.incident_list import IncidentFilter, page_of
from looptrace.collector.store import writer
from looptrace.collector.store.gate_file.incidents import Incident
from looptrace.collector.store.reader import open_gates
from tests.collector.page.conftest import NAMED, TOKEN, Browser, send, served_by, signed_in, words
from tests.collector.store.stored import looping as failing_again
from tests.collector.store.stored import spans_of
from tests.reliability.serving import Served, looping, until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a store in which three tasks loop alike."""
    tokens = f"{TOKEN}\nAda Lovelace {NAMED}\n"
    with served_by(tmp_path_factory.mktemp("incidents"), tokens) as found:
        for task in ("s1", "s2", "s3"):
            send(found, looping(task, 6).request())
        with signed_in(found.address) as browser:
            until(lambda: "3 gates open" in browser.get("/").text)
        yield found


def path_of(browser: Browser) -> str:
    """Return the path of the one incident."""
    (path,) = set(re.findall(r'href="(/incidents/\w+)"', browser.get("/incidents").text))
    return str(path)


def words_with_lines(browser: Browser, path: str) -> str:
    """Return the text of a page as it was sent."""
    return html.unescape(browser.get(path).text)


def test_the_list_is_searched_filtered_and_cut_into_pages(browser: Browser) -> None:
    """A word may be in what repeats; a filter that nothing matches says so."""
    for query in ("q=RUN_tests+again", "state=open", "service=&agent=", "page=x"):
        assert "1 incident" in words(browser, f"/incidents?{query}"), query
    for query in ("q=deploy", "state=resolved", "service=shop", "page=2"):
        text = words(browser, f"/incidents?{query}")
        assert "came again and again" not in text, query
    assert "No incident matches. Remove a filter" in words(browser, "/incidents?q=deploy")


def test_many_incidents_are_a_hundred_a_page() -> None:
    """The filter chooses before the pages are cut."""
    many = [incident(number) for number in range(250)]
    first = page_of(many, IncidentFilter())
    last = page_of(many, IncidentFilter(page=3))
    found = page_of(many, IncidentFilter(q="TOOL-249 shop", service="shop-1"))

    assert (len(first.rows), first.total, first.has_more) == (100, 250, True)
    assert (last.rows[0].tool, len(last.rows), last.has_more) == ("tool-200", 50, False)
    assert [each.tool for each in found.rows] == ["tool-249"]
    assert found.choices["service"] == ["shop-0", "shop-1"]


def incident(number: int) -> Incident:
    """Return an incident of one gate."""
    about = {"family": "calls", "signature": "", "agent": "", "reason": "", "state": "open"}
    counts = dict.fromkeys(("tasks", "gates", "gates_open"), 1)
    costs = dict.fromkeys(("seconds", "input_tokens", "output_tokens", "first_ns", "last_ns"), 0)
    own = {"id": f"i{number}", "tool": f"tool-{number}", "service": f"shop-{number % 2}"}
    return Incident(**(about | counts | costs | own))  # type: ignore[arg-type] # These are all.


def moved(answer: httpx.Response) -> str:
    """Return where a form leads."""
    assert answer.status_code == 303
    return str(answer.headers["location"])


def test_three_equal_loops_are_one_line(browser: Browser) -> None:
    """It leads to the gates, and each gate leads back."""
    text = words(browser, "/incidents")
    for part in (
        "1 incident",
        "run_tests(tests/test_cart.py) came again and again",
        "open unknown_service:agent 3 open 3 gates in all 3 tasks",
        "since 2026",
    ):
        assert part in text, part
    assert "How should the tasks of 3 open gates go on?" in words(browser, path_of(browser))
    shown = browser.get(path_of(browser)).text
    gates = set(re.findall(r'href="(/gates/\w+)"', shown))
    assert len(gates) == 3
    assert all(f'href="{path_of(browser)}"' in browser.get(gate).text for gate in gates)
    assert browser.get("/incidents/none").status_code == 404


def test_what_people_say_is_shown(browser: Browser) -> None:
    """A state, an owner and a reason; what cannot be said is refused, and changes nothing."""
    path = path_of(browser)
    given = {"state": "muted-8", "owner": "Ada", "owner_before": ""}
    assert moved(browser.submit(path, path, **given, why="known <b>", who="Bo")) == path
    text = words(browser, path)
    for part in ("muted until 20", "Owner Ada", "by Bo known <b>", "owner Ada by Bo"):
        assert part in text, part
    given = {"state": "open", "owner": "Ada", "owner_before": "Ada"}
    browser.submit(path, path, **given)
    assert "muted until" not in words(browser, "/incidents")
    for given in ({"state": "asleep"}, {"state": "", "owner": "Ada", "owner_before": "Ada"}):
        to = moved(browser.submit(path, path, **given))
        assert "refused=" in to
        assert re.search("cannot be set to|nothing to change", words(browser, to))
    assert browser.send_form(path, state="resolved").status_code == 403


def test_one_decision_ends_all_of_its_gates(server: Served, browser: Browser) -> None:
    """A note is asked for as on a gate, and who decided is on each."""
    path = path_of(browser)
    to = moved(browser.submit(path, f"{path}/decide", decision="continue", note=" "))
    assert "without a note the agent is likely" in words(browser, to)
    with signed_in(server.address, NAMED) as ada:
        sent = {"decision": "continue", "note": "The cart was renamed."}
        assert moved(ada.submit(path, f"{path}/decide", **sent)) == path
        text = words(ada, path)
    assert text.count("Go on, by Ada Lovelace") == 3
    assert "0 of 3 open, in 3 tasks" in text
    until(lambda: words(browser, path).count("The cart was renamed.") == 1)
    assert "resolved" in words(browser, "/incidents")
    assert 'action="/incidents/' in browser.get(path).text  # It can still be set.
    assert f'action="{path}/decide"' not in browser.get(path).text
    assert moved(browser.get(f"{path}/decide")) == path
    send(server, looping("s4", 6).request())
    until(lambda: "1 of 4 open, in 4 tasks" in words(browser, path))
    assert "How should its task go on?" in words(browser, path)
    assert "Called no loop" not in words(browser, path)
    browser.submit(path, f"{path}/decide", decision="not_a_loop")
    assert "Called no loop" in words(browser, path)
    lines = words_with_lines(browser, path)
    assert 'tool = "run_tests"\nsignature = "' in lines
    assert f'href="{path}/exception"' in browser.get(path).text


def test_an_exception_is_tried_on_the_last_days(tmp_path: Path) -> None:
    """As by the command line: its gates, and those of other loops that it would end."""
    days = ("2026-03-02T09:00:00Z", "2026-03-03T09:00:00Z", "2026-02-02T09:00:00Z")
    same = [failing_again(f"s{n}", at, service="shop") for n, at in enumerate(days)]
    other = failing_again("b1", service="bank")
    writer.ingest(spans_of(*same, other, failing_again("n1", service="shop")), tmp_path)
    with open_gates(tmp_path) as gates:
        (shop,) = (each for each in gates.incidents() if each.service == "shop")
        details = gates.incident(shop.id)
    exceptions = exceptions_of(details.loop, default().policy.rule_set)
    trial, left_out = tried_on(tmp_path, details, exceptions, default())
    assert (trial.tasks, left_out) == (4, 0)
    assert (trial.own, trial.own_ended, trial.others) == (3, 3, 1)
    assert trial.others_ended == ("b1@bank",)
    few, left_out = tried_on(tmp_path, details, exceptions, default(), turns_max=1)
    assert (few.tasks, left_out, few.own_ended) == (1, 3, 1)


def test_the_trial_of_an_exception_is_shown(browser: Browser) -> None:
    """With the lines for the settings, whose comments say the same."""
    path = f"{path_of(browser)}/exception"
    # The trial reads the store, to which turns come a moment after their gates.
    tried = r"Gates of this loop ([34]) of \1 would not open"
    text = until(lambda: re.search(tried, t := words(browser, path)) and t)
    assert "Other gates 0 of 0 would not open" in text
    assert "# Tried over 7 days and" in words_with_lines(browser, path)
    assert browser.get("/incidents/none/exception").status_code == 404


def test_a_silence_is_made_and_ended(browser: Browser) -> None:
    """One of everything is refused."""
    given = {"rule": "", "tool": "run_tests", "hours": "8 hours", "why": "known <b>", "who": "Bo"}
    assert moved(browser.submit("/incidents", "/silences", **given)) == "/incidents"
    text = words(browser, "/incidents")
    assert re.search("tool run_tests until 20.{17} ?, 0 gates held back. known <b> by Bo End", text)
    refused = moved(browser.submit("/incidents", "/silences", **(given | {"tool": " "})))
    assert "a silence needs a rule" in words(browser, refused)
    (end,) = re.findall("/silences/[0-9a-f]+/end", browser.get("/incidents").text)
    assert moved(browser.submit("/incidents", end)) == "/incidents"
    assert "No silence holds now." in words(browser, "/incidents")
    assert moved(browser.get("/silences")) == "/incidents"
