"""What an ingest stores, and where."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
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
from looptrace.collector.store import file_names, layout, reader, writer
from looptrace.collector.store.sql.connection import ask_typed
from looptrace.collector.store.tables import parquet
from looptrace.collector.store.writer import writing
from tests.collector.store.stored import (
    content,
    files_of,
    fresh,
    late_ties,
    looping,
    spans_of,
    stamps,
    working,
)
from tests.commands import refused, run
from tests.drivers import findings_of
from tests.otlp import Trace, tool_call
from tests.seeds import seeds

MASKED = DetectionPolicy(sameness=Sameness(masks=(TextMask("total is [0-9]+", "total"),)))


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


def evaluated(folder: Path, spans: pl.DataFrame) -> list[tuple[int, int]]:
    """Return the buckets that are done and all buckets, as an ingest tells them."""
    told: list[tuple[int, int]] = []
    with SpanSpool() as spool, writing(folder) as writer:
        spool.add(spans)
        writer.ingest(spool, on_evaluated=lambda *counts: told.append(counts))
    return told


def test_an_ingest_tells_how_far_it_is(tmp_path: Path) -> None:
    """A person who waits sees each bucket, up to the last of those that there are."""
    told = evaluated(tmp_path / "s", late_ties())
    assert [done for done, _ in told] == list(range(1, len(told) + 1))
    assert {count for _, count in told} == {len(told)} != {0}


def test_only_buckets_with_files_are_derived(tmp_path: Path) -> None:
    """A small file took as long as sixteen buckets do."""
    assert evaluated(tmp_path / "s", spans_of(looping("alone"))) == [(1, 1)]


@pytest.mark.parametrize("seed", seeds(2))
def test_any_order_and_any_split_give_the_same_store(
    tmp_path: Path, stored: Path, seed: int
) -> None:
    """Spans arrive as networks please, so that the store may depend on their set alone."""
    spans = late_ties()
    shuffled = spans.sample(fraction=1, shuffle=True, seed=seed)
    for part in shuffled.iter_slices(5 + 6 * seed):
        writer.ingest(part, tmp_path / "parts")
    assert content(tmp_path / "parts") == content(stored)


def test_stored_spans_are_not_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns are made of the spans that a round holds; only those of before are read."""
    read, read_files = list[str](), parquet.read_files

    def noted(paths: Sequence[Path], *how: Any) -> pl.DataFrame:
        read.extend(path.parents[2].name for path in paths)
        return read_files(paths, *how)

    with writing(tmp_path / "s") as store, SpanSpool() as none:
        store.ingest(none)
        monkeypatch.setattr(parquet, "read_files", noted)
        first, more = (spans_of(looping("s1", name=name)) for name in ("first", "more"))
        store.add(first)
        assert "spans" not in read
        store.add(more)
        assert "spans" in read
    assert content(tmp_path / "s") == fresh(tmp_path / "fresh", pl.concat([first, more]))


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
    call = tool_call("find", "{}", call_id="c1") | {"looptrace.task.id": "t1"}
    asked.span("execute_tool find", None, call)
    asking = {"type": "tool_call", "id": "c1", "name": "find", "arguments": {}}
    telling = {"type": "tool_call_response", "id": "c1", "response": "late"}
    messages = [{"role": "assistant", "parts": [asking]}, {"role": "tool", "parts": [telling]}]
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


def fingerprinted(folder: Path, sameness: Sameness) -> int:
    """Read all buckets, compared by this; return the number of fingerprinted turns."""
    made: list[int] = []

    def noted(turns: pl.DataFrame, by: Sameness) -> pl.DataFrame:
        made.append(turns.height)
        return add_fingerprints(turns, by)

    work = reader.BucketWork(sameness, pl.DataFrame.clone)
    with pytest.MonkeyPatch.context() as patched:
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

    assert fingerprinted(folder, NOTHING) == 0
    assert fingerprinted(folder, MASKED.sameness) >= stored.turns > 0
    monkeypatch.setattr(fingerprints, "SOURCE", "another")
    assert fingerprinted(folder, NOTHING) >= stored.turns


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
    assert fingerprinted(folder, NOTHING) == other > 0

    writer.ingest(SPAN_SCHEMA.to_frame(), folder, MASKED)
    assert fingerprinted(folder, MASKED.sameness) == 0


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


def test_a_finding_that_an_earlier_version_left_goes_with_the_next_evaluation(
    tmp_path: Path, stored: Path
) -> None:
    """A server that ended while it stored could leave findings of a session that had moved."""
    folder = shutil.copytree(stored, tmp_path / "s")
    one, other = sorted(folder.glob("findings/day=2026*/*/data.parquet"))[:2]
    rows = [pl.read_parquet(path, glob=False, hive_partitioning=False) for path in (one, other)]
    pl.concat(rows).write_parquet(other)
    assert content(folder) != content(stored)
    (folder / layout.UNFINISHED_FILE).touch()
    writer.ingest(SPAN_SCHEMA.to_frame(), folder)
    assert content(folder) == content(stored)


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


def test_the_command_says_what_was_new_known_and_skipped(tmp_path: Path) -> None:
    """The exit code tells scripts, and the line tells people, whether everything was stored."""
    (tmp_path / "good.jsonl").write_text(looping("s1").lines())
    (tmp_path / "bad.jsonl").write_text('{"resourceSpans": [}\n')
    good = ("ingest", "--store", tmp_path / "[s]", tmp_path / "good.jsonl")
    first, again, both = run(*good), run(*good), run(*good, tmp_path / "bad.jsonl")
    assert (first.exit_code, again.exit_code, both.exit_code) == (0, 0, 2)
    assert "spans new 5, known 0, parts skipped 0; turns 5, findings " in first.output
    assert "spans new 0, known 5, parts skipped 0; turns 5, findings " in again.output
    assert "bad.jsonl" in both.stderr
    assert "parts skipped 1" in both.output
    assert "not a store" in refused("ingest", "--store", tmp_path, tmp_path / "good.jsonl")
