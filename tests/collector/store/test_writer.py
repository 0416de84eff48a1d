from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import looptrace
from looptrace.analyzer.engine.batch import in_order
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.fingerprint import fingerprints
from looptrace.analyzer.fingerprint.equivalence import NOTHING, Sameness, TextMask
from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.schema.turns import TURN_KEY
from looptrace.cli.ingest import ingest as ingest_command
from looptrace.cli.main import main
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.json import decode_document
from looptrace.collector.store import layout, reader, sql, writer
from looptrace.collector.store.locks import StoreError, reading
from looptrace.collector.store.sql import ask_typed, connect
from looptrace.collector.store.tables import file_names, parquet, removal, replacement
from looptrace.collector.store.tables.file_contents import Having
from looptrace.collector.store.tables.file_names import covered, range_of
from looptrace.collector.store.writer import writing
from tests.drivers import findings_of
from tests.otlp import Trace, decoded_rows
from tests.seeds import seeds

KILLS = 6
SPANS_A_GO = 5
KILL_AFTER_MAX_S = 0.7
WRITER_WAITS_S = 0.5
MASKED = DetectionPolicy(sameness=Sameness(masks=(TextMask("total is [0-9]+", "total"),)))

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


class Killed(BaseException):
    """Ends an ingest as a kill does: nothing catches it."""


def killed_stores(
    before: Path, write: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Yield copies of a store, each killed at another write of the day, and one that was not."""
    whole, written = before.with_name("not-killed"), list[int]()
    shutil.copytree(before, whole)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", written.append)
        write(whole)
    assert len(written) > 5
    for writes in seeds(len(written)):
        folder, left = before.with_name(f"killed-{writes}"), iter(range(writes))
        shutil.copytree(before, folder)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda _, left=left: _kill(left))
            with pytest.raises(Killed):
                write(folder)
        yield folder
    yield whole


def call(
    trace: Trace,
    attributes: Mapping[str, str] | None = None,
    n: int = 0,
    tool: str = "run_tests",
    parent: str | None = None,
) -> str:
    """Add a tool's span that failed, with the same words each time."""
    return trace.span(
        f"execute_tool {tool}",
        parent,
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.arguments": json.dumps({"path": "tests/test_cart.py", "n": n}),
            "error.message": "AssertionError: total is 3",
            **(attributes or {}),
        },
        status="error",
    )


def looping(session: str, at: str = "2026-03-02T09:00:00+00:00", **kwargs: Any) -> Trace:
    """Return a trace with one call that fails five times."""
    trace = Trace(session, at=at, **kwargs)
    for _ in range(5):
        call(trace)
    return trace


def working(session: str, **kwargs: Any) -> Trace:
    """Return a trace with calls that all differ."""
    trace = Trace(session, **kwargs)
    for n in range(3):
        call(trace, n=n, tool=f"tool_{n}")
    return trace


def spans_of(*traces: Trace) -> pl.DataFrame:
    """Read the traces as the collector does."""
    rows = []
    for trace in traces:
        document = Frame(1, json.dumps(trace.request()).encode())
        rows += decoded_rows(decode_document("test", document))
    return pl.DataFrame(rows, schema=SPAN_SCHEMA, orient="row")


def late_ties() -> pl.DataFrame:
    """Return spans, some of which tie traces together that seem separate.

    Two traces without a session are tied by one span each, a third by a link, and two by a task.
    """
    first, second = (Trace(f"t{n}", session_key=None, service="agent") for n in range(2))
    for trace in (first, second):
        call(trace)
        call(trace)
        call(trace, {"gen_ai.conversation.id": "shopping"})
    third = Trace("t3", session_key=None, service="agent")
    call(third)
    third.span("resume", None, {}, links=[(first.trace_id, "1" * 16)])
    job = [Trace(f"j{n}", session_key=None, service="agent") for n in range(2)]
    for trace in job:
        call(trace, {"looptrace.task.id": "job"})
    sessions = [looping(f"s{n}", name=str(n % 2), service="agent") for n in range(4)]
    midnight = looping("midnight", at="2026-03-02T23:59:58+00:00", service="agent")
    return spans_of(
        first,
        second,
        third,
        *job,
        *sessions,
        midnight,
        working("s1", name="again", service="agent"),
    )


