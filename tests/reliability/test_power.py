"""P1: what was acknowledged outlasts a loss of power, at any moment and whatever was not synced."""

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random

import polars as pl
import pytest

from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.store import reader
from looptrace.collector.store.layout import LOG_FILE
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.writer import writing
from tests.collector.store.stored import late_ties
from tests.reliability.power import ACKNOWLEDGED, Call, Disk, calls_of

# The number of losses of power to try, at random moments; 0 means every moment.
LOSSES = int(os.environ.get("LOOPTRACE_SOAK_LOSSES", "24"))
LOG_BYTES_MAX = 1 << 30
BLOCKS = 6
# The share that is there of what was not synced; in between, any part of it in any order.
KEPT = (0.0, 0.5, 1.0)

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def blocks() -> list[pl.DataFrame]:
    """Return spans in parts; later ones move traces of earlier ones to other buckets."""
    spans = late_ties().sort("span_id")
    return list(spans.iter_slices(-(-spans.height // BLOCKS)))


def work(folder: Path) -> None:
    """Acknowledge spans and store them, as a server does."""
    store = folder / "store"
    said = os.open(folder / ACKNOWLEDGED, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    with SpanSpool() as none, writing(store) as writer:
        writer.ingest(none)
        log, seq = IngestLog(store / LOG_FILE, LOG_BYTES_MAX), 0
        for number, block in enumerate(blocks()):
            asyncio.run(log.accept(block))
            os.write(said, bytes([number]))
            if number % 2 and (logged := log.read(seq, 1_000)):
                writer.add(logged.spans)
                log.drop(seq := logged.seq)
        log.close()


def recovered(store: Path) -> list[tuple[str, str]]:
    """Start on what is there, as a server does; returns the ids of the spans that it has."""
    with SpanSpool() as spool, writing(store) as writer:
        log = IngestLog(store / LOG_FILE, LOG_BYTES_MAX)
        logged = log.read(0, 1_000)
        spool.add(spans := logged.spans if logged else late_ties().clear())
        writer.ingest(spool) if writer.needs_ingest() else writer.add(spans)
        log.close()
    parts = [part.select("trace_id", "span_id") for part in reader.read_spans(store)]
    return [row for part in parts for row in part.rows()]


def lost(calls: Sequence[Call], count: int, keeps: float, folder: Path) -> str:
    """Lose power after so many calls; returns what is wrong with what a start finds then."""
    disk = Disk()
    for call in calls[:count]:
        disk.make(call)
    for path, content in disk.after(Random(f"{count} {keeps}"), keeps).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    try:
        there = recovered(folder / "store")
    except (StoreError, OSError, ValueError) as error:
        return f"it does not start: {error}"
    finally:
        shutil.rmtree(folder)
    acknowledged = pl.concat([late_ties().clear(), *(blocks()[n] for n in disk.acknowledged)])
    missing = set(acknowledged.select("trace_id", "span_id").rows()) - set(there)
    twice = len(there) - len(set(there))
    return f"{len(missing)} spans lost, {twice} there twice" if missing or twice else ""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    """Return what a server's log and store do on the disk."""
    folder = tmp_path_factory.mktemp("power")
    command = ["-c", f"from {__name__} import *; work(Path({str(folder / 'at')!r}))"]
    (folder / "at").mkdir()
    made = calls_of(command, folder / "at", folder / "calls.txt")
    assert sum(call.name == "sync" for call in made) > 20
    assert sum(call.path == ACKNOWLEDGED and call.name == "write" for call in made) == BLOCKS
    return made


def moments(calls: Sequence[Call], losses: int) -> list[int]:
    """Return the moments at which power is lost: a few of a seed, or all."""
    counts = range(1, len(calls) + 1)
    return sorted(Random(1).sample(counts, min(losses, len(calls)))) if losses else list(counts)


@pytest.mark.parametrize("part", range(len(KEPT)))
def test_what_was_acknowledged_outlasts_a_loss_of_power(
    tmp_path: Path, calls: list[Call], part: int
) -> None:
    """P1: it is there once, whatever of the writes after the last sync is there."""
    chosen = moments(calls, LOSSES)
    wrong = {
        count: found
        for count in (chosen[part :: len(KEPT)] if LOSSES else chosen)
        if (found := lost(calls, count, KEPT[part], tmp_path / "disk"))
    }
    assert wrong == {}


@pytest.mark.parametrize("left_out", [r"log\.db-wal$", r"\.data\.parquet", r"bucket=\d+$"])
def test_a_sync_that_is_left_out_is_found(tmp_path: Path, calls: list[Call], left_out: str) -> None:
    """P1: of the log, of the files of the store, and of their folders."""

    def is_left_out(call: Call) -> bool:
        if call.name != "sync":
            return False
        return re.search(left_out, call.path) is not None

    kept = [call for call in calls if not is_left_out(call)]
    assert len(kept) < len(calls)
    after_answers = [n for n, call in enumerate(kept, 1) if call.path == ACKNOWLEDGED]
    assert any(lost(kept, count, 0.0, tmp_path / "disk") for count in after_answers)
