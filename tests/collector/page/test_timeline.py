"""A task on a time axis: where its bars are, who called whom, what is cut short."""

import json
import re
from http import HTTPStatus
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.detect.loops import loops_in
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.collector.page.timeline.axis import CUT_PX, axis_of
from looptrace.collector.page.timeline.drawing import WIDTH_PX, Timeline, timeline_of
from looptrace.collector.page.timeline.parents import FAMILY_COLUMNS, Family
from looptrace.collector.page.timeline.raw_span import raw_texts
from looptrace.collector.store import reader, writer
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.page.conftest import Browser, gate_of, send
from tests.collector.store.stored import call, spans_of
from tests.otlp import Trace, tool_call
from tests.reliability.serving import Served, until

S = NS_PER_S


def test_long_gaps_are_cut_and_the_rest_is_to_scale() -> None:
    """Three seconds of work on two days are three seconds of drawing, and the night is named."""
    day_s = 86_400
    axis = axis_of([(0, S), (2 * S, 3 * S), (day_s * S, (day_s + 1) * S)], 446.0)

    (cut,) = axis.cuts
    assert (cut.x, cut.text) == (300.0, "23 h 59 min")
    places = [axis.x(int(s * S)) for s in (0, 1, 2.5, 3, day_s / 2, day_s, day_s + 0.5, 2 * day_s)]
    assert places == [0.0, 100.0, 250.0, 300.0, 300.0, 300.0 + CUT_PX, 350.0 + CUT_PX, 446.0]
    assert axis.x(-S) == 0.0
    assert [(tick.text, tick.x) for tick in axis.ticks][:3] == [
        ("0", 0.0),
        ("1.0 s", 100.0),
        ("2.0 s", 200.0),
    ]
    axis = axis_of([(0, 9 * S), (day_s * S, (day_s + 9) * S)], 2_000.0)
    later = [tick.text for tick in axis.ticks if tick.x > axis.offsets[1]]
    assert later[:2] == ["+1.0 s", "+2.0 s"]  # All would be a day otherwise.


def test_ticks_of_a_short_run_differ() -> None:
    """In tenths of a second all of them would read `under 0.1 s`."""
    ms = S // 1_000
    axis = axis_of([(0, 4 * ms)], 400.0)
    assert [tick.text for tick in axis.ticks] == ["0", "1 ms", "2 ms", "3 ms", "4 ms"]
    axis = axis_of([(0, 2 * S)], 4_000.0)
    assert [tick.text for tick in axis.ticks][1::19] == ["50 ms", "1,000 ms", "1,950 ms"]
    axis = axis_of([(0, 2 * S)], 2_000.0)
    assert [tick.text for tick in axis.ticks][1::9] == ["0.1 s", "1.0 s", "1.9 s"]


def test_even_work_is_not_cut() -> None:
    """Pauses that belong to the pace of an agent stay as long as they are."""
    axis = axis_of([(n * 10 * S, (n * 10 + 1) * S) for n in range(10)], 910.0)

    assert axis.cuts == []
    assert axis.x(50 * S) == 500.0


@pytest.mark.parametrize(
    ("parents", "order"),
    [
        ({}, ["a", "b", "c"]),
        ({"a": "b"}, ["b", "a", "c"]),
        ({"c": "a"}, ["a", "c", "b"]),
        ({"a": "b", "b": "a"}, ["c", "a", "b"]),
        ({"a": "z"}, ["a", "b", "c"]),
    ],
)
def test_lanes_are_in_the_order_of_calls(parents: dict[str, str], order: list[str]) -> None:
    """Whoever is called is below its caller, and a circle of callers ends."""
    family = Family(parents)

    assert family.in_order(["a", "b", "c"]) == order
    assert all(0 <= family.depth(agent) <= 2 for agent in order)


def delegating() -> Trace:
    """Return a planner that asks a helper, which loops; two calls of it are at the same time."""
    trace = Trace("plan")
    agent = "gen_ai.agent.name"
    kind = "gen_ai.operation.name"
    top = trace.span("invoke_agent planner", None, {kind: "invoke_agent", agent: "planner"})
    ask = trace.span("execute_tool ask", top, tool_call("ask") | {agent: "planner"})
    below = trace.span("invoke_agent helper", ask, {kind: "invoke_agent", agent: "helper"})
    for _ in range(5):
        call(trace, {agent: "helper"}, parent=below)
    return trace


