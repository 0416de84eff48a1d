"""What does not fit into memory is stored as what does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.engine import parallel
from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.gates.events import GateEvent
from looptrace.collector.content.policy import Content
from looptrace.collector.files import reader as files
from looptrace.collector.files.reader import read_spans, spool_spans
from looptrace.collector.store import reader, writer
from looptrace.collector.store.key import content_key
from looptrace.collector.store.writer import Ingested
from looptrace.processes import Processes
from tests.collector.store.test_writer import content
from tests.paths import ROOT

FOLDERS = (ROOT / "examples/traces", ROOT / "tests/framework_traces")
TRACES = [str(path) for folder in FOLDERS for path in sorted(folder.glob("*.json*"))]
KILLED_AFTER_S = (0.0, 0.2, 0.4, 0.8, 1.6)

# Ingests in two processes, each table of some spans.
VICTIM = """
import sys
from pathlib import Path
from looptrace.analyzer.engine import parallel
from looptrace.collector.store import writer
from looptrace.collector.files import reader
from tests.collector.store.test_large_ingest import TRACES, large
if __name__ == "__main__":
    reader.ROWS_HELD_MAX, parallel.PART_SPANS, writer.SPANS_MIN = 30, 40, 1
    from looptrace.processes import Processes
    with Processes(2) as processes:
        print("ready", flush=True)
        while True:
            large(Path(sys.argv[1]), processes)
"""


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Start processes once for all tests, since each imports everything anew."""
    with Processes(2) as started:
        yield started


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few spans be as many as memory holds."""
    monkeypatch.setattr(files, "ROWS_HELD_MAX", 30)
    monkeypatch.setattr(parallel, "PART_SPANS", 40)
    monkeypatch.setattr(writer, "SPANS_MIN", 1)


def large(
    folder: Path, processes: Processes, paths: list[str] = TRACES, kept: Content = "full"
) -> Ingested:
    """Ingest files through the disk."""
    with SpanSpool() as spool:
        spool_spans(paths, spool, processes, lambda _done, _all: None)
        assert not spool.is_in_memory
        with writer.writing(folder, processes=processes) as open_store:
            return open_store.ingest(spool, kept)


def gates_of(folder: Path) -> list[GateEvent]:
    """Return the events of gates, in any order."""
    with reader.open_gates(folder) as gates:
        return sorted((event for _, event in gates.events()), key=lambda event: event.id)


@pytest.mark.parametrize(("jobs", "kept"), [(2, "full"), (1, "redacted"), (2, "hashes")])
@pytest.mark.usefixtures("small_parts")
def test_a_large_ingest_makes_the_store_of_a_small_one(
    jobs: int, kept: Content, processes: Processes, tmp_path: Path
) -> None:
    """Tables, gates and counts, with spans that come twice and some that differ."""
    other = tmp_path / "other.jsonl"
    other.write_text(Path(TRACES[0]).read_text("utf-8").replace('"name": "', '"name": "x', 9))
    paths = [*TRACES, *TRACES[:2], str(other)]
    small, parts = tmp_path / "small", tmp_path / "parts"
    with Processes(1) as one:
        many = processes if jobs > 1 else one
        first = large(parts, many, TRACES[:4], kept)
        small.mkdir()
        (small / "looptrace-store.key").write_bytes(content_key(parts))
        second = large(parts, many, paths, kept)
    before = writer.ingest(read_spans(TRACES[:4]).spans, small, content=kept)
    after = writer.ingest(
        pl.concat(read_spans([path]).spans for path in paths), small, content=kept
    )

    assert second.gates_opened
    assert second.spans_known
    assert second.skipped
    assert (first, second) == (before, after)
    assert content(parts) == content(small)
    assert gates_of(parts) == gates_of(small)


@pytest.mark.slow
@pytest.mark.requirement("F2")
@pytest.mark.parametrize("after_s", KILLED_AFTER_S)
def test_a_large_ingest_that_is_killed_may_be_run_again(after_s: float, tmp_path: Path) -> None:
    """Nothing is lost or there twice, and no process of it goes on."""
    folder = tmp_path / "store"
    command = [sys.executable, "-c", VICTIM, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            victim.wait(timeout=after_s)
        victim.kill()
    spans = read_spans(TRACES).spans
    writer.ingest(spans, folder)
    writer.ingest(spans, tmp_path / "fresh")
    assert content(folder) == content(tmp_path / "fresh")
    assert gates_of(folder) == gates_of(tmp_path / "fresh")
