"""Tasks on the page: found, followed, unfolded and explained."""

import json
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.detect.ruleset import DEFAULT
from looptrace.analyzer.gates.agent_states import Heard
from looptrace.analyzer.settings.page import PageSettings
from looptrace.collector.page.task_list import ROWS_A_PAGE, TaskFilter, TaskIndex
from looptrace.collector.page.task_pages import LANES_MAX, TURNS_A_PAGE
from looptrace.collector.server.tokens.sight import EVERYTHING
from looptrace.collector.store import reader, writer
from looptrace.collector.trace_links import TraceLinks
from looptrace.rules.contract import SettingError
from looptrace.rules.vocabulary import NS_PER_S
from tests.analyzer.report.contents import HOSTILE, Page
from tests.collector.page.conftest import Browser, send, words
from tests.collector.store.stored import call, looping, spans_of
from tests.otlp import Trace, tool_call
from tests.reliability.serving import Served, until
from tests.seeds import seeds


def found(store_dir: Path, **query: str) -> list[str]:
    """Return the tasks that fit."""
    tasks = TaskIndex(store_dir, DEFAULT)
    return [row["task"] for row in tasks.find(TaskFilter.of(query), 1, EVERYTHING, NOW_NS).rows]


def healthy(
    session: str,
    calls: int = 3,
    *,
    trace: Trace | None = None,
    parent: str | None = None,
    **options: Any,
) -> Trace:
    """Return a trace of an agent that gets on, or the one that is given with its calls."""
    trace = trace or Trace(session, **options)
    for n in range(calls):
        attributes = tool_call(f"tool_{n}", f'{{"n": {n}}}', result=f"done {n}")
        trace.span("call", parent, attributes)
    return trace


NOW_NS = 1_772_442_600 * NS_PER_S  # 2026-03-02T09:10, ten minutes after the traces.