def drawn(store_dir: Path, task: str) -> Timeline:
    """Draw a stored task."""
    turns = reader.read_turns_of(store_dir, task)
    spans = reader.read_rows(store_dir, "spans", pl.lit(value=True), FAMILY_COLUMNS)
    leads = [loop.lead for loop in loops_in(reader.read_findings_of_tasks(store_dir, [task]))]
    with reader.open_gates(store_dir) as gates:
        events = [event for _, event in gates.events(task=task)]
    line = timeline_of(turns, spans, leads, events)
    assert line is not None
    return line


def test_an_agent_that_is_called_is_below_its_caller(tmp_path: Path) -> None:
    """With the run of each, the line of the call, the loop, and the wait at the gate."""
    writer.ingest(spans_of(delegating()), tmp_path)
    line = drawn(tmp_path, "plan")

    assert [(lane.name, lane.indent > 0) for lane in line.lanes] == [
        ("planner", False),
        ("helper", True),
    ]
    assert [run.text.split(",")[0] for run in line.runs] == [
        "invoke_agent planner",
        "invoke_agent helper",
    ]
    assert line.calls.count("M") == 1
    assert line.arcs.count("M") == 4
    ask, handed, *calls = sorted(line.bars, key=lambda bar: -bar.width)
    assert (ask.in_loop, handed.in_loop, {bar.in_loop for bar in calls}) == (False, False, {True})
    assert ask.width > handed.width > sum(bar.width for bar in calls)
    assert ask.y < handed.y < line.lanes[1].y
    assert all(0 <= bar.x <= WIDTH_PX and bar.x + bar.width <= WIDTH_PX + 3 for bar in line.bars)
    assert {bar.failed for bar in calls} == {True}
    (wait,) = line.waits
    assert wait.text == "gate, still open"
    assert ("gate", "gate opened") in {(mark, said) for _, mark, said in line.marks}
    assert "7 turns of 2 agents in 7.0 s" in line.text


def test_overlapping_calls_are_below_each_other(tmp_path: Path) -> None:
    """Two bars at one place would hide each other."""
    start = pl.lit(1_772_442_600 * S)
    spans = spans_of(delegating()).with_columns(start_ns=start, end_ns=start + 10 * S)
    writer.ingest(spans, tmp_path)
    line = drawn(tmp_path, "plan")

    helper = [bar.y for bar in line.bars if bar.y > line.lanes[1].y]
    assert len(set(helper)) == len(helper) == 5


def test_turns_without_times_have_no_timeline() -> None:
    """The strip shows them."""
    assert timeline_of(TURN_SCHEMA.to_frame(), pl.DataFrame(), [], []) is None


def test_a_turn_shows_its_span_as_it_is_stored(browser: Browser) -> None:
    """Raw attributes and JSON, with the ids to copy."""
    path = "/task/turn?id=s1&row=2"
    until(lambda: browser.get(path).status_code == HTTPStatus.OK)
    shown = browser.get(path).text

    assert "Raw attributes" in shown
    assert "The span as JSON" in shown
    assert "gen_ai.tool.call.arguments" in shown
    (span_id,) = re.findall(r'span <code>(\w{16})</code> <button[^>]* data-copy="(\w{16})"', shown)
    assert span_id[0] == span_id[1]
    assert "data-copy-block" in shown


def test_messages_are_read_from_their_json() -> None:
    """A conversation within a string within JSON is hard to read."""
    said = json.dumps([{"role": "user", "content": "Hello <b>"}])
    attributes = json.dumps({"gen_ai.input.messages": said, "n": 1})
    texts = dict(raw_texts({"attributes": attributes, "events": "[]", "links": "[]", "name": "x"}))

    assert json.loads(texts["Messages"]) == {"gen_ai.input.messages": json.loads(said)}
    assert json.loads(texts["The span as JSON"])["attributes"]["n"] == 1
    assert "Messages" not in dict(raw_texts({"attributes": "{}", "events": "[]", "links": "[]"}))


def test_the_report_for_a_debugging_agent_is_at_hand(browser: Browser, server: Served) -> None:
    """It is what `looptrace escalation` writes; a link and a button lead to it."""
    send(server, delegating().request())
    gate = gate_of(browser, "plan")
    path = f"/gates/{gate}/report"
    report = until(lambda: (a := browser.get(path)).status_code == 200 and a)

    assert report.headers["content-type"].startswith("text/plain")
    assert report.text.startswith("# ")
    for page in (f"/gates/{gate}", "/task?id=plan"):
        assert f'href="{path}"' in browser.get(page).text
    assert browser.get("/gates/none/report").status_code == 404
