"""Spans that arrive one by one become the turns that they become at once."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.engine.live import LiveEngine
from looptrace.analyzer.fields.span_fields import span_fields_of
from looptrace.analyzer.gates.state_machine import Gate, TaskState
from looptrace.analyzer.normalize.session_history import SessionHistory
from looptrace.analyzer.normalize.trace_buffer import SPANS_PER_TRACE_MAX, TraceBuffer
from looptrace.analyzer.normalize.turn_builder import turns_of, turns_of_fields
from looptrace.analyzer.schema.distinct_spans import distinct_spans
from looptrace.analyzer.schema.spans import span_rows
from looptrace.analyzer.schema.turns import TURN_KEY, TURN_SCHEMA
from looptrace.analyzer.testing.notation import turns_in
from looptrace.collector.files.reader import read_spans
from tests.collector.store.test_writer import spans_of
from tests.otlp import Trace

EXAMPLES = sorted(Path("examples/traces").glob("*.*"))
# What a place among all turns says is known of all turns only.
PLACES = ("turn", "order_ns")
CALL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ls"}


def spans_in(path: Path) -> pl.DataFrame:
    """Return the spans of a file as they ended."""
    spans = read_spans([str(path)]).spans
    return spans.sort("end_ns", "start_ns", "span_id", descending=[False, True, False])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("size", [1, 7])
def test_turns_are_those_of_all_spans_at_once(path: Path, size: int) -> None:
    """What is known last of each turn is what the whole trace says."""
    spans, arrivals = spans_in(path), TraceBuffer()
    rows = span_rows(spans)
    # What an agent's span says is known while it is open; see the processor.
    news = [
        arrivals.take(rows[start : start + size], above=rows[start + size :])
        for start in range(0, len(rows), size)
    ]
    turns = [turn for part in [*news, arrivals.rest()] for turn in part.turns]
    came = pl.DataFrame(turns, TURN_SCHEMA, orient="row").unique(TURN_KEY, keep="last").drop(PLACES)
    whole = turns_of(spans)[0].drop(PLACES)
    assert came.sort(TURN_KEY).equals(whole.sort(TURN_KEY))


def test_a_span_that_comes_again_is_no_news() -> None:
    """Exporters send twice what was not acknowledged."""
    arrivals = TraceBuffer()
    spans = _spans("s1", 3)
    assert len(arrivals.take(span_rows(spans)).turns) == 3
    assert not arrivals.take(span_rows(spans)).turns


@pytest.mark.parametrize("names_first", [True, False])
def test_of_two_copies_of_a_span_the_one_that_says_more_is_kept(names_first: bool) -> None:
    """An exporter sends a span as it is, beside a processor that adds what it inherits."""
    named = _spans("talk", 3)
    plain = named.with_columns(
        attributes=pl.col("attributes").str.replace('"gen_ai.conversation.id":"talk",', "")
    )
    copies = [named, plain] if names_first else [plain, named]
    kept, reported = distinct_spans(pl.concat(copies))
    assert (kept.sort("span_id").equals(named.sort("span_id")), len(reported)) == (True, 3)
    arrivals = TraceBuffer()
    news = [arrivals.take(span_rows(spans)) for spans in copies]
    last = news[0] if names_first else news[1]
    assert {turn[TURN_SCHEMA.names().index("task")] for turn in last.turns} == {"talk"}
    assert bool(news[1].turns) != names_first


def test_traces_go_that_were_touched_longest_ago() -> None:
    """However many come, what is held has a bound."""
    arrivals = TraceBuffer(chars_max=20_000)
    for number in range(100):
        assert len(arrivals.take(span_rows(_spans(f"s{number}", 2))).turns) == 2
    assert len(arrivals) < 10
    assert arrivals.dropped == 100 - len(arrivals)


def test_of_a_long_trace_the_last_spans_are_held() -> None:
    """Each turn of it is news once."""
    arrivals, spans = TraceBuffer(), _spans("s1", SPANS_PER_TRACE_MAX + 50)
    news = sum(len(arrivals.take(span_rows(part)).turns) for part in spans.iter_slices(500))
    assert news == spans.height


def test_tasks_go_that_were_fed_longest_ago_and_a_gate_is_recalled() -> None:
    """P8: of a million sessions so many are held as may be; none that waits is let go on."""
    gate = TaskState("t7", "blocked", gate=Gate("g", "r", "s", 0))
    engine = LiveEngine(recall=lambda task: gate if task == "t7" else TaskState(task), tasks_max=10)
    for number in range(50):
        fed = engine.feed(_turns(f"t{number}", "run(a)->same x9"))
        opened = [event for event in fed.events if event.type == "gate_opened"]
        assert bool(opened) is (number != 7)
    assert len(engine) == 10
    assert engine.evicted == 40
    assert engine.kept < 100


def _turns(task: str, notation: str) -> pl.DataFrame:
    return turns_in(notation).with_columns(task=pl.lit(task))


def _spans(session: str, count: int) -> pl.DataFrame:
    trace = Trace(session)
    for number in range(count):
        trace.span("ls", attributes={**CALL, "gen_ai.tool.call.arguments": f'{{"n": {number}}}'})
    return spans_of(trace)


def test_what_is_known_of_results_has_a_bound() -> None:
    """Traces go, and with them must go what their histories showed, or memory grows for ever."""
    history = SessionHistory.bounded()
    for number in range(40):
        call = {"type": "tool_call", "id": "c1", "name": "read", "arguments": {"n": number}}
        result = {"type": "tool_call_response", "id": "c1", "response": "x" * (1 << 20)}
        given = [{"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [result]}]
        trace = Trace(f"s{number}")
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(given)}
        trace.span("chat", attributes=attributes)
        turns_of_fields(span_fields_of(spans_of(trace)), sessions=history)

    assert len(history.told) == 40
    assert 0 < len(history.results) <= 16