@pytest.fixture(scope="module")
def store_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store of a task that is stopped, one that warms up, and two that work."""
    folder = tmp_path_factory.mktemp("tasks")
    warming = Trace("warming", at="2026-03-02T09:05:00+00:00", service="shop")
    for _ in range(2):
        call(warming, {"gen_ai.agent.name": "packer"})
    old = healthy("old", at="2026-02-20T09:00:00+00:00")
    writer.ingest(spans_of(looping("stopped"), warming, healthy("works"), old), folder)
    with reader.open_gates(folder) as gates:
        (gate,) = gates.gates("open")
        gates.resolve(gate.id, "continue", "The fixture is STALE.")
    return folder


@pytest.mark.parametrize(
    ("query", "tasks"),
    [
        ({}, ["stopped", "warming@shop", "works", "old"]),
        ({"state": "waiting"}, ["stopped"]),
        ({"state": "looping"}, ["stopped"]),
        ({"state": "warming"}, ["warming@shop"]),
        ({"state": "live"}, ["stopped", "warming@shop", "works"]),
        ({"state": "past"}, ["old"]),
        ({"state": "nonsense"}, ["stopped", "warming@shop", "works", "old"]),
        ({"service": "shop"}, ["warming@shop"]),
        ({"agent": "packer"}, ["warming@shop"]),
        ({"agent": "pack"}, []),
        ({"rule": "repeated_call"}, ["stopped"]),
        ({"action": "gate"}, ["stopped"]),
        ({"action": "pivot"}, []),
        ({"hours": "24"}, ["stopped", "warming@shop", "works"]),
        ({"hours": "25"}, ["stopped", "warming@shop", "works", "old"]),
        ({"q": "STOP"}, ["stopped"]),
        ({"q": "test_cart.py"}, ["stopped", "warming@shop"]),
        ({"q": "packer shop"}, ["warming@shop"]),
        ({"q": "packer nothing"}, []),
        ({"q": "assertionerror TOTAL"}, ["stopped", "warming@shop"]),
        ({"q": "total shop"}, ["warming@shop"]),
        ({"q": '"n":2'}, ["works", "old"]),
        ({"q": "stale fixture"}, ["stopped"]),
        ({"q": ".*"}, []),
        ({"q": "works", "state": "past"}, []),
        ({"page": "2"}, []),
        ({"page": "-1"}, ["stopped", "warming@shop", "works", "old"]),
        ({"page": "9" * 30}, ["stopped", "warming@shop", "works", "old"]),
    ],
)
def test_tasks_are_found(store_dir: Path, query: dict[str, str], tasks: list[str]) -> None:
    """By state, service, agent, rule, time and words; those that wait come first."""
    assert found(store_dir, **query) == tasks


def test_a_task_that_warms_up_says_how_far_it_is(store_dir: Path) -> None:
    """Two of three attempts are no loop yet, and worth a look."""
    rows = TaskIndex(store_dir, DEFAULT).find(TaskFilter(), 1, EVERYTHING, NOW_NS).rows
    row = next(row for row in rows if row["task"] == "warming@shop")

    assert row["warming"] == "repeated_call 2 of 3"
    assert (row["turns"], row["failed"], row["action"]) == (2, 2, "")


@pytest.mark.parametrize(
    ("case", "state"),
    [
        ("each call is a trace", "live"),
        ("the root has ended", "past"),
        ("a trace follows the one whose root has ended", "live"),
        ("done", "past"),
        ("done and taken up again", "live"),
    ],
)
def test_work_ends_with_the_root_span_or_when_it_is_done(
    tmp_path: Path, case: str, state: str
) -> None:
    """A task that is complete is not at work, and one whose agent may go on is."""
    traces = [healthy("s1")]
    if "root" in case:
        rooted = Trace("s1")
        root = rooted.span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"})
        traces = [healthy("s1", trace=rooted, parent=root)]
    if "follows" in case:
        traces.append(healthy("s1", name="second", at="2026-03-02T09:05:00+00:00"))
    if "done" in case:
        done = Trace("s1", name="attempts", at="2026-03-02T09:05:00+00:00")
        done.span("attempt", attributes={"looptrace.task.status": "done"})
        traces.append(done)
    if "again" in case:
        traces.append(healthy("s1", name="again", at="2026-03-02T09:06:00+00:00"))
    writer.ingest(spans_of(*traces), tmp_path)

    assert found(tmp_path, state=state) == ["s1"]
    other = {"live": "past", "past": "live"}[state]
    assert found(tmp_path, state=other) == []


def test_a_decision_is_no_work_of_an_agent_that_has_ended(tmp_path: Path) -> None:
    """Whoever decides on the gate of an ended agent must not read that it is at work again."""
    trace = Trace("s1")
    root = trace.span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"})
    for _ in range(4):
        call(trace, parent=root)
    writer.ingest(spans_of(trace), tmp_path)
    with reader.open_gates(tmp_path) as gates:
        (gate,) = gates.gates("open")
        gates.resolve(gate.id, "continue", "Mind the fixture.", NOW_NS - NS_PER_S)
    writer.ingest(spans_of(), tmp_path)  # It takes effect.

    assert found(tmp_path, state="past") == ["s1"]
    assert found(tmp_path, state="live") == []


def test_a_task_that_waits_is_listed_without_its_turns(
    store_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody must decide on its gate, also where the days of its turns were deleted."""
    kept = reader.read_tasks(store_dir).filter(pl.col("task") != "stopped")
    monkeypatch.setattr(reader, "read_tasks", lambda _: kept)
    rows = (
        TaskIndex(store_dir, DEFAULT).find(TaskFilter(state="waiting"), 1, EVERYTHING, NOW_NS).rows
    )

    assert [(row["task"], row["turns"]) for row in rows] == [("stopped", 0)]
    assert "test_cart.py" in rows[0]["reason"]
    assert [row["tokens"] for row in rows] == [None]


def test_a_task_says_since_when_it_waits_for_a_person(tmp_path: Path) -> None:
    """At a gate, or in a call that a person answers; the next turn ends it."""
    asks = tool_call("ask_user")
    asked, answered = Trace("asked"), Trace("answered")
    for trace in (asked, answered):
        trace.span("ask_user", None, asks)
    writer.ingest(spans_of(looping("stopped"), asked, healthy("a", trace=answered)), tmp_path)
    waiting = TaskFilter(state="waiting")
    rows = TaskIndex(tmp_path, DEFAULT).find(waiting, 1, EVERYTHING, NOW_NS).rows

    assert [(row["task"], row["asks"], row["waits_ns"] > 0) for row in rows] == [
        ("stopped", None, True),
        ("asked", "ask_user", True),
    ]


