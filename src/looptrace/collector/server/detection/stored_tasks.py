"""The stored tasks that may go on after a start: each is read when it gets spans.

A start reads only the ties of recent spans: which traces belong together, and in which bucket.
"""

from collections.abc import Collection
from pathlib import Path

import numpy as np
import polars as pl

from looptrace.analyzer.engine.outages import SharedFailure
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.schema.turns import BY_TURN, TURN_SCHEMA
from looptrace.collector.store.buckets.placement import connected, recent_ties
from looptrace.collector.store.file_names import BUCKETS
from looptrace.collector.store.layout import require_store
from looptrace.collector.store.locks import reading
from looptrace.collector.store.tables.file_contents import Having
from looptrace.collector.store.tables.parquet import read_bucket, read_buckets

_TASK_AND_TRACE = ["task", "trace_id"]
_FAILURE_COLUMNS = [*SharedFailure._fields, "failed"]


class StoredTasks:
    """The tasks of a store that had spans since some moment before a start."""

    def __init__(self, store_dir: Path, since_ns: int) -> None:
        """Read the ties of the traces that ended since then."""
        require_store(store_dir)
        self._dir = store_dir
        self._since_ns = since_ns
        with reading(store_dir):
            self._ties = recent_ties(store_dir, since_ns)
        names = pl.concat([self._ties["trace_id"], self._ties["tie"]])
        self._hashes = names.hash().unique().sort().to_numpy()
        self._read: set[str] = set()  # traces, sessions and tasks that were read
        self._failures: pl.DataFrame | None = None

    def ties_of(self, names: Collection[str]) -> pl.DataFrame:
        """Return the ties of all stored traces to which these names lead, but for those read."""
        asked = pl.Series([name for name in names if name not in self._read], dtype=pl.String)
        hashes = asked.hash().to_numpy()
        if not (self._hashes.size and hashes.size):
            return self._ties.clear()
        nearest = np.minimum(np.searchsorted(self._hashes, hashes), self._hashes.size - 1)
        known = asked.filter(pl.Series(self._hashes[nearest] == hashes))
        return connected(self._ties, known) if known.len() else self._ties.clear()

    def note_read(self, ties: pl.DataFrame) -> None:
        """Note that what these ties lead to was read, and is not to be read again."""
        self._read.update(ties["trace_id"], ties["tie"])

    @property
    def has_more(self) -> bool:
        """Whether there are tasks that were not read yet."""
        return self._hashes.size > len(self._read)

    def forget(self) -> None:
        """Forget what was not read, because nothing of it goes on any more."""
        self._ties, self._hashes = self._ties.clear(), self._hashes[:0]
        if self._failures is not None:
            self._failures = self._failures.clear()

    def turns(self, ties: pl.DataFrame) -> pl.DataFrame:
        """Return the turns (`TURN_SCHEMA`) of the tasks of these traces, sorted."""
        with reading(self._dir):
            found = read_buckets(self._dir, "turns", self._of_tasks(ties))
        turns = pl.concat([TURN_SCHEMA.to_frame(), *found.values()])
        return turns.sort(BY_TURN, maintain_order=True)

    def with_older(self, ties: pl.DataFrame) -> pl.DataFrame:
        """Return these traces (`trace_id`, `bucket`) and the older ones of their tasks."""
        with reading(self._dir):
            turns = read_buckets(self._dir, "turns", self._of_tasks(ties), _TASK_AND_TRACE)
        older = (
            each.select("trace_id", bucket=pl.lit(bucket, pl.Int32))
            for bucket, each in turns.items()
        )
        return pl.concat([ties.select("trace_id", "bucket"), *older]).unique()

    def _of_tasks(self, ties: pl.DataFrame) -> dict[int, Having]:
        """Return by bucket the condition that a turn is of a task of these traces."""
        turns = read_buckets(self._dir, "turns", _of_traces(ties), _TASK_AND_TRACE)
        return {bucket: Having("task", each["task"].unique()) for bucket, each in turns.items()}

    def spans(self, ties: pl.DataFrame) -> pl.DataFrame:
        """Return the spans (`SPAN_SCHEMA`) of these traces (`trace_id`, `bucket`)."""
        with reading(self._dir):
            found = read_buckets(self._dir, "spans", _of_traces(ties), list(SPAN_SCHEMA))
        return pl.concat([SPAN_SCHEMA.to_frame(), *found.values()])

    def take_failures(self, signatures: pl.Series) -> pl.DataFrame:
        """Return the stored failed turns of these signatures, each once.

        The first call reads them all.
        """
        if self._failures is None:
            with reading(self._dir):
                parts = [self._failures_in(bucket) for bucket in range(BUCKETS)]
            self._failures = pl.concat(parts)
        is_asked = self._failures["signature"].is_in(signatures.implode())
        taken, self._failures = self._failures.filter(is_asked), self._failures.filter(~is_asked)
        return taken

    def _failures_in(self, bucket: int) -> pl.DataFrame:
        turns = read_bucket(
            self._dir, "turns", bucket, _FAILURE_COLUMNS, written_since_ns=self._since_ns
        )
        return turns.filter(pl.col("failed") & (pl.col("end_ns") > self._since_ns))


def _of_traces(ties: pl.DataFrame) -> dict[int, Having]:
    parts = ties.partition_by("bucket", as_dict=True, include_key=False)
    return {int(b): Having("trace_id", part["trace_id"].unique()) for (b,), part in parts.items()}