def files_of(folder: Path) -> Iterator[Path]:
    """Find all Parquet files of a store."""
    return folder.glob("*/day=*/bucket=*/data*.parquet")


def content(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Read all rows of a store by file; a file without rows says nothing."""
    rows = {
        str(path.relative_to(folder)): pl.read_parquet(
            path, glob=False, hive_partitioning=False
        ).rows()
        for path in files_of(folder)
    }
    return {name: found for name, found in rows.items() if found}


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the time of writing and the identity of each file."""
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_ino) for p in files_of(folder)}


def fresh(folder: Path, spans: pl.DataFrame) -> dict[str, list[tuple[Any, ...]]]:
    """Return the content of a new store of these spans."""
    writer.ingest(spans, folder)
    return content(folder)


@pytest.fixture(scope="module")
def store_of_late_ties(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of `late_ties`, which tests copy, because making one takes a second."""
    folder = tmp_path_factory.mktemp("late_ties") / "store"
    writer.ingest(late_ties(), folder)
    return folder


@pytest.fixture
def stored(store_of_late_ties: Path, tmp_path: Path) -> Path:
    """Return a store of `late_ties` to change."""
    return shutil.copytree(store_of_late_ties, tmp_path / "stored")


def buckets_of(folder: Path, trace_id: str) -> set[str]:
    """Find the buckets in which a trace's spans lie."""
    return {
        path.parent.name
        for path in files_of(folder)
        if path.parts[-4] == "spans"
        and trace_id
        in pl.read_parquet(path, glob=False, hive_partitioning=False)["trace_id"].to_list()
    }


def test_a_second_ingest_changes_nothing(tmp_path: Path) -> None:
    """A collector that sends again, or a cron job that runs again, must not double the counts."""
    spans = late_ties()
    first = writer.ingest(spans, tmp_path / "s")
    before = stamps(tmp_path / "s")
    second = writer.ingest(spans, tmp_path / "s")
    assert (first.spans_new, first.spans_known) == (spans.height, 0)
    assert (second.spans_new, second.spans_known) == (0, spans.height)
    assert (first.turns, first.findings) == (second.turns, second.findings)
    assert first.findings > 0
    assert stamps(tmp_path / "s") == before


def test_an_ingest_tells_how_far_it_is(tmp_path: Path) -> None:
    """A person who waits sees each bucket, up to the last of those that there are."""
    told: list[tuple[int, int]] = []
    with SpanSpool() as spool, writing(tmp_path / "s") as writer:
        spool.add(late_ties())
        writer.ingest(spool, on_evaluated=lambda *counts: told.append(counts))
    assert [done for done, _ in told] == list(range(1, len(told) + 1))
    assert {count for _, count in told} == {len(told)} != {0}


@pytest.mark.parametrize("seed", seeds(2))
def test_any_order_and_any_split_give_the_same_store(
    tmp_path: Path, stored: Path, seed: int
) -> None:
    """Spans arrive as networks please, so that the store may depend on their set alone."""
    spans = late_ties()
    shuffled = spans.sample(fraction=1, shuffle=True, seed=seed)
    for part in shuffled.iter_slices(3 + 3 * seed):
        writer.ingest(part, tmp_path / "parts")
    assert content(tmp_path / "parts") == content(stored)


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
    days = [f"2026-03-0{day}T23:59:5{day}+00:00" for day in range(2, 8)]
    traces = [
        looping(f"d{n % 3}", name=f"{n}-{at}", at=at, service="agent")
        for n, at in enumerate(days * 2)
    ]
    linked = Trace("d0-d1", at="2026-03-09T09:00:00+00:00", service="agent", session_key=None)
    call(linked, {"gen_ai.conversation.id": "d0"})
    linked.span("resume", None, {}, links=[(traces[1].trace_id, "1" * 16)])
    return pl.concat([late_ties(), spans_of(*traces, linked)])


@pytest.mark.parametrize("seed", seeds(4))
def test_what_a_server_adds_over_days_is_what_an_ingest_would_have_made(
    tmp_path: Path, seed: int
) -> None:
    """It reads no more than it needs of earlier days, whatever came before what, and twice."""
    spans = over_days()
    chance = random.Random(seed)
    size = chance.choice([1, 5, 17])
    parts = list(spans.sample(fraction=1, shuffle=True, seed=seed).iter_slices(size))[:60]
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
    """A file gets rows until it has enough; files of like size are merged, and none is left."""
    chance = random.Random(seed)
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


def test_a_trace_moves_to_the_bucket_of_the_session_that_it_turns_out_to_have(
    tmp_path: Path,
) -> None:
    """A session id that comes late must bring the trace to its session's other traces."""
    spans, folder = late_ties(), tmp_path / "s"
    late = spans["attributes"].str.contains("shopping")
    traces = spans.filter(late)["trace_id"].to_list()
    writer.ingest(spans.filter(~late), folder)
    before = [buckets_of(folder, trace) for trace in traces]
    writer.ingest(spans.filter(late), folder)
    assert before[0] != before[1]
    assert buckets_of(folder, traces[0]) == buckets_of(folder, traces[1])
    assert len(buckets_of(folder, traces[0])) == 1


def test_the_store_gives_back_the_turns_and_findings_of_the_spans(tmp_path: Path) -> None:
    """Analysing a store must say what analysing the files says."""
    spans = late_ties()
    turns, _ = turns_of(spans)
    writer.ingest(spans, tmp_path)
    parts = list(reader.read_turns(tmp_path))
    stored = pl.concat(parts)
    assert stored.sort("task", maintain_order=True).equals(turns)
    assert in_order([f for part in parts for f in findings_of(part)]) == findings_of(turns)
    assert sum(part["task"].n_unique() for part in parts) == turns["task"].n_unique()
    assert reader.counts(tmp_path) == reader.StoreCounts(spans.height, turns["session"].n_unique())


def test_a_session_stays_together_although_its_traces_declare_different_tasks(
    tmp_path: Path,
) -> None:
    """A result that a later trace of the session reports is the answer to an earlier call."""
    asked, told = Trace("s", name="asked"), Trace("s", name="told", at="2026-03-02T10:00:00+00:00")
    asked.span(
        "execute_tool find",
        None,
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "find",
            "gen_ai.tool.call.id": "c1",
            "gen_ai.tool.call.arguments": "{}",
            "looptrace.task.id": "t1",
        },
    )
    asking = {"type": "tool_call", "id": "c1", "name": "find", "arguments": {}}
    telling = {"type": "tool_call_response", "id": "c1", "response": "late"}
    messages = [
        {"role": "assistant", "parts": [asking]},
        {"role": "tool", "parts": [telling]},
    ]
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": "Thanks."}]}]
    model = {
        "gen_ai.operation.name": "chat",
        "looptrace.task.id": "t2",
        "gen_ai.input.messages": json.dumps(messages),
        "gen_ai.output.messages": json.dumps(answer),
    }
    told.span("chat", None, model)
    spans = spans_of(asked, told)
    writer.ingest(spans, tmp_path)
    stored = pl.concat(reader.read_turns(tmp_path)).sort("task", maintain_order=True)
    assert stored.equals(turns_of(spans)[0])
    assert stored.filter(task="t1")["result"].to_list() == ["late"]


