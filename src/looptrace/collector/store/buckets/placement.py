"""The bucket of each trace, and the moves of spans to it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from looptrace.analyzer.engine.span_spool import SpanSpool, split_spans
from looptrace.analyzer.normalize.span_ties import groups, tie_rows
from looptrace.analyzer.schema.distinct_spans import distinct_spans, whole_spans
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, SPAN_TIES_SCHEMA, Skipped
from looptrace.analyzer.text.digests import digest
from looptrace.collector.store.file_names import BUCKETS
from looptrace.collector.store.tables.file_contents import Having
from looptrace.collector.store.tables.parquet import (
    STORED_SPAN_SCHEMA,
    empty_of,
    read_bucket,
    read_buckets,
)
from looptrace.collector.store.tables.replacement import NewRows, batches, replace_rows

# More than enough to spread tasks evenly over the buckets.
_BUCKET_HASH_BYTES = 8


# Buckets are changed together up to so many spans. They are in memory, and so may be the next ones.
SPANS_AT_ONCE = 10_000
# So many stored spans are handed on to those who derive turns from them: as a server's round has.
SPANS_HELD = 2 * SPANS_AT_ONCE

_ROW_KEY = ["trace_id", "span_id"]


Traces = set[str] | None  # of a bucket; None stands for all


@dataclass(frozen=True, slots=True)
class Placed:
    """The changed buckets, with the traces that got spans or moved, and those tied to these.

    `new` and `known` count the given spans; `skipped` are spans that lost against another with the
    same id.
    """

    touched: dict[int, Traces]
    new: int
    known: int
    skipped: list[Skipped]
    ties: pl.DataFrame | None = None  # of all stored traces now, for the next call
    # By bucket, all stored spans (`STORED_SPAN_SCHEMA`) of some traces; others are to be read.
    spans: Mapping[int, pl.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Arriving:
    """Spans that belong in a bucket, in tables or in files."""

    bucket: int
    given: Sequence[pl.DataFrame | Path] = ()
    moved: list[pl.DataFrame] = field(default_factory=list)  # from other buckets


@dataclass(frozen=True, slots=True)
class _Added:
    """The spans added to some buckets; `is_plain` where all of them are new there."""

    spans: Mapping[int, pl.DataFrame]  # of their traces, by bucket
    new: int
    known: int
    clashes: list[Skipped]  # among the given spans
    replaced: list[Skipped]
    is_plain: bool


def place(
    store_dir: Path,
    spool: SpanSpool,
    ties: pl.DataFrame,
    on_touched: Callable[[Mapping[int, Traces]], None] = lambda _: None,
    known: pl.DataFrame | None = None,
) -> Placed:
    """Bring every span, given (with its `ties`) or stored, to the bucket of its trace.

    New spans can tie stored traces together, or untie them by replacing a span, so stored traces
    can move. They are added to the one bucket before they are deleted from the other, so that a
    kill loses none; it may leave them in both, which the next call corrects that does not know the
    ties of the last one. With these `known` only what is tied to the given spans is looked at.
    `on_touched` gets the traces of each bucket that may change, before anything is written.

    Memory holds the tables of the spool that are not in files, the ties, the spans of a bucket (or
    of some with few spans), the traces that move, and what is handed on.
    """
    placed = Placed({}, 0, 0, [])
    came, is_first = ties["trace_id"].unique(), True
    while True:
        stored = stored_ties(store_dir) if known is None else known
        near = stored if known is None else connected(stored, pl.concat([came, ties["tie"]]))
        buckets = _buckets_of(near, ties)
        strays = near.join(buckets, on="trace_id").filter(pl.col("bucket") != pl.col("place"))
        strays = strays.select("bucket", "trace_id").unique()
        left = {int(b): part["trace_id"] for (b,), part in _parts(strays, "bucket").items()}
        touched = _touched(buckets, pl.concat([came, strays["trace_id"]]), left)
        on_touched(touched)
        places = buckets.drop("group")
        given = spool.split(places) if is_first else {}
        arriving = {bucket: _Arriving(bucket, spans) for bucket, spans in given.items()}
        for bucket, traces in left.items():
            moved = read_bucket(store_dir, "spans", bucket, which=Having("trace_id", traces))
            for target, part in split_spans(moved, places):
                arriving.setdefault(target, _Arriving(target)).moved.append(part)
        added, spans = list[_Added](), dict[int, pl.DataFrame]()
        for batch in batches(arriving.values(), _spans_in, SPANS_AT_ONCE):
            more = _add(store_dir, batch, places)
            added.append(replace(more, spans={}))
            held = sum(each.height for each in (*spans.values(), *more.spans.values()))
            spans |= more.spans if held <= SPANS_HELD else {}
        nothing = empty_of(STORED_SPAN_SCHEMA)
        replace_spans(store_dir, {bucket: (traces, nothing) for bucket, traces in left.items()})
        placed = _placed(placed, added, touched)
        is_replaced = any(each.replaced or each.clashes for each in added)
        known = None if is_replaced else _with_given(stored, near, ties, buckets, bool(left))
        if not left and all(each.is_plain for each in added):
            return replace(placed, ties=known, spans=spans if is_first else {})
        ties, came, is_first = ties.clear(), came.clear(), False


def _placed(before: Placed, added: Sequence[_Added], touched: Mapping[int, Traces]) -> Placed:
    clashes = sorted((clash for each in added for clash in each.clashes), key=lambda c: c.where)
    return Placed(
        together(before.touched, touched),
        before.new + sum(each.new for each in added),
        before.known + sum(each.known for each in added),
        [*before.skipped, *clashes, *(lost for each in added for lost in each.replaced)],
    )


def _touched(
    buckets: pl.DataFrame, changed: pl.Series, left: Mapping[int, pl.Series]
) -> dict[int, Traces]:
    """Return by bucket the traces that get spans or move, those tied to them, and those that left.

    What a replaced span has tied so far is among them.
    """
    of_groups = buckets.filter(pl.col("trace_id").is_in(changed.implode()))["group"].unique()
    tied = buckets.filter(pl.col("group").is_in(of_groups.implode()))
    return together(_by(tied, "place"), {bucket: {*traces} for bucket, traces in left.items()})


def _by(traces: pl.DataFrame, column: str) -> dict[int, Traces]:
    """Return the traces by the bucket that a column names."""
    parts = _parts(traces, column)
    return {int(bucket): {*part["trace_id"].to_list()} for (bucket,), part in parts.items()}


def _parts(rows: pl.DataFrame, column: str) -> dict[tuple[Any, ...], pl.DataFrame]:
    return rows.partition_by(column, as_dict=True, include_key=False)


def together(one: Mapping[int, Traces], other: Mapping[int, Traces]) -> dict[int, Traces]:
    """Return the traces that are in one of both, by bucket."""
    every = dict(one)
    for bucket, traces in other.items():
        known = every.get(bucket, set())
        every[bucket] = None if known is None or traces is None else known | traces
    return every


def connected(stored: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return the stored pairs that lead to one of these names, over any number of others."""
    names = names.unique()
    while True:
        of_names = pl.any_horizontal(pl.col("trace_id", "tie").is_in(names.implode()))
        pairs = stored.filter(of_names)
        more = pl.concat([names, pairs["trace_id"], pairs["tie"]]).unique()
        if more.len() == names.len():
            return pairs
        names = more


