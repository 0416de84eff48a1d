"""What a store holds: turns, spans, counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.schema.turns import IS_STEP, IS_USER, TURN_SCHEMA
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.layout import gates_path, require_store
from looptrace.collector.store.locks import reading
from looptrace.collector.store.parquet import BUCKETS, read_bucket

_SPAN = ["trace_id", "span_id"]


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """How much a store holds."""

    spans: int
    sessions: int


def counts(store_dir: Path) -> StoreCounts:
    """Count the spans of a store, and the sessions of its turns.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    require_store(store_dir)
    sessions: set[str] = set()
    with reading(store_dir):
        for bucket in range(BUCKETS):
            sessions.update(read_bucket(store_dir, "turns", bucket, ["session"])["session"])
        return StoreCounts(
            count_rows(store_dir, "spans", "span_id", pl.lit(value=True)), len(sessions)
        )


def read_turns(store_dir: Path) -> Iterator[pl.DataFrame]:
    """Read the turns (`TURN_SCHEMA`) bucket by bucket, sorted by task and turn.

    A task is never split between two tables. Empty buckets are left out.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    require_store(store_dir)
    for bucket in range(BUCKETS):
        with reading(store_dir):
            turns = read_bucket(store_dir, "turns", bucket)
        if not turns.is_empty():
            # A person's message has the number of the turn before it, and comes after it.
            yield turns.sort("task", "turn", IS_USER, "order_ns", maintain_order=True)


def read_turns_of(store_dir: Path, task: str) -> pl.DataFrame:
    """Read the turns (`TURN_SCHEMA`) of one task, sorted.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    mine = (turns.filter(pl.col("task") == task) for turns in read_turns(store_dir))
    return next((turns for turns in mine if turns.height), TURN_SCHEMA.to_frame())


def read_turns_around(store_dir: Path, finding: Finding) -> pl.DataFrame | None:
    """Return the turns of a finding's task, None until all that it names are stored.

    Its task may have got its name after the finding was made; here it has that of the finding.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    spans = pl.DataFrame([(t.trace_id, t.span_id) for t in finding.turns], _SPAN, orient="row")
    for turns in read_turns(store_dir):
        named = turns.join(spans, on=_SPAN, how="semi")
        names = named["task"].unique().to_list()
        task = finding.task if finding.task in names else next(iter(names), None)
        of_task = turns.filter(pl.col("task") == task)
        if spans.join(of_task, on=_SPAN, how="anti").is_empty():
            return of_task.with_columns(task=pl.lit(finding.task))
    return None


def read_spans(store_dir: Path) -> Iterator[pl.DataFrame]:
    """Read the spans (`SPAN_SCHEMA`) bucket by bucket, sorted by trace and start.

    A trace is never split between two tables. Empty buckets are left out.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    require_store(store_dir)
    for bucket in range(BUCKETS):
        with reading(store_dir):
            spans = read_bucket(store_dir, "spans", bucket, list(SPAN_SCHEMA))
        if not spans.is_empty():
            yield spans.sort("trace_id", "start_ns", "span_id")


def worked(store_dir: Path) -> pl.DataFrame:
    """Read which agents (`agent`) took turns in which tasks (`task`).

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    require_store(store_dir)
    columns = ["task", "agent", "kind"]
    with reading(store_dir):
        buckets = [read_bucket(store_dir, "turns", bucket, columns) for bucket in range(BUCKETS)]
    pairs = [turns.filter(IS_STEP).select("task", "agent").unique() for turns in buckets]
    return pl.concat(pairs)


def open_gates(store_dir: Path, webhooks: Sequence[Webhook] = ()) -> GateStore:
    """Open the gates of a store; what is recorded goes to the outbox of these webhooks.

    Raises:
        StoreError: if the folder is no store, or its gates cannot be read or were never written.
    """
    return GateStore.open(gates_path(store_dir), webhooks)


def count_rows(store_dir: Path, table: str, column: str, which: pl.Expr) -> int:
    """Count the rows of a table that fulfil a condition on one of its columns."""
    buckets = (read_bucket(store_dir, table, bucket, [column]) for bucket in range(BUCKETS))
    return sum(rows.filter(which).height for rows in buckets)