def test_a_task_whose_agent_has_ended_does_not_wait(tmp_path: Path) -> None:
    """A process says that it ended when the store has all turns; the end of a call says nothing."""
    writer.ingest(spans_of(looping("stopped")), tmp_path)
    heard = Heard()
    tasks = TaskIndex(tmp_path, DEFAULT, lambda: heard)

    def states() -> dict[str, int]:
        return {
            state: tasks.find(TaskFilter(state=state), 1, EVERYTHING).total
            for state in ("waiting", "left")
        }

    assert states() == {"waiting": 1, "left": 0}
    heard = Heard(ended_ns={"stopped": NOW_NS})
    assert states() == {"waiting": 0, "left": 1}


def test_the_list_is_made_anew_when_the_store_changes(tmp_path: Path) -> None:
    """And not before, because that takes as long as the store is large."""
    writer.ingest(spans_of(healthy("one")), tmp_path)
    tasks = TaskIndex(tmp_path, DEFAULT)
    assert tasks.find(TaskFilter(), 1, EVERYTHING).total == 1
    writer.ingest(spans_of(healthy("two")), tmp_path)

    assert tasks.find(TaskFilter(), 1, EVERYTHING).total == 1
    assert tasks.find(TaskFilter(), 2, EVERYTHING).total == 2


def test_long_lists_have_pages(tmp_path: Path) -> None:
    """Every task is on one page and no other."""
    count = ROWS_A_PAGE + 1
    writer.ingest(spans_of(*(healthy(f"t{n:03}") for n in range(count))), tmp_path)
    tasks = TaskIndex(tmp_path, DEFAULT)

    pages = [tasks.find(TaskFilter(page=page), 1, EVERYTHING) for page in (1, 2)]

    assert [page.has_more for page in pages] == [True, False]
    names = [row["task"] for page in pages for row in page.rows]
    assert (len(names), len(set(names))) == (count, count)


def two_agents(task: str) -> Trace:
    """Return a trace of agents that work side by side, and of one that loops."""
    trace = Trace(task)
    for n in range(6):
        for agent in ("scout", "checker"):
            call(trace, {"gen_ai.agent.name": agent}, n=0 if agent == "scout" else n)
    return trace


def lanes_of(page: Page) -> list[str]:
    """Return the lane of each turn."""
    turns = [each["class"] for each in page.all("li") if "lane-" in each.get("class", "")]
    return [turn.split()[0] for turn in turns]


def test_a_task_shows_its_turns_in_lanes(browser: Browser, server: Served) -> None:
    """The agents side by side, with the loops, the decisions, and a link to the trace."""
    send(server, two_agents("pair").request())
    shown = ("12, 12 failed", "Found by", "Decide on the open gate")
    until(lambda: (html := browser.get("/task?id=pair").text) and all(s in html for s in shown))
    page = Page(browser.get("/task?id=pair").text)

    assert lanes_of(page) == ["lane-1", "lane-2"] * 6
    assert [item["class"] for item in page.all("ol") if "turns" in item["class"]] == [
        "turns lanes-2"
    ]
    text = " ".join(page.text.split())
    assert "Agents scout, checker" in text
    assert "Decide on the open gate" in text
    assert "Tasks / waits for a person" in text
    assert "Tokens not reported" in text
    assert "Found by" in text
    assert [link for link in page.all("a") if link["href"].startswith("https://traces.example.com")]


def test_a_task_shows_how_it_ended(browser: Browser, server: Served) -> None:
    """By the last evaluation of each name, and by the author's attribute."""
    trace = healthy("scored")
    for label in ("fail", "pass"):
        score: dict[str, Any] = {
            "gen_ai.evaluation.name": "correctness",
            "gen_ai.evaluation.score.label": label,
            "gen_ai.evaluation.score.value": 0.9,
        }
        ended = {"looptrace.task.outcome": "solved"}
        trace.span("judged", None, ended, [("gen_ai.evaluation.result", score)])
    send(server, trace.request())
    until(lambda: "correctness" in browser.get("/task?id=scored").text)
    facts = words(browser, "/task?id=scored")
    assert "correctness pass (0.9)" in facts
    assert "looptrace.task.outcome solved" in facts
    assert "fail" not in facts.partition("correctness")[2][:20]


