"""What does not fit into memory is stored as what does."""

import subprocess
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.engine import parts, span_spool
from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.gates.events import GateEvent
from looptrace.collector.content.policy import Content
from looptrace.collector.files import reader as files
from looptrace.collector.files.reader import read_spans, spool_spans
from looptrace.collector.store import reader, writer
from looptrace.collector.store.key import content_key
from looptrace.collector.store.writer import Ingested
from tests.collector.store.stored import content
from tests.paths import ROOT
from tests.reliability.forked import Forked

FOLDERS = (ROOT / "examples/traces", ROOT / "tests/framework_traces")
TRACES = [str(path) for folder in FOLDERS for path in sorted(folder.glob("*.json*"))[::2]]
KILLED_AFTER_S = (0.0, 0.2, 0.4, 0.8, 1.6)

# Ingests again and again, each table of some spans.
VICTIM = """
import sys
from pathlib import Path
from looptrace.analyzer.engine import parts, span_spool
from looptrace.collector.store import writer
from looptrace.collector.files import reader
from tests.collector.store.test_large_ingest import TRACES, large
reader.ROWS_HELD_MAX, parts.PART_SPANS, span_spool.HELD_BYTES_MAX = 30, 40, 0
print("ready", flush=True)
while True:
    large(Path(sys.argv[1]))
"""


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few spans be as many as memory holds."""
    monkeypatch.setattr(files, "ROWS_HELD_MAX", 30)
    monkeypatch.setattr(parts, "PART_SPANS", 40)
    monkeypatch.setattr(span_spool, "HELD_BYTES_MAX", 0)


def large(
    folder: Path, paths: list[str] = TRACES, kept: Content = "full", threads: int = 1
) -> Ingested:
    """Ingest files through the disk."""
    with SpanSpool() as spool:
        spool_spans(paths, spool)
        assert not spool.is_in_memory
        with writer.writing(folder, threads=threads) as open_store:
            return open_store.ingest(spool, kept)


def gates_of(folder: Path) -> list[GateEvent]:
    """Return the events of gates, in any order."""
    with reader.open_gates(folder) as gates:
        return sorted((event for _, event in gates.events()), key=lambda event: event.id)


@pytest.mark.parametrize(("threads", "kept"), [(2, "full"), (1, "redacted"), (2, "hashes")])
@pytest.mark.usefixtures("small_parts")
def test_a_large_ingest_makes_the_store_of_a_small_one(
    threads: int, kept: Content, tmp_path: Path
) -> None:
    """Tables, gates and counts, with spans that come twice and some that differ."""
    other = tmp_path / "other.jsonl"
    other.write_text(Path(TRACES[0]).read_text("utf-8").replace('"name": "', '"name": "x', 9))
    paths = [*TRACES, *TRACES[:2], str(other)]
    small, many = tmp_path / "small", tmp_path / "many"
    first = large(many, TRACES[:4], kept, threads)
    small.mkdir()
    (small / "looptrace-store.key").write_bytes(content_key(many))
    second = large(many, paths, kept, threads)
    before = writer.ingest(read_spans(TRACES[:4]).spans, small, content=kept)
    after = writer.ingest(
        pl.concat(read_spans([path]).spans for path in paths), small, content=kept
    )

    assert second.gates_opened
    assert second.spans_known
    assert second.skipped
    assert (first, second) == (before, after)
    assert content(many) == content(small)
    assert gates_of(many) == gates_of(small)


@pytest.mark.requirement("F2")
@pytest.mark.parametrize("after_s", KILLED_AFTER_S)
def test_a_large_ingest_that_is_killed_may_be_run_again(after_s: float, tmp_path: Path) -> None:
    """Nothing is lost or there twice, and no process of it goes on."""
    folder = tmp_path / "store"
    victim = Forked(["-c", VICTIM, str(folder)])
    assert victim.stdout.readline() == "ready\n"
    with pytest.raises(subprocess.TimeoutExpired):
        victim.wait(timeout=after_s)
    victim.kill()
    victim.wait()
    spans = read_spans(TRACES).spans
    writer.ingest(spans, folder)
    writer.ingest(spans, tmp_path / "fresh")
    assert content(folder) == content(tmp_path / "fresh")
    assert gates_of(folder) == gates_of(tmp_path / "fresh")
