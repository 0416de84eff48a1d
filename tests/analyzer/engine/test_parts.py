"""Parts of the spans find what the whole finds."""

import tempfile
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from looptrace.analyzer.engine import parts, span_spool
from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.engine.outages import failures_of
from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.fields.dialect_table import SHIPPED
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.collector.files import reader
from looptrace.collector.files.reader import read_spans, spool_spans
from looptrace.errors import UnavailableError
from tests.paths import ROOT

FOLDERS = (ROOT / "examples/traces", ROOT / "tests/framework_traces")
TRACES = [str(path) for folder in FOLDERS for path in sorted(folder.glob("*.json*"))]


def test_a_part_has_traces_that_came_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what one part has had can be let go of before the next."""
    spans = read_spans(TRACES).spans
    monkeypatch.setattr(parts, "PART_SPANS", spans.height // 3)
    with SpanSpool() as spool:
        spool.add(spans)
        found = [*parts.shared_out(spool, SHIPPED)]
    assert len(found) > 2
    assert sum(part.height for part in found) == spans.height
    order = list(dict.fromkeys(spans["trace_id"]))
    places = [[order.index(trace) for trace in part["trace_id"].unique()] for part in found]
    assert sum(max(place) - min(place) + 1 for place in places) < 2 * len(order)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_turns_are_the_same_with_any_number_of_threads(threads: int) -> None:
    """Each thread has some hundred spans at least, and here more threads than one have some."""
    spans = read_spans(TRACES).spans
    assert spans.height > 4 * 256
    alone, noted = turns_of(spans)
    turns, also_noted = turns_of(spans, threads=threads)
    assert turns.equals(alone)
    assert also_noted == noted


@pytest.mark.requirement("F2")
@pytest.mark.parametrize("held", [20_000, 1 << 30])
def test_an_analysis_in_parts_is_that_of_the_whole(
    held: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Findings, events, turns of loops, counts and what was left out, in their order."""
    monkeypatch.setattr(reader, "ROWS_HELD_MAX", 30)
    monkeypatch.setattr(span_spool, "HELD_BYTES_MAX", held)
    monkeypatch.setattr(parts, "PART_SPANS", 40)
    other = tmp_path / "other.jsonl"
    other.write_text(Path(TRACES[0]).read_text("utf-8").replace('"name": "', '"name": "x', 9))
    paths = [*TRACES, *TRACES[:2], str(other)]  # Spans that come twice, and some that differ.
    read = read_spans(paths)
    whole = analyse(read.spans, read.skipped)
    with SpanSpool() as spool:
        notes = spool_spans(paths, spool)
        assert spool.is_in_memory == (held > 20_000)
        found, failures = parts.analyse_spooled(spool, notes.skipped, threads=2)

    assert whole.findings
    assert found.findings == whole.findings
    assert found.events == whole.events
    assert found.summary == whole.summary
    assert len(found.skipped) > 1
    assert found.skipped == whole.skipped
    looping = whole.turns.filter(pl.col("task").is_in([f.task for f in whole.findings]))
    assert found.turns.filter(pl.col("task").is_in(looping["task"])).equals(looping)
    assert found.tasks == whole.tasks
    assert_frame_equal(failures, failures_of(whole.turns), check_row_order=False)


def test_memory_does_not_grow_with_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many rows one table is in memory at a time, by their number and by their characters."""
    for name, held in (("ROWS_HELD_MAX", 50), ("CHARS_HELD_MAX", 20_000)):
        with monkeypatch.context() as bound, SpanSpool() as spool:
            bound.setattr(reader, name, held)
            bound.setattr(span_spool, "HELD_BYTES_MAX", 100_000)
            spool_spans(TRACES, spool)
            tables = list(spool.tables())
            assert len(tables) > 5
            assert not spool.is_in_memory
            assert sum(table.height for table in tables) == spool.spans


def test_no_room_for_temporary_files_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A disk that is full costs the run, and the message says what to do."""
    monkeypatch.setattr(reader, "ROWS_HELD_MAX", 50)
    monkeypatch.setattr(span_spool, "HELD_BYTES_MAX", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(UnavailableError, match=r"cannot be written.*TMPDIR"), SpanSpool() as spool:
        spool_spans(TRACES, spool)
