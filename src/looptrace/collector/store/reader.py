"""Readers of a store: turns, spans, counts."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import polars as pl

from looptrace.analyzer.detect.findings import Cost, Finding, LoopTurn
from looptrace.analyzer.detect.times import ASKS_PERSON, WAITS
from looptrace.analyzer.fingerprint.equivalence import Sameness
from looptrace.analyzer.fingerprint.fingerprints import compared_by
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.schema.turns import BY_TURN, IS_STEP
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.analyzer.text.session_names import session_task
from looptrace.collector.store.file_names import BUCKETS
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.layout import gates_path, read_evaluated, require_store
from looptrace.collector.store.locks import EVALUATE, StoreError, reading
from looptrace.collector.store.objects.snapshot import Snapshot, local_folder, snapshot_of
from looptrace.collector.store.tables.file_contents import Having
from looptrace.collector.store.tables.finding_rows import PART_COLUMNS, loops_of_rows
from looptrace.collector.store.tables.parquet import (
    bucket_files,
    bucket_made_with,
    count_bucket,
    read_bucket,
    read_where,
)
from looptrace.collector.store.tables.task_parts import task_parts

R = TypeVar("R")

_TURN_COLUMNS = ["task", "kind", "agent", "service", "start_ns", "end_ns", "failed"]
_ALL = pl.lit(value=True)
_TOKEN_COLUMNS = ["input_tokens", "output_tokens"]


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """The size of a store."""

    spans: int
    sessions: int


def counts(store_dir: Path) -> StoreCounts:
    """Count the spans of a store, and the sessions of its turns."""
    sessions = set[str]()
    for turns in _by_bucket(store_dir, "turns", ["session"]):
        sessions.update(turns["session"])
    return StoreCounts(count_spans(store_dir), len(sessions))


def count_spans(store_dir: Path) -> int:
    """Count the spans of a store."""
    require_store(store_dir)
    with reading(store_dir):
        return sum(count_bucket(store_dir, "spans", bucket) for bucket in range(BUCKETS))


def read_some_spans(store_dir: Path, spans_min: int) -> pl.DataFrame:
    """Read the spans (`SPAN_SCHEMA`) of as many buckets as have so many, at most of all."""
    found = pl.DataFrame(schema=SPAN_SCHEMA)
    for spans in read_spans(store_dir):
        found = pl.concat([found, spans])
        if found.height >= spans_min:
            break
    return found


def read_turns(store_dir: Path) -> Iterator[pl.DataFrame]:
    """Read the turns (`TURN_SCHEMA`) bucket by bucket, sorted by task and turn.

    A task is never split between two tables. Empty buckets are left out.
    """
    for bucket in range(BUCKETS):
        turns = read_turns_in(store_dir, bucket)
        if not turns.is_empty():
            yield turns


def read_turns_in(store_dir: Path, bucket: int) -> pl.DataFrame:
    """Read the turns (`TURN_SCHEMA`) of one bucket, sorted by task and turn."""
    require_store(store_dir)
    with reading(store_dir):
        turns = read_bucket(store_dir, "turns", bucket)
    return turns.sort(BY_TURN, maintain_order=True)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket of a store, and the files that it has on the machine that distributes the work.

    For a store on object storage each machine fetches them itself, as of the `snapshot`.
    """

    store_dir: Path
    number: int
    files: tuple[Path, ...]
    snapshot: Snapshot | None = None


def buckets(store_dir: Path) -> Iterator[Bucket]:
    """Yield the buckets of a store, under a path that is valid in other processes."""
    require_store(store_dir)
    folder, snapshot = store_dir.resolve(), snapshot_of(store_dir)
    for number in range(BUCKETS):
        files = () if snapshot else tuple(bucket_files(folder, "turns", number))
        yield Bucket(folder, number, files, snapshot)


@contextmanager
def reading_bucket(bucket: Bucket) -> Iterator[Bucket]:
    """Prevent changes to the files of a bucket, in any process and on any machine.

    Yields the bucket at its place on this machine.

    Raises:
        StoreError: if this process cannot find the files.
    """
    if missing := next((path for path in bucket.files if not path.is_file()), None):
        raise StoreError(f"{missing}: is not there; each machine needs the store at the same path.")
    with local_folder(bucket.snapshot, bucket.store_dir) as folder, reading(folder):
        yield replace(bucket, store_dir=folder)


