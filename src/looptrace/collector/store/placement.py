"""The bucket of each trace, and the moves of spans to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import polars as pl

from looptrace.analyzer.engine.span_spool import SpanSpool, split_spans
from looptrace.analyzer.normalize.span_ties import tie_rows
from looptrace.analyzer.normalize.span_tree import groups
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, SPAN_TIES_SCHEMA, Skipped, distinct_spans
from looptrace.analyzer.text.digests import digest
from looptrace.collector.store.parquet import (
    BUCKETS,
    STORED_SPAN_SCHEMA,
    read_bucket,
    write_bucket,
)
from looptrace.processes import Engine

# More than enough to spread tasks evenly over the buckets.
_BUCKET_HASH_BYTES = 8


_ROW_KEY = ["trace_id", "span_id"]


Traces = set[str] | None  # of a bucket; None stands for all


@dataclass(frozen=True, slots=True)
class Placed:
    """The changed buckets, with the traces that got spans; None stands for all.

    `new` and `known` count the given spans; `skipped` are spans that lost against another with the
    same id.
    """

    touched: dict[int, Traces]
    new: int
    known: int
    skipped: list[Skipped]


@dataclass(frozen=True, slots=True)
class _Arriving:
    """Spans that belong in a bucket, in tables or in files."""

    bucket: int
    given: Sequence[pl.DataFrame | Path] = ()
    moved: list[pl.DataFrame] = field(default_factory=list)  # from other buckets


@dataclass(frozen=True, slots=True)
class _Added:
    """The spans added to a bucket; `is_plain` where all of them are new in it."""

    bucket: int
    traces: set[str]
    new: int
    known: int
    clashes: list[Skipped]  # among the given spans
    replaced: list[Skipped]
    is_plain: bool


def place(
    store_dir: Path,
    spool: SpanSpool,
    engine: Engine = map,
    on_left: Callable[[set[int]], None] = lambda _: None,
) -> Placed:
    """Bring every span, given (with its ties) or stored, to the bucket of its trace.

    New spans can tie stored traces together, or untie them by replacing a span, so stored traces
    can move. They are added to the one bucket before they are deleted from the other, so that a
    kill loses none; it may leave them in both, which the next call corrects. `on_left` gets the
    buckets that traces move from, before they move.

    Memory holds one table of the spool, the buckets that an engine works on, and the traces that
    move.
    """
    placed = Placed({}, 0, 0, [])
    ties = list(spool.each(tie_rows, engine))
    is_first = True
    while True:
        stored = _stored_ties(store_dir)
        buckets = _buckets_of(pl.concat([stored.drop("bucket"), *ties]).unique())
        strays = stored.join(buckets, on="trace_id").filter(pl.col("bucket") != pl.col("place"))
        strays = strays.select("bucket", "trace_id").unique()
        left = set(strays["bucket"])
        if left:
            on_left(left)
        given = spool.split(buckets, engine) if is_first else {}
        arriving = {bucket: _Arriving(bucket, spans) for bucket, spans in given.items()}
        for bucket in left:
            moved = _split(store_dir, bucket, strays)[0]
            for target, part in split_spans(moved, buckets):
                arriving.setdefault(target, _Arriving(target)).moved.append(part)
        added = list(engine(partial(_add, store_dir), arriving.values()))
        for bucket in left:
            _write_spans(store_dir, bucket, _split(store_dir, bucket, strays)[1])
        placed = _placed(placed, added, left)
        if not left and all(each.is_plain for each in added):
            return placed
        ties, is_first = [], False


def _placed(before: Placed, added: Sequence[_Added], left: set[int]) -> Placed:
    touched = dict(before.touched)
    for each in added:
        came = touched.get(each.bucket, set())
        touched[each.bucket] = None if came is None else came | each.traces
    clashes = sorted((clash for each in added for clash in each.clashes), key=lambda c: c.where)
    return Placed(
        touched | dict.fromkeys(left),
        before.new + sum(each.new for each in added),
        before.known + sum(each.known for each in added),
        [*before.skipped, *clashes, *(lost for each in added for lost in each.replaced)],
    )


def _add(store_dir: Path, arriving: _Arriving) -> _Added:
    """Merge spans into a bucket."""
    empty = STORED_SPAN_SCHEMA.to_frame()
    tables = (pl.read_ipc(each) if isinstance(each, Path) else each for each in arriving.given)
    given, clashes = distinct_spans(pl.concat([empty, *tables]))
    before = pl.concat([read_bucket(store_dir, "spans", arriving.bucket), *arriving.moved])
    known = given.join(before.select(_ROW_KEY), on=_ROW_KEY, how="semi").height
    # An earlier version that read other ties may have stored the same span.
    every = pl.concat([before, given])
    both = every.unique(list(SPAN_SCHEMA), keep="last", maintain_order=True)
    kept, replaced = distinct_spans(both)
    _write_spans(store_dir, arriving.bucket, kept)
    return _Added(
        bucket=arriving.bucket,
        traces={
            *given["trace_id"],
            *(name for part in arriving.moved for name in part["trace_id"]),
        },
        new=given.height - known,
        known=known,
        clashes=clashes,
        replaced=replaced,
        is_plain=kept.height == every.height and not clashes,
    )


def _split(store_dir: Path, bucket: int, strays: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read a bucket's spans: those of traces that belong to other buckets, and the rest."""
    spans = read_bucket(store_dir, "spans", bucket)
    traces = strays.filter(pl.col("bucket") == bucket)["trace_id"]
    leaves = spans["trace_id"].is_in(traces.implode())
    return spans.filter(leaves), spans.filter(~leaves)


def _stored_ties(store_dir: Path) -> pl.DataFrame:
    """Return the tied pairs of all stored traces, with their current bucket."""
    return pl.concat(
        tie_rows(
            read_bucket(store_dir, "spans", bucket, ["trace_id", *SPAN_TIES_SCHEMA])
        ).with_columns(bucket=pl.lit(bucket))
        for bucket in range(BUCKETS)
    )


def _buckets_of(ties: pl.DataFrame) -> pl.DataFrame:
    """Return the bucket (`place`) of every trace: the same for all that are tied together."""
    group = groups(ties.iter_rows())
    traces = ties["trace_id"].unique()
    targets = [_bucket_of(group[trace]) for trace in traces]
    return pl.DataFrame([traces, pl.Series("place", targets, dtype=pl.Int32)])


def _bucket_of(group: str) -> int:
    """Hash a group's name; the hash is the same in every version and on every machine."""
    return int(digest(group, size_bytes=_BUCKET_HASH_BYTES), 16) % BUCKETS


def buckets_with(store_dir: Path, traces: set[str]) -> set[int]:
    """Return the buckets that hold spans of these traces."""
    return set(_stored_ties(store_dir).filter(pl.col("trace_id").is_in(traces))["bucket"])


def tied_traces(spans: pl.DataFrame, traces: Traces) -> Traces:
    """Return these traces, and the traces of the bucket that are tied to them."""
    if traces is None:
        return None
    group = groups(tie_rows(spans).iter_rows())
    meant = {group[trace] for trace in traces if trace in group}
    return traces | {trace for trace in group if group[trace] in meant}


def of_traces(traces: Traces) -> pl.Expr:
    """Return the condition that a row belongs to one of the traces."""
    return pl.lit(value=True) if traces is None else pl.col("trace_id").is_in(traces)


def _write_spans(store_dir: Path, bucket: int, spans: pl.DataFrame) -> None:
    spans = spans.sort("trace_id", "start_ns", "span_id")
    write_bucket(store_dir, "spans", bucket, spans, spans["start_ns"])
