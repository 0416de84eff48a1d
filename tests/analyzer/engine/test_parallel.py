"""Several processes find what one finds."""

from __future__ import annotations

import gzip
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from looptrace.analyzer.engine import parallel
from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.engine.outages import failures_of
from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.fields.dialect_table import SHIPPED
from looptrace.analyzer.schema.spans import distinct_spans
from looptrace.collector.files import reader
from looptrace.collector.files.reader import read_spans, spool_spans
from looptrace.errors import UnavailableError
from looptrace.processes import Processes
from tests.paths import ROOT

FOLDERS = (ROOT / "examples/traces", ROOT / "tests/framework_traces")
TRACES = [str(path) for folder in FOLDERS for path in sorted(folder.glob("*.json*"))]


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Start processes once for all tests, since each imports everything anew."""
    with Processes(2) as started:
        yield started


def test_every_process_has_as_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a part more than the others, one process would work alone at the end."""
    spans = read_spans(TRACES).spans
    monkeypatch.setattr(parallel, "PART_SPANS", spans.height // 3)
    with SpanSpool() as spool:
        spool.add(spans)
        parts = parallel.shared_out(spool, Processes(3), SHIPPED)
    assert len(parts) == 6  # Four would do.


@pytest.mark.requirement("F2")
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("rows_held", [30, 10_000])
def test_an_analysis_in_parts_is_that_of_the_whole(
    jobs: int,
    rows_held: int,
    processes: Processes,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Findings, events, turns of loops, counts and what was left out, in their order."""
    monkeypatch.setattr(reader, "ROWS_HELD_MAX", rows_held)
    monkeypatch.setattr(parallel, "SPANS_MIN", 1)
    monkeypatch.setattr(parallel, "PART_SPANS", 40)
    other = tmp_path / "other.jsonl"
    other.write_text(Path(TRACES[0]).read_text("utf-8").replace('"name": "', '"name": "x', 9))
    paths = [*TRACES, *TRACES[:2], str(other)]  # Spans that come twice, and some that differ.
    read = read_spans(paths)
    whole = analyse(read.spans, read.skipped)
    with SpanSpool() as spool:
        notes = spool_spans(paths, spool, processes, lambda _done, _all: None)
        judging = processes if jobs > 1 else Processes(1)
        parts, failures = parallel.analyse_in(judging, spool, notes.skipped)

    assert whole.findings
    assert parts.findings == whole.findings
    assert parts.events == whole.events
    assert parts.summary == whole.summary
    assert len(parts.skipped) > 1
    assert parts.skipped == whole.skipped
    looping = whole.turns.filter(pl.col("task").is_in([f.task for f in whole.findings]))
    assert parts.turns.filter(pl.col("task").is_in(looping["task"])).equals(looping)
    assert parts.tasks == whole.tasks
    assert_frame_equal(failures, failures_of(whole.turns), check_row_order=False)


def test_files_read_in_processes_are_read_as_by_one(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same spans in the same order, the same problems, and bytes that only grow."""
    (tmp_path / "empty.json").touch()
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(Path(TRACES[0]).read_bytes())[:-99])
    paths = [*TRACES[:3], str(tmp_path), *TRACES[3:], str(tmp_path / "missing.json")]
    here = read_spans(paths)
    done: list[int] = []
    monkeypatch.setattr(reader, "SHARED_BYTES_MIN", 1)
    with SpanSpool() as spool:
        shared = spool_spans(paths, spool, processes, lambda read, _all: done.append(read))
        folder, spans = spool.folder, pl.concat(spool.tables())

    assert len(here.skipped) >= 3
    assert shared.skipped == here.skipped
    assert distinct_spans(spans)[0].equals(here.spans)
    assert done == sorted(done)
    assert len(done) > 1
    assert not folder.exists()


def test_memory_does_not_grow_with_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many rows one table is in memory at a time, by their number and by their characters."""
    for name, held in (("ROWS_HELD_MAX", 50), ("CHARS_HELD_MAX", 20_000)):
        with monkeypatch.context() as bound, SpanSpool() as spool:
            bound.setattr(reader, name, held)
            spool_spans(TRACES, spool, Processes(1), lambda _done, _all: None)
            tables = list(spool.tables())
            assert len(tables) > 5
            assert not spool.is_in_memory
            assert sum(table.height for table in tables) == spool.spans


def test_no_room_for_temporary_files_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A disk that is full costs the run, and the message says what to do."""
    monkeypatch.setattr(reader, "ROWS_HELD_MAX", 50)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(UnavailableError, match=r"cannot be written.*TMPDIR"), SpanSpool() as spool:
        spool_spans(TRACES, spool, Processes(1), lambda _done, _all: None)


def worked_in(number: int) -> tuple[int, int]:
    """Return what was worked on, and in which process."""
    time.sleep(0.01)
    return number, os.getpid()


def test_this_process_works_too(processes: Processes) -> None:
    """Two processes are this one and another, and results keep their order."""
    numbers, found_in = zip(*processes.map(worked_in, range(200)), strict=True)
    assert numbers == tuple(range(200))
    assert os.getpid() in found_in
    assert len(set(found_in)) == 2


def end(started_by: int) -> None:
    """End a worker as the system does that is short of memory; here, leave time for that."""
    if os.getpid() != started_by:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.1)


def test_a_killed_process_is_an_error_that_says_so() -> None:
    """The work neither hangs nor goes on with a part missing."""
    with (
        pytest.raises(UnavailableError, match=r"process was killed.*--jobs 1"),
        Processes(2) as started,
    ):
        list(started.map(end, [os.getpid()] * 2))