def test_more_agents_than_lanes_share_the_last(browser: Browser, server: Served) -> None:
    """A screen has room for few; every agent is named all the same."""
    trace = Trace("crowd")
    for n in range(LANES_MAX + 3):
        call(trace, {"gen_ai.agent.name": f"agent-{n}"}, n=n, tool=f"tool_{n}")
    send(server, trace.request())
    until(lambda: "agent-6" in browser.get("/task?id=crowd").text)
    page = Page(browser.get("/task?id=crowd").text)

    lanes = lanes_of(page)
    assert lanes[-3:] == [f"lane-{LANES_MAX}"] * 3
    assert set(lanes) == {f"lane-{lane}" for lane in range(1, LANES_MAX + 1)}


def test_a_long_task_is_shown_from_its_end(browser: Browser, server: Served) -> None:
    """What happens now is at the bottom of the first page, and what was before is a link away."""
    send(server, healthy("long", TURNS_A_PAGE + 30).request())
    until(lambda: f"tool_{TURNS_A_PAGE + 29}(" in browser.get("/task?id=long").text)

    newest = browser.get("/task?id=long").text
    assert "30 earlier turns" in newest
    assert "tool_29(" not in newest
    before = browser.get("/task?id=long&before=30").text
    assert "tool_29(" in before
    assert f"{TURNS_A_PAGE} later turns" in before
    assert "data-live" in newest
    # What is read stays where it is: the page follows at the same turns.
    assert 'hx-get="/task?id=long&amp;before=30"' in before


def test_a_turn_is_unfolded(browser: Browser) -> None:
    """All that it was called with, all that came back, and a link to its span."""
    until(lambda: "run_tests" in browser.get("/task?id=s1").text)
    text = words(browser, "/task/turn?id=s1&row=2")

    assert 'Called with { "path" : "tests/test_cart.py" }'.replace(" ", "") in text.replace(" ", "")
    assert "Error: 1 failed" in text
    assert "the span" in text
    for query in ("id=s1&row=999", "id=s1&row=-1", "id=s1", "id=nope&row=0", "row=" + "9" * 40):
        assert browser.get(f"/task/turn?{query}").status_code == 404


def test_a_task_says_why_it_loops_and_what_would_change_it(browser: Browser) -> None:
    """It is what `looptrace explain` says, in its words."""
    until(lambda: "run_tests" in browser.get("/task?id=s1").text)
    text = words(browser, "/task/why?id=s1")

    assert "repeated_failure: fired, got to" in text
    assert "would be silent with rules." in text
    assert "would not have come with rules.repeated_failure.enabled = false" in text or (
        "with rules.repeated_failure.enabled = false there is a gate by" in text
    )
    assert browser.get("/task/why?id=nope").status_code == 404


def test_a_task_that_is_none_is_said(browser: Browser) -> None:
    """The page behind an old link says why there is nothing."""
    for query in ("id=nope", "id=", "", "id=%00"):
        answer = browser.get(f"/task?{query}")
        assert answer.status_code == 404
        assert "no such task" in answer.text