def fingerprinted(folder: Path, sameness: Sameness, monkeypatch: pytest.MonkeyPatch) -> int:
    """Read all buckets, compared by this; return the number of fingerprinted turns."""
    made: list[int] = []

    def noted(turns: pl.DataFrame, by: Sameness) -> pl.DataFrame:
        made.append(turns.height)
        return add_fingerprints(turns, by)

    work = reader.BucketWork(sameness, pl.DataFrame.clone)
    with monkeypatch.context() as patched:
        patched.setattr(fingerprints, "add_fingerprints", noted)
        parts = [part for of_bucket in map(work, reader.buckets(folder)) for part in of_bucket]
    turns, _ = turns_of(pl.concat(reader.read_spans(folder)), sameness)
    assert_frame_equal(pl.concat(parts).sort(TURN_KEY), turns.sort(TURN_KEY))
    return sum(made)


def test_turns_are_fingerprinted_anew_only_where_the_store_has_other_fingerprints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The declared equivalence, the code and the engine decide, not the last writer."""
    folder = tmp_path / "store"
    stored = writer.ingest(spans_of(looping("a"), working("b")), folder)

    assert fingerprinted(folder, NOTHING, monkeypatch) == 0
    assert fingerprinted(folder, MASKED.sameness, monkeypatch) >= stored.turns > 0
    monkeypatch.setattr(fingerprints, "SOURCE", "another")
    assert fingerprinted(folder, NOTHING, monkeypatch) >= stored.turns


def test_a_bucket_with_fingerprints_of_two_kinds_is_fingerprinted_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks that an ingest leaves alone keep the fingerprints of earlier code, until all change."""
    folder = tmp_path / "store"
    sessions = [looping(f"s{number}") for number in range(40)]  # Several of them share a bucket.
    with monkeypatch.context() as patched:
        patched.setattr(fingerprints, "SOURCE", "earlier")
        writer.ingest(spans_of(*sessions[:20]), folder)
    writer.ingest(spans_of(*sessions[20:]), folder)

    noted = [parquet.bucket_made_with(folder, "turns", n) for n in range(file_names.BUCKETS)]
    turns = [reader.read_turns_in(folder, n).height for n in range(file_names.BUCKETS)]
    other = sum(
        height
        for height, made in zip(turns, noted, strict=True)
        if made != fingerprints.fingerprint_source(NOTHING)
    )
    assert fingerprinted(folder, NOTHING, monkeypatch) == other > 0

    writer.ingest(SPAN_SCHEMA.to_frame(), folder, MASKED)
    assert fingerprinted(folder, MASKED.sameness, monkeypatch) == 0


