"""The bucket of each trace, and the moves of spans to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
    replace_rows,
)
from looptrace.processes import Engine

# More than enough to spread tasks evenly over the buckets.
_BUCKET_HASH_BYTES = 8


_ROW_KEY = ["trace_id", "span_id"]


Traces = set[str] | None  # of a bucket; None stands for all


@dataclass(frozen=True, slots=True)
class Placed:
    """The changed buckets, with the traces that got spans; None stands for all.

    Traces that are tied to these are among them. `new` and `known` count the given spans; `skipped`
    are spans that lost against another with the same id.
    """

    touched: dict[int, Traces]
    new: int
    known: int
    skipped: list[Skipped]
    ties: pl.DataFrame | None = None  # of all stored traces now, for the next call


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
    known: pl.DataFrame | None = None,
) -> Placed:
    """Bring every span, given (with its ties) or stored, to the bucket of its trace.

    New spans can tie stored traces together, or untie them by replacing a span, so stored traces
    can move. They are added to the one bucket before they are deleted from the other, so that a
    kill loses none; it may leave them in both, which the next call corrects that does not know the
    ties of the last one. With these `known` only what is tied to the given spans is looked at.
    `on_left` gets the buckets that traces move from, before they move.

    Memory holds one table of the spool, the ties, the rows that an engine works on, and the traces
    that move.
    """
    placed = Placed({}, 0, 0, [])
    ties = pl.concat(spool.each(tie_rows, engine)).unique()
    came, is_first = ties["trace_id"].unique(), True
    while True:
        stored = _stored_ties(store_dir) if known is None else known
        near = stored if known is None else _connected(stored, pl.concat([came, ties["tie"]]))
        buckets = _buckets_of(pl.concat([near.drop("bucket"), ties]).unique())
        strays = near.join(buckets, on="trace_id").filter(pl.col("bucket") != pl.col("place"))
        strays = strays.select("bucket", "trace_id").unique()
        left = {
            int(b): part["trace_id"]
            for (b,), part in strays.partition_by("bucket", as_dict=True).items()
        }
        if left:
            on_left({*left})
        places = buckets.drop("group")
        given = spool.split(places, engine) if is_first else {}
        arriving = {bucket: _Arriving(bucket, spans) for bucket, spans in given.items()}
        for bucket, traces in left.items():
            moved = read_bucket(store_dir, "spans", bucket, which=of_traces(traces))
            for target, part in split_spans(moved, places):
                arriving.setdefault(target, _Arriving(target)).moved.append(part)
        added = list(engine(partial(_add, store_dir), arriving.values()))
        for bucket, traces in left.items():
            _replace_spans(store_dir, bucket, traces, STORED_SPAN_SCHEMA.to_frame())
        placed = _placed(placed, added, _tied(buckets, added), {*left})
        is_replaced = any(each.replaced or each.clashes for each in added)
        known = None if is_replaced else _with_given(stored, near, ties, buckets)
        if not left and all(each.is_plain for each in added):
            return replace(placed, ties=known)
        ties, is_first = ties.clear(), False


def _placed(
    before: Placed, added: Sequence[_Added], tied: dict[int, set[str]], left: set[int]
) -> Placed:
    touched = dict(before.touched)
    for bucket, traces in tied.items():
        came = touched.get(bucket, set())
        touched[bucket] = None if came is None else came | traces
    clashes = sorted((clash for each in added for clash in each.clashes), key=lambda c: c.where)
    return Placed(
        touched | dict.fromkeys(left),
        before.new + sum(each.new for each in added),
        before.known + sum(each.known for each in added),
        [*before.skipped, *clashes, *(lost for each in added for lost in each.replaced)],
    )


def _tied(buckets: pl.DataFrame, added: Sequence[_Added]) -> dict[int, set[str]]:
    """Return by bucket the traces that are tied to those that got spans, and these."""
    came = pl.Series([name for each in added for name in each.traces], dtype=pl.String)
    of_groups = buckets.filter(pl.col("trace_id").is_in(came.implode()))["group"].unique()
    tied = buckets.filter(pl.col("group").is_in(of_groups.implode()))
    return {
        int(place): {*part["trace_id"]}
        for (place,), part in tied.partition_by("place", as_dict=True).items()
    }


def _connected(stored: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return the stored pairs that lead to one of these names."""
    names = names.unique()
    while True:
        of_names = pl.any_horizontal(pl.col("trace_id", "tie").is_in(names.implode()))
        pairs = stored.filter(of_names)
        more = pl.concat([names, pairs["trace_id"], pairs["tie"]]).unique()
        if more.len() == names.len():
            return pairs
        names = more