FIELDS = (
    *("gen_ai.tool.name", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
    *("gen_ai.agent.name", "gen_ai.conversation.id", "error.type", "error.message"),
    *("looptrace.phase", "looptrace.blockers"),
)
# Each of these alone, within quotes, and after a tag that is closed.
PAYLOADS = [
    template.format(text.replace("\ud800", "\ufffd")[:2_000])
    for text in (*HOSTILE, "<svg onload=alert(1)>", "<a hx-get=/x hx-trigger=load>", "${alert(1)}")
    for template in ("{}", "'{}'", '"{}"', "</code></p></title>{}", "</textarea>{}", "]]>{}",
                     "--><!--{}")
]  # fmt: skip
# Neighbours have the same text or the same template.
PAYLOADS_STEP = 25


def hostile(number: int, payload: str) -> Trace:
    """Return a trace that loops, with a payload in every field."""
    session = f"h{number} {payload}"
    trace = Trace(session, service=payload)
    attributes: dict[str, Any] = dict.fromkeys(FIELDS, payload)
    attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.conversation.id": session}
    for _ in range(5):
        trace.span(payload, attributes=attributes, status="error")
    return trace


def test_hostile_payloads_are_shown_as_text(browser: Browser, server: Served) -> None:
    """In every field, on every page: nothing of a trace becomes a tag, an attribute or a script.

    Each day has other ones, of different kinds.
    """
    assert len(PAYLOADS) >= 100
    numbers = {PAYLOADS_STEP * seed % len(PAYLOADS) for seed in seeds(len(PAYLOADS))}
    for number in numbers:
        send(server, hostile(number, PAYLOADS[number]).request())
    headers = {"authorization": "Bearer a-token-of-20-letters"}
    listed = until(
        lambda: (
            (gates := browser.get("/v1/gates?status=open", headers=headers).json()["gates"])
            and len([gate for gate in gates if gate["task"].startswith("h")]) >= 0.8 * len(numbers)
            and gates
        )
    )
    pages = ["/", "/tasks", "/tasks?page=2", "/overview"]
    for gate in [gate for gate in listed if gate["task"].startswith("h")]:
        at, task = browser.base_url, gate["task"]
        turn = at.copy_with(path="/task/turn", params={"id": task, "row": 1})
        shown = at.copy_with(path="/task", params={"id": task})
        pages += [f"/gates/{gate['id']}", str(shown), str(turn)]
    for path in pages:
        until(partial(is_there, browser, path))
        inert(browser.get(path).text)


def is_there(browser: Browser, path: str) -> bool:
    """Return whether a page is there; turns come into the store a moment after their gate."""
    return browser.get(path).status_code == 200


def inert(html: str) -> None:
    """Check that a page has no tag, attribute or address that its templates do not have."""
    page = Page(html)
    assert page.open == []
    assert (len(page.all("script")), len(page.all("link"))) == (2, 2)
    assert not {"img", "iframe", "object", "embed", "base", "style"} & {t for t, _ in page.elements}
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith(("on", "style", "hx-on"))], tag
        assert attributes.get("hx-get", "/").startswith("/")
        href = attributes.get("href", "/")
        assert href.startswith(("/", "#", "https://traces.example.com/")), href
        assert attributes.get("action", "/").startswith("/")
    marks = set("\x00\x1b\x9b\u202e\u2066\u200b")
    assert [html[max(0, i - 60) : i + 20] for i, c in enumerate(html) if c in marks] == []


@pytest.mark.parametrize("payload", ["</x>", "a/b?c#d", "javascript:alert(1)", "\u202e", "%2f.."])
def test_links_to_traces_hold_ids_alone(payload: str) -> None:
    """An id of a trace cannot lead to another host, path or query than the template's."""
    links = TraceLinks("https://t.example/{trace_id}?s={span_id}&c={session}")

    address = links.to(payload, payload, payload)

    assert address.startswith("https://t.example/")
    assert not set(address.removeprefix("https://t.example/")) & set("/<>#:\u202e")
    assert TraceLinks("").to(payload) == ""


@pytest.mark.parametrize("address", ["javascript:alert(1)", "ftp://a", "//a", "https://a b", "a"])
def test_the_tracing_system_is_on_the_web(address: str) -> None:
    """A template that is no address would make links that run something."""
    with pytest.raises(SettingError, match="must be an https:// or http:// address"):
        PageSettings(trace_url=address)


def test_json_in_results_stays_readable(browser: Browser, server: Served) -> None:
    """Lines and quotes are shown as they came."""
    trace = Trace("lines")
    call(trace, {"gen_ai.tool.call.result": json.dumps({"a": "<b>\n"}) + "\nsecond line"})
    send(server, trace.request())
    text = until(
        lambda: "second line" in (said := browser.get("/task/turn?id=lines&row=0").text) and said
    )

    assert "&lt;b&gt;" in text
    assert "\nsecond line" in text


def test_a_task_is_found_by_its_session(browser: Browser, server: Served) -> None:
    """Whoever runs the agent knows the session, and types it into the address."""
    for service in ("one", "two"):
        trace = Trace("shared", service=service, name=service)
        call(trace, {})
        send(server, trace.request())
    trace = Trace("alone", service="one")
    call(trace, {})
    send(server, trace.request())

    until(lambda: browser.get("/task?id=alone@one").status_code == HTTPStatus.OK)
    for path in ("/task", "/task/why"):
        assert "alone@one" in browser.get(f"{path}?id=alone").text
    until(lambda: browser.get("/task?id=shared@two").status_code == HTTPStatus.OK)
    several = browser.get("/task?id=shared")
    assert several.status_code == HTTPStatus.CONFLICT
    assert "shared@one, shared@two" in several.text
    assert browser.get("/task?id=nobody").status_code == HTTPStatus.NOT_FOUND
