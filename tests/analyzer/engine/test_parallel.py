"""Several processes find what one finds."""

from __future__ import annotations

import gzip
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from looptrace.analyzer.engine import parallel
from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files import reader
from looptrace.collector.files.reader import read_spans
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


@pytest.mark.requirement("F2")
def test_an_analysis_in_parts_is_that_of_the_whole(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Findings, events, turns, counts and what was left out, in their order."""
    monkeypatch.setattr(parallel, "SPANS_MIN", 1)
    monkeypatch.setattr(parallel, "PART_SPANS", 40)
    spans = read_spans(TRACES).spans
    whole = analyse(spans)
    parts = parallel.analyse_in(processes, spans)

    assert whole.findings
    assert parts.findings == whole.findings
    assert parts.events == whole.events
    assert parts.summary == whole.summary
    assert parts.skipped == whole.skipped
    assert parts.turns.equals(whole.turns)
    assert parts.tasks == whole.tasks


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
    shared = read_spans(paths, lambda read, _all: done.append(read), processes)

    assert len(here.skipped) >= 3
    assert shared.skipped == here.skipped
    assert shared.spans.equals(here.spans)
    assert done == sorted(done)
    assert len(done) > 1


def end(_part: int) -> None:
    """End the process as the system does that is short of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_is_an_error_that_says_so() -> None:
    """The work neither hangs nor goes on with a part missing."""
    with (
        pytest.raises(UnavailableError, match=r"ended from outside.*--jobs 1"),
        Processes(2) as started,
    ):
        list(started.map(end, [1, 2]))
