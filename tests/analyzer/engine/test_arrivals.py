"""Spans that arrive piece by piece lead to the findings and events of batch, each event once."""

from __future__ import annotations

import json
import random
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.live import LiveEngine
from looptrace.analyzer.normalize.trace_buffer import TraceBuffer
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.collector.files.reader import read_spans
from tests.collector.store.test_writer import spans_of
from tests.otlp import Trace
from tests.paths import ROOT, SHARED
from tests.seeds import seeds

# The name of their session or task stands only on the agent's own span, which ends last, or in a
# trace that comes later. Their turns stay with the task that was known first.
NAMED_LAST = (
    "autogen-native-loop",
    "autogen-native-ok",
    "looptrace-own-loop",
    "looptrace-own-ok",
    "support_bot_same_answer_loop",
)
FILES = [
    path
    for folder in (ROOT / "examples/traces", ROOT / "tests/framework_traces", SHARED / "frameworks")
    for path in sorted(folder.glob("*.json*")) + sorted(folder.glob("*.binpb"))
    if path.name.partition(".")[0] not in NAMED_LAST
]


def events_live(spans: pl.DataFrame, size: int) -> tuple[list[str], set[str]]:
    """Feed spans in their order; returns the ids of the events, as they came, and findings."""
    arrivals, engine = TraceBuffer(), LiveEngine()
    parts = [arrivals.take(part) for part in spans.iter_slices(size)]
    events = [event.id for part in [*parts, arrivals.rest()] for event in engine.feed(part).events]
    return events, {finding.id for finding in engine.findings()}


def assert_live_is_batch(spans: pl.DataFrame, size: int) -> None:
    """Assert that events and findings are those of all spans at once, and each event comes once."""
    whole = detect(turns_of(spans)[0])
    events, findings = events_live(spans, size)
    assert sorted(events) == sorted(event.id for event in whole.events)
    assert findings == {finding.id for finding in whole.findings}


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_files_arrive_in_the_order_of_ends(path: Path, size: int) -> None:
    """Frameworks name the agent on the span that ends last; its loop is one loop all the same."""
    assert_live_is_batch(read_spans([str(path)]).spans.sort("end_ns"), size)


def separate(session: str, calls: int, *, link: bool = False) -> list[Trace]:
    """Return an agent whose model calls are traces of their own, and whose tools have no spans.

    A plain client that is instrumented writes that: results are only in the next call's history.
    """
    traces: list[Trace] = []
    history = [{"role": "user", "parts": [{"type": "text", "content": "Mend the build."}]}]
    for number in range(calls + 1):
        part = {"type": "tool_call", "id": f"c{number}", "name": "build", "arguments": {"t": "all"}}
        asks = {"role": "assistant", "parts": [part]}
        trace = Trace(
            session,
            name=str(number),
            at=f"2026-03-02T09:{number:02}:00+00:00",
            session_key=None if link else "gen_ai.conversation.id",
        )
        trace.span(
            "chat",
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": json.dumps(history),
                "gen_ai.output.messages": json.dumps([asks]),
            },
            links=[(traces[-1].trace_id, "00" * 8)] if link and traces else (),
        )
        result = {"type": "tool_call_response", "id": f"c{number}", "response": "error: no rule"}
        history += [asks, {"role": "tool", "parts": [result]}]
        traces.append(trace)
    return traces


@pytest.mark.parametrize("link", [False, True], ids=["session", "links"])
@pytest.mark.parametrize("size", [1, 3])
def test_a_session_of_many_traces_is_one_task(size: int, *, link: bool) -> None:
    """A result that a later trace shows belongs to a call of an earlier one, live as in batch."""
    spans = spans_of(*separate("s1", 8, link=link))
    whole = detect(turns_of(spans)[0])
    assert {finding.rule for finding in whole.findings} >= {"repeated_call"}
    assert_live_is_batch(spans, size)


@pytest.mark.parametrize("seed", range(seeds(5)))
def test_traces_of_sessions_come_in_any_order(seed: int) -> None:
    """Exporters retry; what arrives a little late changes nothing in the end."""
    spans = spans_of(*separate("s1", 5), *separate("s2", 4)).sort("end_ns")
    places = list(range(spans.height))
    order = sorted(
        places, key=lambda place: place + random.Random(seed * 100 + place).uniform(0, 3)
    )
    events, findings = events_live(spans[order], 1)
    whole = detect(turns_of(spans)[0])
    assert set(events) >= {event.id for event in whole.events}
    assert findings == {finding.id for finding in whole.findings}
