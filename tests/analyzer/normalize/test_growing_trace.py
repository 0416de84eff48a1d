"""Turns that are continued span by span are those that are made anew with every span."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.engine.live_task import key_of
from looptrace.analyzer.engine.turn_block import AT
from looptrace.analyzer.fingerprint.single_turns import Turn
from looptrace.analyzer.normalize import trace_buffer
from looptrace.analyzer.normalize.call_matches import TurnKey
from looptrace.analyzer.normalize.trace_buffer import TraceBuffer
from looptrace.collector.files.reader import read_spans
from tests.analyzer.normalize.random_spans import random_spans
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
        news = self.buffer.take(spans, above)
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
