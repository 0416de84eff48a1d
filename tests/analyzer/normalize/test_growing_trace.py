"""Turns that are continued span by span are those that are made anew with every span."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.engine.live_task import key_of
from looptrace.analyzer.engine.turn_block import AT
from looptrace.analyzer.fields.dialect_table import DialectTable
from looptrace.analyzer.fields.span_fields import span_fields_of_rows
from looptrace.analyzer.normalize import trace_buffer
from looptrace.analyzer.normalize.call_matches import TurnKey
from looptrace.analyzer.normalize.trace_buffer import TraceBuffer
from looptrace.analyzer.schema.span_fields import SpanFields
from looptrace.analyzer.schema.spans import SpanRow, span_rows
from looptrace.analyzer.schema.turns import Turn
from looptrace.collector.files.reader import read_spans
from tests.analyzer.normalize.random_spans import random_spans
from tests.collector.store.test_writer import spans_of
from tests.otlp import Trace
from tests.paths import ROOT, SHARED
from tests.seeds import seeds

FILES = [
    path
    for folder in (ROOT / "examples/traces", ROOT / "tests/framework_traces", SHARED / "frameworks")
    for path in sorted(folder.glob("*.json*")) + sorted(folder.glob("*.binpb"))
]
files = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")


@dataclass
class Followed:
    """A buffer and the turns that it has told of."""

    buffer: TraceBuffer = field(default_factory=TraceBuffer)
    turns: dict[tuple[str, TurnKey], Turn] = field(default_factory=dict)

    def take(self, spans: pl.DataFrame, above: pl.DataFrame | None = None) -> None:
        """Take spans, and what they tell of turns."""
        news = self.buffer.take(span_rows(spans), () if above is None else span_rows(above))
        for lost in news.gone:
            self.turns.pop(lost, None)
        self.turns |= {(turn[AT["task"]], key_of(turn)): turn for turn in news.turns}


def assert_continued_is_anew(
    spans: pl.DataFrame, size: int, monkeypatch: pytest.MonkeyPatch, *, opens: bool = False
) -> Followed:
    """Assert that a buffer that continues turns knows those of one that never does."""
    continued, anew = Followed(), Followed()
    for begin in range(0, spans.height, size):
        part, above = spans[begin : begin + size], spans[begin + size :] if opens else None
        continued.take(part, above)
        with monkeypatch.context() as patch:
            patch.setattr(trace_buffer._Trace, "grow", lambda *_: None)
            anew.take(part, above)
        assert continued.turns == anew.turns
        waiting = [each.buffer._waiting._of for each in (continued, anew)]
        assert waiting[0].keys() >= waiting[1].keys()
    assert not anew.buffer.continued
    return continued


@pytest.mark.parametrize(("size", "opens"), [(1, False), (1, True), (3, False)])
@files
def test_spans_come_as_they_end(
    path: Path, size: int, monkeypatch: pytest.MonkeyPatch, *, opens: bool
) -> None:
    """So an agent sends them."""
    spans = read_spans([str(path)]).spans.sort("end_ns")
    assert_continued_is_anew(spans, size, monkeypatch, opens=opens)


@pytest.mark.parametrize("seed", range(seeds(6)))
@files
def test_spans_come_in_other_orders(path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some come a little late, or all of them anyhow; some come twice."""
    rng = random.Random(seed)
    spans = read_spans([str(path)]).spans.sort("end_ns")
    far = rng.choice([2, 5, spans.height])
    places = sorted(range(spans.height), key=lambda place: place + rng.random() * far)
    places += rng.sample(places, min(2, len(places)))
    assert_continued_is_anew(spans[places], rng.choice([1, 1, 2, 5]), monkeypatch)


# Made-up traces that were once continued otherwise.
FOUND = (1093, 1353, 1724, 3556, 4091, 10825, 30748)


@pytest.mark.parametrize("seed", [*FOUND, *range(seeds(400))])
def test_spans_of_any_trace(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls with ids and without; results, names and parents that come late; several traces."""
    spans = random_spans(seed)
    opens = seed % 5 == 0
    assert_continued_is_anew(spans, [1, 1, 3][seed % 3], monkeypatch, opens=opens)


TOOL = {"gen_ai.operation.name": "execute_tool"}
AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "lead"}


class CountedList(list[str]):
    """A list that counts how often somebody goes through it."""

    looks = 0

    def __iter__(self) -> Iterator[str]:
        """Count, and go through it."""
        self.looks += 1
        return super().__iter__()


def test_the_spans_below_an_open_span_are_not_gone_through_each_time() -> None:
    """It comes again with each span below it, so each would take longer than the one before."""
    trace = Trace()
    root = trace.span("agent", attributes=AGENT)
    for number in range(20):
        trace.span("ls", root, TOOL | {"gen_ai.tool.name": f"ls{number}"})
    spans = spans_of(trace)
    above, below = spans[:1], spans[1:]
    followed = Followed()
    for place in range(10):
        followed.take(below[place], above)
    (held,) = followed.buffer._traces.values()
    assert held.growing
    children = held.growing._children
    children[root] = counted = CountedList(children[root])
    for place in range(10, 20):
        followed.take(below[place], above)
    assert (len(counted), counted.looks) == (20, 0)
    assert len(followed.turns) == 20


def test_an_open_span_is_read_when_it_is_new_or_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It comes again with each span below it, and says the same."""
    trace = Trace()
    root = trace.span("agent", attributes=AGENT)
    for name in ("ls", "read", "run", "ls"):
        trace.span(name, root, TOOL | {"gen_ai.tool.name": name})
    (opened, *below), read = span_rows(spans_of(trace)), list[str]()

    def noted(rows: Sequence[SpanRow], dialects: DialectTable) -> list[SpanFields]:
        read.extend(row[3] for row in rows)
        return span_fields_of_rows(rows, dialects)

    monkeypatch.setattr(trace_buffer, "span_fields_of_rows", noted)
    buffer = TraceBuffer()
    renamed = (*opened[:3], "other", *opened[4:])
    for row, above in zip(below, [opened, opened, renamed, renamed], strict=True):
        buffer.take([row], [above])
    assert read == ["ls", "agent", "read", "run", "other", "ls"]


def test_an_open_span_gets_the_name_of_a_span_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two record one call then, as they would if it had had the name from the beginning."""
    trace = Trace()
    root = trace.span("agent", attributes=AGENT)
    outer = trace.span("run", root, TOOL | {"gen_ai.tool.name": "run"}, seconds=9)
    for name in ("ls", "read", "ls"):
        trace.span(name, outer, TOOL | {"gen_ai.tool.name": name})
    spans = spans_of(trace).sort("end_ns")
    below, opened = spans[:3], spans[3:]
    renamed = opened.with_columns(pl.col("attributes").str.replace('"run"', '"read"'))
    continued, anew = Followed(), Followed()
    steps = [(below[0], opened), (below[1], opened), (below[2], renamed), (renamed[0], renamed[1])]
    for part, above in steps:
        continued.take(part, above)
        with monkeypatch.context() as patch:
            patch.setattr(trace_buffer._Trace, "grow", lambda *_: None)
            anew.take(part, above)
        assert continued.turns == anew.turns
    assert {turn[AT["name"]] for turn in anew.turns.values()} == {"ls", "read"}
    assert len(anew.turns) == 3
