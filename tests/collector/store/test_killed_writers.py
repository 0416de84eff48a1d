"""Writers that are killed lose nothing, and the next one repairs the store."""

import os
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.store import file_names, layout, reader, writer
from looptrace.collector.store.sql.connection import ask_typed
from looptrace.collector.store.tables import parquet
from looptrace.collector.store.writer import writing
from tests.collector.store.stored import (
    Killed,
    _kill,
    content,
    fresh,
    killed_stores,
    late_ties,
    looping,
    spans_of,
)
from tests.reliability.forked import Forked

KILLS = 6


SPANS_A_GO = 5


KILL_AFTER_MAX_S = 0.7


# Ingests small parts again and again, each time in another order, until it is killed.
VICTIM = """
import sys
from pathlib import Path
from threading import Thread
import polars as pl
from looptrace.collector.store.writer import ingest
spans, folder, seed, size = sys.argv[1:]
spans = pl.read_parquet(spans).sample(fraction=1, shuffle=True, seed=int(seed))
while True:
    for part in spans.iter_slices(int(size)):
        ingest(part, Path(folder))
        print("ready", flush=True)
"""


def test_a_kill_at_any_write_loses_nothing_and_is_repaired(tmp_path: Path) -> None:
    """What was stored stays, also while traces move, and the next ingest puts all right."""
    spans = late_ties()
    late = spans["attributes"].str.contains("shopping") | (spans["name"] == "resume")
    writer.ingest(spans.filter(~late), tmp_path / "before")
    ids = set(spans.filter(~late).select("trace_id", "span_id").rows())
    expected = fresh(tmp_path / "fresh", spans)
    for folder in killed_stores(
        tmp_path / "before", lambda store: writer.ingest(spans.filter(late), store)
    ):
        stored = pl.concat(
            parquet.read_bucket(folder, "spans", bucket) for bucket in range(file_names.BUCKETS)
        )
        assert ids <= set(stored.select("trace_id", "span_id").rows())
        # An ingest of something else repairs as well.
        writer.ingest(spans.clear(), folder)
        known = stored.select(list(SPAN_SCHEMA)).unique()
        assert content(folder) == fresh(tmp_path / f"known-{folder.name}", known)
        assert not list(folder.rglob(".data*"))
        writer.ingest(spans, folder)
        assert content(folder) == expected


def test_a_kill_at_any_write_of_a_server_is_repaired(tmp_path: Path) -> None:
    """Its next start adds the same spans again; sessions that moved leave nothing behind."""
    first, then = (
        spans_of(*(looping(f"s{n}", name=name, at=at) for n in range(3)))
        for name, at in (("a", "2026-03-02T09:00:00+00:00"), ("b", "2026-03-02T10:00:00+00:00"))
    )
    expected = fresh(tmp_path / "fresh", pl.concat([first, then]))
    writer.ingest(first, tmp_path / "before")
    before = buckets_with_rows("findings", content(tmp_path / "before"))
    assert before - buckets_with_rows("findings", expected)

    def add(store: Path) -> None:
        with writing(store) as killed:
            killed.add(then)

    for folder in killed_stores(tmp_path / "before", add):
        with writing(folder) as started:
            started.finish_add()
            known = pl.concat(reader.read_spans(folder))
            assert content(folder) == fresh(tmp_path / f"known-{folder.name}", known)
            started.add(then)
        assert content(folder) == expected


def buckets_with_rows(table: str, found: dict[str, list[tuple[Any, ...]]]) -> set[str]:
    """Return the folders of the buckets in which a table has rows."""
    return {name.split("/")[2] for name in found if name.startswith(table)}


@pytest.mark.parametrize("writes", range(6))
def test_a_kill_while_the_store_is_made_is_repaired(
    tmp_path: Path, stored: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """Half a store must neither pass for one nor block the place where it is to be."""
    left = iter(range(writes))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: _kill(left))
        with pytest.raises(Killed):
            writer.ingest(late_ties(), tmp_path / "s")
    # The folder is synced, and the marker before it has its name; then there is a store of nothing.
    assert layout.is_store(tmp_path / "s") is (writes > 1)
    if writes > 1:
        assert reader.counts(tmp_path / "s") == reader.StoreCounts(0, 0)
    assert fresh(tmp_path / "s", late_ties()) == content(stored)


def test_sigkill_at_many_moments_and_readers_meanwhile(tmp_path: Path) -> None:
    """No reader may ever fail, and a store that was killed often must be like one that was not."""
    spans = pl.concat([late_ties(), spans_of(*(looping(f"r{n}") for n in range(40)))])
    spans.write_parquet(tmp_path / "spans.parquet")
    folder = tmp_path / "s"
    for seed in range(KILLS):
        wait_s = seed / KILLS * KILL_AFTER_MAX_S / 2  # Before a look, and before the kill.
        arguments = [str(tmp_path / "spans.parquet"), str(folder), str(seed), str(SPANS_A_GO)]
        victim = Forked(["-c", VICTIM, *arguments])
        assert victim.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            victim.wait(timeout=wait_s)
        _read_all(folder)
        with pytest.raises(subprocess.TimeoutExpired):
            victim.wait(timeout=wait_s)
        victim.kill()
        victim.wait()
        _read_all(folder)
    writer.ingest(spans, folder)
    assert content(folder) == fresh(tmp_path / "fresh", spans)


def _read_all(folder: Path) -> None:
    for turns in reader.read_turns(folder):
        assert turns["turn"].null_count() == 0
    for table in parquet.TABLES:
        with ask_typed(folder, f"FROM {table}") as answer:
            assert "bucket" in answer.columns