def test_rows_lie_on_the_day_of_their_start(tmp_path: Path) -> None:
    """A day that is read or deleted must have the rows that began on it."""
    writer.ingest(spans_of(looping("midnight", at="2026-03-02T23:59:58+00:00")), tmp_path)
    found = {name.split("/bucket")[0]: len(rows) for name, rows in content(tmp_path).items()}
    assert found == {
        "spans/day=2026-03-02": 2,
        "spans/day=2026-03-03": 3,
        "turns/day=2026-03-02": 2,
        "turns/day=2026-03-03": 3,
        "findings/day=2026-03-02": len(findings_of(pl.concat(reader.read_turns(tmp_path)))),
    }


def test_the_bucket_of_a_task_never_changes(tmp_path: Path) -> None:
    """A store that another version or machine wrote must still find its tasks."""
    writer.ingest(spans_of(working("checkout")), tmp_path)
    assert {name.split("/")[2] for name in content(tmp_path)} == {"bucket=07"}


def test_of_two_spans_with_one_id_the_later_one_stays_in_either_order(tmp_path: Path) -> None:
    """A span that is sent while it is open and again when it ends must count once, as it ended."""
    open_span = spans_of(looping("s"))[:1]
    closed = open_span.with_columns(pl.col("end_ns") + 1, name=pl.lit("closed"))
    done = [writer.ingest(part, tmp_path / "a") for part in (open_span, closed)]
    also = [writer.ingest(part, tmp_path / "b") for part in (closed, open_span)]
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert done[1].spans_known == also[1].spans_known == 1
    assert [len(one.skipped) for one in (*done, *also)] == [0, 1, 0, 1]
    (rows,) = (rows for name, rows in content(tmp_path / "a").items() if "spans" in name)
    assert [row[list(SPAN_SCHEMA).index("name")] for row in rows] == ["closed"]