def _with_given(
    stored: pl.DataFrame,
    near: pl.DataFrame,
    ties: pl.DataFrame,
    buckets: pl.DataFrame,
    has_moved: bool,
) -> pl.DataFrame:
    """Return the pairs of all stored traces in their buckets, after the given spans are stored."""
    new = ties.join(near, on=["trace_id", "tie"], how="anti")
    new = new.join(buckets, on="trace_id").select("trace_id", "tie", bucket="place")
    if has_moved:
        places = buckets.drop("group")
        stored = stored.join(places, on="trace_id", how="left", maintain_order="left")
        stored = stored.select("trace_id", "tie", bucket=pl.coalesce("place", "bucket"))
    return pl.concat([stored, new])


def _spans_in(arriving: _Arriving) -> int:
    """Return how many spans arrive in a bucket, or the most where some are in files."""
    tables = [*arriving.given, *arriving.moved]
    return sum(SPANS_AT_ONCE if isinstance(each, Path) else each.height for each in tables)


def _add(store_dir: Path, arriving: Sequence[_Arriving], places: pl.DataFrame) -> _Added:
    """Merge spans into the buckets (`place`) of their traces."""
    empty = empty_of(STORED_SPAN_SCHEMA)
    came = chain.from_iterable(each.given for each in arriving)
    tables = (pl.read_ipc(each) if isinstance(each, Path) else each for each in came)
    given, clashes = distinct_spans(pl.concat([empty, *tables]))
    moved = [part for each in arriving for part in each.moved]
    traces = pl.concat([given["trace_id"], *(part["trace_id"] for part in moved)]).unique()
    placed = places.join(traces.to_frame(), on="trace_id", how="semi")
    of_bucket = {
        int(bucket): part["trace_id"] for (bucket,), part in _parts(placed, "place").items()
    }
    which = {bucket: Having("trace_id", each) for bucket, each in of_bucket.items()}
    stored = read_buckets(store_dir, "spans", which)
    before = pl.concat([empty, *stored.values(), *moved])
    every, kept, known, replaced = given, given, 0, list[Skipped]()
    if not before.is_empty():
        known = (
            whole_spans(given)
            .join(whole_spans(before).select(_ROW_KEY), on=_ROW_KEY, how="semi")
            .height
        )
        every = pl.concat([before, given])
        # An earlier version that read other ties may have stored the same span.
        both = every.unique(list(SPAN_SCHEMA), keep="last", maintain_order=True)
        kept, replaced = distinct_spans(both)
    parts = dict(split_spans(kept, places))
    new = {bucket: (each, parts.get(bucket, empty)) for bucket, each in of_bucket.items()}
    replace_spans(store_dir, new)
    return _Added(
        spans=parts,
        new=whole_spans(given).height - known,
        known=known,
        clashes=clashes,
        replaced=replaced,
        is_plain=kept.height == every.height and not clashes,
    )


