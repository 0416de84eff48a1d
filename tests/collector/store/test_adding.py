"""What a server adds to a store while it runs."""

import random
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.collector.store import reader
from looptrace.collector.store.buckets import placement
from looptrace.collector.store.file_names import covered, range_of
from looptrace.collector.store.sql.connection import ask_typed
from looptrace.collector.store.tables import parquet, replacement
from looptrace.collector.store.tables.file_contents import Having
from looptrace.collector.store.writer import writing
from tests.collector.store.stored import (
    Killed,
    _kill,
    call,
    content,
    files_of,
    fresh,
    late_ties,
    looping,
    spans_of,
    stamps,
)
from tests.otlp import Trace
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(2))
def test_what_a_server_adds_is_what_an_ingest_would_have_made(
    tmp_path: Path, stored: Path, seed: int
) -> None:
    """A server decides on gates itself, and adds the spans when it has time."""
    spans = late_ties()
    with SpanSpool() as none, writing(tmp_path / "parts") as writer:
        writer.ingest(none)
        for part in spans.sample(fraction=1, shuffle=True, seed=seed).iter_slices(7):
            writer.add(part)
    assert content(tmp_path / "parts") == content(stored)


def over_days() -> pl.DataFrame:
    """Return spans of sessions that go on over days, some of which turn out late to be one."""
    days = [f"2026-03-0{day}T23:59:5{day}+00:00" for day in range(2, 6)]
    traces = [
        looping(f"d{n % 3}", name=f"{n}-{at}", at=at, service="agent")
        for n, at in enumerate(days * 2)
    ]
    linked = Trace("d0-d1", at="2026-03-09T09:00:00+00:00", service="agent", session_key=None)
    call(linked, {"gen_ai.conversation.id": "d0"})
    linked.span("resume", None, {}, links=[(traces[1].trace_id, "1" * 16)])
    return pl.concat([late_ties(), spans_of(*traces, linked)])


@pytest.mark.parametrize("seed", seeds(8))
def test_what_a_server_adds_over_days_is_what_an_ingest_would_have_made(
    tmp_path: Path, seed: int
) -> None:
    """It reads no more than it needs of earlier days, whatever came before what, and twice."""
    spans = over_days()
    chance = random.Random(seed)
    size = chance.choice([1, 5, 17])
    parts = list(spans.sample(fraction=1, shuffle=True, seed=seed).iter_slices(size))[:16]
    with SpanSpool() as none, writing(tmp_path / "parts") as writer:
        writer.ingest(none)
        for part in parts:
            writer.add(part)
            if chance.random() < 0.2:
                writer.add(pl.concat([part, chance.choice(parts)]))
    assert content(tmp_path / "parts") == fresh(tmp_path / "fresh", content_of(parts, spans))


def by_folder(found: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[str]]:
    """Return the rows of each day and bucket, in whatever files they are."""
    rows = defaultdict[str, list[str]](list)
    for name, each in found.items():
        rows[name.rpartition("/")[0]] += map(repr, each)
    return {folder: sorted(each) for folder, each in rows.items()}


@pytest.mark.parametrize("seed", seeds(4))
def test_a_day_of_many_files_has_the_rows_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A file gets rows until it has enough; files of like size are merged, and none is left.

    How many buckets change together, and how many spans are held, changes nothing.
    """
    chance = random.Random(seed)
    monkeypatch.setattr(replacement, "ROWS_AT_ONCE", chance.choice([1, 5, 10_000]))
    monkeypatch.setattr(placement, "SPANS_HELD", chance.choice([0, 5, 20_000]))
    monkeypatch.setattr(replacement, "ROWS_MIN", chance.choice([1, 2, 5]))
    monkeypatch.setattr(replacement, "FILES_ALIKE", chance.choice([2, 3]))
    spans, names = over_days(), set[str]()
    with SpanSpool() as none, writing(tmp_path / "parts") as writer:
        writer.ingest(none)
        for part in spans.sample(fraction=1, shuffle=True, seed=seed).iter_slices(9):
            writer.add(part)
            names.update(path.name for path in files_of(tmp_path / "parts"))
    monkeypatch.undo()
    assert by_folder(content(tmp_path / "parts")) == by_folder(fresh(tmp_path / "fresh", spans))
    found = pl.concat(reader.read_turns(tmp_path / "parts"))
    assert found.equals(pl.concat(reader.read_turns(tmp_path / "fresh")))
    assert any(first < last for first, last in map(range_of, names))
    assert not covered(files_of(tmp_path / "parts"))


def test_a_kill_while_files_are_merged_shows_no_row_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers find each row once, before and after the next writer has deleted what is left."""
    monkeypatch.setattr(replacement, "ROWS_MIN", 1)
    traces = [looping("s", name=str(n), at=f"2026-03-02T0{n}:00:00+00:00") for n in range(7)]
    with SpanSpool() as none, writing(tmp_path / "before") as writer:
        writer.ingest(none)
        for trace in traces[:-1]:
            writer.add(spans_of(trace))
    monkeypatch.setattr(replacement, "FILES_ALIKE", 2)
    delete, left_over = Path.unlink, 0
    expected = by_folder(fresh(tmp_path / "fresh", spans_of(*traces)))
    for deletions in range(6):
        folder, left = tmp_path / f"killed-{deletions}", iter(range(deletions))
        shutil.copytree(tmp_path / "before", folder)

        def killed(path: Path, *, missing_ok: bool = False, left: Iterator[int] = left) -> None:
            if path.name.startswith("data"):
                _kill(left)
            delete(path, missing_ok=missing_ok)

        with monkeypatch.context() as patch, writing(folder) as writer:
            patch.setattr(Path, "unlink", killed)
            with pytest.raises(Killed):
                writer.add(spans_of(traces[-1]))
        left_over += len(covered(files_of(folder)))
        spans = pl.concat(reader.read_spans(folder))
        assert spans.height == spans.unique(["trace_id", "span_id"]).height == 7 * 5
        with ask_typed(folder, "SELECT count(*) FROM spans") as answer:
            assert next(answer.batches) == [(7 * 5,)]
        with writing(folder) as writer:
            assert not covered(files_of(folder))
            writer.finish_add()
        assert by_folder(content(folder)) == expected
    assert left_over


def content_of(parts: list[pl.DataFrame], spans: pl.DataFrame) -> pl.DataFrame:
    """Return the spans that are among the parts."""
    return spans.join(pl.concat(parts), on=["trace_id", "span_id"], how="semi")


def test_the_files_of_other_days_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adding takes as long after a month as after a day: whole files of other days are not read."""
    folder, read, read_whole = tmp_path / "s", set[str](), parquet.read_files
    days = [f"2026-03-{day:02}T09:00:00+00:00" for day in (2, 3, 4)]

    def watched(
        paths: Sequence[Path], columns: pl.Schema, which: Having | None = None
    ) -> pl.DataFrame:
        read.update(path.parts[-3] for path in paths)
        return read_whole(paths, columns, which)

    with SpanSpool() as none, writing(folder) as writer:
        writer.ingest(none)
        writer.add(spans_of(*(looping(f"s{n}", at=at) for at in days for n in range(40))))
        before = stamps(folder)
        for module in (parquet, replacement):
            monkeypatch.setattr(module, "read_files", watched)
        writer.add(spans_of(*(looping(f"new{n}", at=days[-1]) for n in range(40))))
    changed = {path for path, stamp in stamps(folder).items() if before.get(path) != stamp}
    assert {Path(path).parts[-3] for path in changed} == {"day=2026-03-04"}
    assert read == {"day=2026-03-04"}