def test_a_kill_at_any_write_loses_nothing_and_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was stored stays, also while traces move, and the next ingest puts all right."""
    spans = late_ties()
    late = spans["attributes"].str.contains("shopping") | (spans["name"] == "resume")
    writer.ingest(spans.filter(~late), tmp_path / "before")
    ids = set(spans.filter(~late).select("trace_id", "span_id").rows())
    expected = fresh(tmp_path / "fresh", spans)
    for folder in killed_stores(
        tmp_path / "before", lambda store: writer.ingest(spans.filter(late), store), monkeypatch
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


def test_a_kill_at_any_write_of_a_server_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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

    for folder in killed_stores(tmp_path / "before", add, monkeypatch):
        with writing(folder) as started:
            started.finish_add()
            known = pl.concat(reader.read_spans(folder))
            assert content(folder) == fresh(tmp_path / f"known-{folder.name}", known)
            started.add(then)
        assert content(folder) == expected


def test_a_finding_that_an_earlier_version_left_goes_with_the_next_evaluation(
    tmp_path: Path, stored: Path
) -> None:
    """A server that ended while it stored could leave findings of a session that had moved."""
    folder = tmp_path / "s"
    shutil.copytree(stored, folder)
    one, other = sorted(folder.glob("findings/day=2026*/*/data.parquet"))[:2]
    rows = [pl.read_parquet(path, glob=False, hive_partitioning=False) for path in (one, other)]
    pl.concat(rows).write_parquet(other)
    assert content(folder) != content(stored)
    (folder / layout.UNFINISHED_FILE).touch()
    writer.ingest(SPAN_SCHEMA.to_frame(), folder)
    assert content(folder) == content(stored)


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


def _kill(left: Iterator[int]) -> None:
    if next(left, None) is None:
        raise Killed


def test_sigkill_at_many_moments_and_readers_meanwhile(tmp_path: Path) -> None:
    """No reader may ever fail, and a store that was killed often must be like one that was not."""
    spans = pl.concat([late_ties(), spans_of(*(looping(f"r{n}") for n in range(40)))])
    spans.write_parquet(tmp_path / "spans.parquet")
    folder = tmp_path / "s"
    for seed in range(KILLS):
        wait_s = seed / KILLS * KILL_AFTER_MAX_S / 2  # Before a look, and before the kill.
        arguments = [str(tmp_path / "spans.parquet"), str(folder), str(seed), str(SPANS_A_GO)]
        with subprocess.Popen(
            [sys.executable, "-c", VICTIM, *arguments], stdout=subprocess.PIPE
        ) as victim:
            assert victim.stdout is not None
            assert victim.stdout.readline() == b"ready\n"
            with pytest.raises(subprocess.TimeoutExpired):
                victim.wait(timeout=wait_s)
            _read_all(folder)
            with pytest.raises(subprocess.TimeoutExpired):
                victim.wait(timeout=wait_s)
            victim.kill()
        _read_all(folder)
    writer.ingest(spans, folder)
    assert content(folder) == fresh(tmp_path / "fresh", spans)


def _read_all(folder: Path) -> None:
    for turns in reader.read_turns(folder):
        assert turns["turn"].null_count() == 0
    for table in parquet.TABLES:
        with ask_typed(folder, f"FROM {table}") as answer:
            assert "bucket" in answer.columns


def test_two_ingests_at_once_are_refused(tmp_path: Path) -> None:
    """Two writers would undo each other's files."""
    writer.ingest(late_ties(), tmp_path)
    fcntl = pytest.importorskip("fcntl")
    with (tmp_path / "looptrace-store.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="another ingest or a server is using"):
            writer.ingest(late_ties(), tmp_path)
    assert writer.ingest(late_ties(), tmp_path).spans_new == 0


def test_no_file_is_replaced_while_it_is_read(tmp_path: Path) -> None:
    """An engine opens a file several times, and would mix the old one with the new one."""
    pytest.importorskip("fcntl")
    writer.ingest(spans_of(working("s1")), tmp_path)
    before = content(tmp_path)
    thread = Thread(target=writer.ingest, args=(late_ties(), tmp_path))
    with reading(tmp_path):
        thread.start()
        thread.join(timeout=WRITER_WAITS_S)
        assert thread.is_alive()
        assert content(tmp_path) == before
    thread.join()
    assert content(tmp_path) != before


@pytest.mark.parametrize("table", list(parquet.TABLES))
@pytest.mark.parametrize("damage", ["garbage", "empty", "cut off", "foreign"])
def test_a_damaged_file_is_named(stored: Path, table: str, damage: str) -> None:
    """A user must learn which file to move away, and not see a traceback."""
    victim = max((p for p in files_of(stored) if table in p.parts), key=lambda p: p.stat().st_size)
    whole = victim.read_bytes()
    damaged = {"garbage": b"\x00garbage" * 99, "empty": b"", "cut off": whole[: len(whole) // 2]}
    if damage == "foreign":
        pl.DataFrame({"colour": ["red"]}).write_parquet(victim)
    else:
        victim.write_bytes(damaged[damage])
    with pytest.raises(StoreError, match="cannot be read") as caught:
        writer.ingest(late_ties(), stored)
    message = str(caught.value)
    assert str(victim) in message
    assert "move it away" in message
    assert "\n" not in message


def test_a_full_disk_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ingest that cannot write says so, and what is stored stays readable."""
    writer.ingest(spans_of(working("s1")), tmp_path)
    before = content(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="No space left on device"):
            writer.ingest(late_ties(), tmp_path)
    assert content(tmp_path) == before
    assert not list(tmp_path.rglob(".data*"))


@pytest.mark.parametrize(
    ("marker", "why"),
    [
        (f'{{"schema": {layout.SCHEMA_VERSION + 1}, "buckets": 16}}', "update looptrace"),
        ('{"schema": 3, "buckets": 8}', "update looptrace"),
        ("{}", "cannot be read"),
        ("[]", "cannot be read"),
        ("\x00", "cannot be read"),
    ],
)
def test_a_store_of_another_version_is_refused(stored: Path, marker: str, why: str) -> None:
    """Writing into a layout that this version does not know would ruin it."""
    (stored / "looptrace-store.json").write_text(marker)
    for use in (lambda: list(reader.read_turns(stored)), lambda: connect(stored)):
        with pytest.raises(StoreError, match=why):
            use()
    with pytest.raises(StoreError, match=why):
        writer.ingest(late_ties(), stored)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """A mistyped path must not fill another folder with files."""
    (tmp_path / "thesis.txt").write_text("Chapter 1")
    with pytest.raises(StoreError, match="not a store"):
        writer.ingest(late_ties(), tmp_path)
    with pytest.raises(StoreError, match="is not a store"):
        list(reader.read_turns(tmp_path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(StoreError, match="cannot be used"):
        writer.ingest(late_ties(), tmp_path / "thesis.txt")


def test_a_store_of_nothing_can_be_read(tmp_path: Path) -> None:
    """The first ingest of a new deployment may well find no span."""
    done = writer.ingest(late_ties().clear(), tmp_path)
    assert done == writer.Ingested(0, 0, 0, 0, 0, 0, 0, ())
    assert layout.is_store(tmp_path)
    assert list(reader.read_turns(tmp_path)) == []
    assert reader.counts(tmp_path) == reader.StoreCounts(0, 0)
    assert list(files_of(tmp_path)) == []
    for table, schema in parquet.TABLES.items():
        assert reader.read_rows(tmp_path, table, pl.lit(value=True)).schema == schema
    assert reader.read_rows(tmp_path, "turns", pl.col("turn") > 0, ["task"]).columns == ["task"]
    with ask_typed(tmp_path, "SELECT count(*) FROM turns JOIN findings USING (task)") as answer:
        assert next(answer.batches) == [(0,)]
    opened = looptrace.open(tmp_path)
    assert (opened.tasks, len(opened.turns), len(opened.findings)) == ((), 0, 0)
    assert opened.detect().summary.spans == 0


def test_a_store_has_folders_of_the_days_of_its_rows_alone(tmp_path: Path) -> None:
    """A folder of 1970 makes people look for spans without a time, which may be there as well."""
    folder = tmp_path / "working"
    writer.ingest(spans_of(working("s1")), folder)
    assert {path.parts[-3] for path in files_of(folder)} == {"day=2026-03-02"}
    timeless = spans_of(looping("s2", at="1970-01-01T00:00:00+00:00"))
    writer.ingest(timeless, folder)
    assert {path.parts[-3] for path in files_of(folder)} == {"day=1970-01-01", "day=2026-03-02"}
    assert content(folder) == fresh(
        tmp_path / "both", pl.concat([timeless, spans_of(working("s1"))])
    )


def test_an_answer_comes_although_a_table_loses_its_last_file(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention may delete the only days with findings while a query is at work."""
    pytest.importorskip("fcntl")
    days = sorted({parquet.day_of(path) for path in files_of(stored)})
    thread = Thread(target=removal.delete_days, args=(stored, days))

    def connected(*stores: Path, **options: Any) -> Any:
        connection = connect(*stores, **options)
        thread.start()
        thread.join(timeout=WRITER_WAITS_S)
        return connection

    monkeypatch.setattr(sql, "connect", connected)
    with ask_typed(stored, "SELECT count(*) > 0 FROM findings") as answer:
        thread.join()
        assert next(answer.batches) == [(True,)]
    assert list(files_of(stored)) == []


def test_the_command_says_what_was_new_known_and_skipped(tmp_path: Path) -> None:
    """The exit code tells scripts, and the line tells people, whether everything was stored."""
    (tmp_path / "good.jsonl").write_text(looping("s1").lines())
    (tmp_path / "bad.jsonl").write_text('{"resourceSpans": [}\n')
    folder, run = tmp_path / "[s]", CliRunner().invoke
    good = ["--store", str(folder), str(tmp_path / "good.jsonl")]
    first, again = run(ingest_command, good), run(ingest_command, good)
    both = run(ingest_command, [*good, str(tmp_path / "bad.jsonl")])
    assert (first.exit_code, again.exit_code, both.exit_code) == (0, 0, 2)
    assert "spans new 5, known 0, parts skipped 0; turns 5, findings " in first.output
    assert "spans new 0, known 5, parts skipped 0; turns 5, findings " in again.output
    assert "bad.jsonl" in both.stderr
    assert "parts skipped 1" in both.output
    refused = run(main, ["ingest", "--store", str(tmp_path), str(tmp_path / "good.jsonl")])
    assert refused.exit_code == 2
    assert "not a store" in refused.stderr


def test_only_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    """The report of the damage may be late: the file was rewritten meanwhile."""
    writer.ingest(spans_of(looping("s1")), tmp_path)
    (file,) = (tmp_path / "turns").glob("day=2*/*/data.parquet")
    whole = file.read_bytes()
    assert not removal.set_aside(tmp_path, file)
    assert file.read_bytes() == whole
    file.write_bytes(whole[:100])
    assert removal.set_aside(tmp_path, file)
    assert not file.exists()