def _with_given(
    stored: pl.DataFrame, near: pl.DataFrame, ties: pl.DataFrame, buckets: pl.DataFrame
) -> pl.DataFrame:
    """Return the pairs of all stored traces in their buckets, after the given spans are stored."""
    moved = stored.join(buckets.drop("group"), on="trace_id", how="left", maintain_order="left")
    new = ties.join(near, on=["trace_id", "tie"], how="anti")
    return pl.concat(
        [
            moved.select("trace_id", "tie", bucket=pl.coalesce("place", "bucket")),
            new.join(buckets, on="trace_id").select("trace_id", "tie", bucket="place"),
        ]
    )


def _add(store_dir: Path, arriving: _Arriving) -> _Added:
    """Merge spans into a bucket."""
    empty = STORED_SPAN_SCHEMA.to_frame()
    tables = (pl.read_ipc(each) if isinstance(each, Path) else each for each in arriving.given)
    given, clashes = distinct_spans(pl.concat([empty, *tables]))
    traces = pl.concat([given["trace_id"], *(part["trace_id"] for part in arriving.moved)]).unique()
    stored = read_bucket(store_dir, "spans", arriving.bucket, which=of_traces(traces))
    before = pl.concat([stored, *arriving.moved])
    known = given.join(before.select(_ROW_KEY), on=_ROW_KEY, how="semi").height
    # An earlier version that read other ties may have stored the same span.
    every = pl.concat([before, given])
    both = every.unique(list(SPAN_SCHEMA), keep="last", maintain_order=True)
    kept, replaced = distinct_spans(both)
    _replace_spans(store_dir, arriving.bucket, traces, kept)
    return _Added(
        bucket=arriving.bucket,
        traces={*traces},
        new=given.height - known,
        known=known,
        clashes=clashes,
        replaced=replaced,
        is_plain=kept.height == every.height and not clashes,
    )


def _stored_ties(store_dir: Path) -> pl.DataFrame:
    """Return the tied pairs of all stored traces, with their current bucket."""
    return pl.concat(
        tie_rows(
            read_bucket(store_dir, "spans", bucket, ["trace_id", *SPAN_TIES_SCHEMA])
        ).with_columns(bucket=pl.lit(bucket, pl.Int32))
        for bucket in range(BUCKETS)
    )


def _buckets_of(ties: pl.DataFrame) -> pl.DataFrame:
    """Return the `group` and the bucket (`place`) of every trace; tied traces have the same."""
    group = groups(ties.iter_rows())
    traces = ties["trace_id"].unique()
    named = [group[trace] for trace in traces]
    return pl.DataFrame(
        {"trace_id": traces, "group": named, "place": list(map(_bucket_of, named))},
        {"trace_id": pl.String, "group": pl.String, "place": pl.Int32},
    )


def _bucket_of(group: str) -> int:
    """Hash a group's name; the hash is the same in every version and on every machine."""
    return int(digest(group, size_bytes=_BUCKET_HASH_BYTES), 16) % BUCKETS


def buckets_with(store_dir: Path, traces: set[str], known: pl.DataFrame | None = None) -> set[int]:
    """Return the buckets that hold spans of these traces, where ties are `known` by these."""
    ties = _stored_ties(store_dir) if known is None else known
    return set(ties.filter(pl.col("trace_id").is_in(traces))["bucket"])


def of_traces(traces: pl.Series) -> pl.Expr:
    """Return the condition that a row belongs to one of the traces."""
    return pl.col("trace_id").is_in(traces.implode())


def _replace_spans(store_dir: Path, bucket: int, traces: pl.Series, spans: pl.DataFrame) -> None:
    order = ("trace_id", "start_ns", "span_id")
    replace_rows(store_dir, "spans", bucket, of_traces(traces), spans, spans["start_ns"], order)