def stored_ties(store_dir: Path) -> pl.DataFrame:
    """Return the tied pairs of all stored traces, with their current bucket."""
    columns = ["trace_id", *SPAN_TIES_SCHEMA]
    spans = [read_bucket(store_dir, "spans", bucket, columns) for bucket in range(BUCKETS)]
    # A small store has spans in few buckets, and exploding none takes milliseconds.
    some = {bucket: each for bucket, each in enumerate(spans) if each.height} or {0: spans[0]}
    return pl.concat(
        tie_rows(each).with_columns(bucket=pl.lit(bucket, pl.Int32))
        for bucket, each in some.items()
    )


def recent_ties(store_dir: Path, since_ns: int) -> pl.DataFrame:
    """Return the tied pairs of the stored traces that ended since a moment, with their bucket.

    `end_ns` is when each trace ended. Files that were written before have no such trace.
    """
    columns, found = ["trace_id", "end_ns", *SPAN_TIES_SCHEMA], []
    for bucket in range(BUCKETS):
        spans = read_bucket(store_dir, "spans", bucket, columns, written_since_ns=since_ns)
        ends = spans.group_by("trace_id").agg(pl.col("end_ns").max())
        ends = ends.filter(pl.col("end_ns") > since_ns)
        ties = tie_rows(spans).join(ends, on="trace_id")
        found.append(ties.with_columns(bucket=pl.lit(bucket, pl.Int32)))
    return pl.concat(found)


def groups_of(ties: pl.DataFrame, stored: pl.DataFrame) -> dict[str, str]:
    """Return the group of each trace with these ties, and of each `stored` one tied to them."""
    near = connected(stored, pl.concat([ties["trace_id"], ties["tie"]]))
    return dict(_buckets_of(near, ties).select("trace_id", "group").iter_rows())


def _buckets_of(near: pl.DataFrame, given: pl.DataFrame) -> pl.DataFrame:
    """Return the `group` and the bucket (`place`) of each trace; tied traces have the same.

    The pairs are those of stored traces and of given spans.
    """
    ties = pl.concat([near.select(given.columns), given]).unique()
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


def tied_to(
    store_dir: Path, traces: Collection[str], known: pl.DataFrame | None = None
) -> dict[int, Traces]:
    """Return by bucket these traces and those tied to them, where ties are `known` by these."""
    ties = stored_ties(store_dir) if known is None else known
    return _by(connected(ties, pl.Series(list(traces), dtype=pl.String)), "bucket")


def replace_spans(store_dir: Path, new: Mapping[int, tuple[pl.Series, pl.DataFrame]]) -> None:
    """Replace the spans that buckets have of traces by others (`STORED_SPAN_SCHEMA`)."""
    order = ("trace_id", "start_ns", "span_id")
    changes = {
        bucket: NewRows(Having("trace_id", traces), spans, spans["start_ns"])
        for bucket, (traces, spans) in new.items()
    }
    if changes:
        replace_rows(store_dir, "spans", changes, order)