def compared_parts(
    bucket: Bucket, sameness: Sameness, tasks: Collection[str] | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the turns of whole tasks, some or all, part by part, compared by `sameness`."""
    made_with = bucket_made_with(bucket.store_dir, "turns", bucket.number)
    for turns in task_parts(bucket.store_dir, bucket.number, tasks):
        if not turns.is_empty():
            yield compared_by(turns, sameness, made_with)


@dataclass(frozen=True, slots=True)
class BucketWork(Generic[R]):
    """Work on the turns of a bucket, part by part.

    Turns are compared by the declared equivalence.
    """

    sameness: Sameness
    work: Callable[[pl.DataFrame], R]

    def __call__(self, bucket: Bucket) -> list[R]:
        """Return the result of the work for each part; parts are whole tasks.

        Raises:
            StoreError: if this process cannot find the files, or they cannot be read.
        """
        with reading_bucket(bucket) as here:
            return [self.work(turns) for turns in compared_parts(here, self.sameness)]


def read_turns_of(store_dir: Path, task: str) -> pl.DataFrame:
    """Read the turns (`TURN_SCHEMA`) of one task, sorted."""
    return read_turns_of_tasks(store_dir, [task])


def read_turns_named(store_dir: Path, name: str) -> pl.DataFrame:
    """Read the turns (`TURN_SCHEMA`) of the task of this name, else of that of its session.

    There is none where the store has neither.

    Raises:
        SeveralServicesError: if several services have such a session.
    """
    turns = read_turns_of(store_dir, name)
    of_session = tasks_of_session(store_dir, name) if turns.is_empty() else []
    return read_turns_of_tasks(store_dir, of_session) if of_session else turns


def tasks_named(store_dir: Path, name: str) -> list[str]:
    """Return the tasks that a name may mean; all tasks of the store where it means none."""
    of_name = (pl.col("task") == name) | (pl.col("session") == name)
    for which in (of_name, pl.lit(value=True)):
        tasks = read_rows(store_dir, "turns", which, ["task"])["task"].unique()
        if tasks.len():
            break
    return tasks.to_list()


def tasks_of_session(store_dir: Path, session: str) -> list[str]:
    """Return the tasks of this session of a service; none where the store has no turn of it.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read. SeveralServicesError:
        if several services have such a session.
    """
    turns = read_rows(store_dir, "turns", pl.col("session") == session, ["task"])
    return session_task(session, turns["task"].unique())


def tasks_of_trace(store_dir: Path, trace_id: str) -> list[str]:
    """Return the tasks of a trace's turns."""
    turns = read_rows(store_dir, "turns", pl.col("trace_id") == trace_id, ["task"])
    return turns["task"].unique(maintain_order=True).to_list()


def read_turns_of_tasks(store_dir: Path, tasks: Collection[str]) -> pl.DataFrame:
    """Read the turns (`TURN_SCHEMA`) of some tasks, sorted by task and turn."""
    turns = rows_of(store_dir, "turns", "task", tasks)
    return turns.sort(BY_TURN, maintain_order=True)


def read_findings_of_tasks(store_dir: Path, tasks: Collection[str]) -> list[Finding]:
    """Read the stored findings of some tasks, by task and first turn."""
    rows = rows_of(store_dir, "findings", "task", tasks)
    rows = rows.sort("task", "turn_first", "turn_last", "rule", "id")
    return [finding_of_row(row) for row in rows.iter_rows(named=True)]


def read_loops(store_dir: Path) -> pl.DataFrame:
    """Read the `loop` of each stored finding by its `id`; both are ids of findings."""
    return pl.concat(map(loops_of_rows, _by_bucket(store_dir, "findings", PART_COLUMNS)))


def read_tasks(store_dir: Path) -> pl.DataFrame:
    """Read each task that has turns: a row with their counts.

    `tokens` is null where no turn has a number, `asks` and `waits_ns` unless its last call waits.
    """
    turns = read_rows(store_dir, "turns", _ALL, [*_TURN_COLUMNS, *_TOKEN_COLUMNS])
    asked = read_rows(store_dir, "turns", ASKS_PERSON)
    asked = asked.select(*WAITS, last_ns="end_ns").unique(["task", "last_ns"])
    tasks = turns.group_by("task").agg(
        service=pl.col("service").drop_nulls().first().fill_null(""),
        agents=pl.col("agent").filter(pl.col("agent") != "").unique(maintain_order=True),
        turns=IS_STEP.sum(),
        failed=pl.col("failed").sum(),
        tokens=pl.when(pl.any_horizontal(pl.col(_TOKEN_COLUMNS).is_not_null()).any()).then(
            pl.sum_horizontal(_TOKEN_COLUMNS).sum()
        ),
        first_ns=pl.col("start_ns").min(),
        last_ns=pl.col("end_ns").max(),
    )
    return tasks.join(asked, on=["task", "last_ns"], how="left")


def read_rows(
    store_dir: Path,
    table: str,
    which: pl.Expr,
    columns: list[str] | None = None,
    having: Sequence[Having] = (),  # as `read_where` takes it
) -> pl.DataFrame:
    """Read the rows of a table that fulfil a condition, with all columns or some."""
    require_store(store_dir)
    with reading(store_dir):
        return read_where(store_dir, table, which, columns, having)


def rows_of(
    store_dir: Path,
    table: str,
    column: str,
    values: Collection[str],
    which: pl.Expr = _ALL,
    columns: list[str] | None = None,
) -> pl.DataFrame:
    """Read the rows with one of some values in a column that fulfil a condition; as `read_rows`."""
    having = Having(column, pl.Series([*values], dtype=pl.String))
    return read_rows(store_dir, table, having.expr & which, columns, [having])


def finding_of_row(row: dict[str, Any]) -> Finding:
    """Return a finding from its row in the table of findings."""
    cost = Cost(**{field.name: row.pop(f"cost_{field.name}") for field in fields(Cost)})
    turns = tuple(LoopTurn(**turn) for turn in row.pop("turns"))
    return Finding(**row, turns=turns, cost=cost)


def read_spans(store_dir: Path) -> Iterator[pl.DataFrame]:
    """Read the spans (`SPAN_SCHEMA`) bucket by bucket, sorted by trace and start.

    A trace is never split between two tables. Empty buckets are left out.
    """
    require_store(store_dir)
    for bucket in range(BUCKETS):
        with reading(store_dir):
            spans = read_bucket(store_dir, "spans", bucket, list(SPAN_SCHEMA))
        if not spans.is_empty():
            yield spans.sort("trace_id", "start_ns", "span_id")


def worked(store_dir: Path) -> pl.DataFrame:
    """Read the pairs of `task` and `agent` that have turns."""
    turns = _by_bucket(store_dir, "turns", ["task", "agent", "kind"])
    return pl.concat(each.filter(IS_STEP).select("task", "agent").unique() for each in turns)


def _by_bucket(store_dir: Path, table: str, columns: list[str]) -> Iterator[pl.DataFrame]:
    require_store(store_dir)
    with reading(store_dir):
        for bucket in range(BUCKETS):
            yield read_bucket(store_dir, table, bucket, columns)


def open_gates(store_dir: Path, webhooks: Sequence[Webhook] = ()) -> GateStore:
    """Open the gates of a store; recorded events go to the outbox of these webhooks.

    Raises:
        StoreError: if the folder is no store, or its gates cannot be read, were never written, or
        are not all there.
    """
    noted = read_evaluated(store_dir)  # First, because events come meanwhile.
    gates = GateStore.open(gates_path(store_dir), webhooks, create=False)
    try:
        if (events := gates.last_seq()) < noted.events:
            raise StoreError(
                f"{gates.path}: lacks events, it has {events}; to find its gates again, {EVALUATE}."
            )
    except BaseException:
        gates.close()
        raise
    return gates


def count_rows(store_dir: Path, table: str, column: str, which: pl.Expr) -> int:
    """Count the rows of a table that fulfil a condition on one of its columns."""
    buckets = (read_bucket(store_dir, table, bucket, [column]) for bucket in range(BUCKETS))
    return sum(rows.filter(which).height for rows in buckets)
