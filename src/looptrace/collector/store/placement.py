"""Which bucket a trace belongs to, and how its spans get there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from looptrace.analyzer.normalize.span_ties import tie_rows, with_ties
from looptrace.analyzer.normalize.span_tree import groups
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, SPAN_TIES_SCHEMA, Skipped, distinct_spans
from looptrace.analyzer.text.digests import digest
from looptrace.collector.store.parquet import BUCKETS, read_bucket, write_bucket

# More than enough to spread tasks evenly over the buckets.
_BUCKET_HASH_BYTES = 8


_ROW_KEY = ["trace_id", "span_id"]


Traces = set[str] | None  # of a bucket; None stands for all


def place(
    store_dir: Path,
    spans: pl.DataFrame,
    on_left: Callable[[set[int]], None] = lambda _: None,
) -> tuple[dict[int, Traces], list[Skipped]]:
    """Bring every span, of these (`SPAN_SCHEMA`) or stored, to the bucket where its trace belongs.

    Returned are the buckets that changed, with the traces that spans came to; None stands for all.

    What comes anew can tie stored traces together, or untie them by replacing a span, so stored
    traces can move. They are added to the one bucket before they are taken from the other, so
    that a kill loses none; it may leave them in both, which the next call puts right. `on_left` is
    told of the buckets that traces move from, before they do.
    """
    touched: dict[int, Traces] = {}
    replaced: list[Skipped] = []
    spans = with_ties(spans)
    while True:
        stored = _stored_ties(store_dir)
        buckets = _buckets_of(pl.concat([stored.drop("bucket"), tie_rows(spans)]))
        strays = stored.join(buckets, on="trace_id").filter(pl.col("bucket") != pl.col("target"))
        strays = strays.select("bucket", "trace_id").unique()
        if spans.is_empty() and strays.is_empty():
            return touched, replaced
        left = set(strays["bucket"])
        if left:
            on_left(left)
        spans = pl.concat([spans, *(_split(store_dir, bucket, strays)[0] for bucket in left)])
        arriving = spans.join(buckets, on="trace_id").partition_by(
            "target", as_dict=True, include_key=False
        )
        for (bucket,), part in arriving.items():
            replaced += _add(store_dir, bucket, part)
            came = touched.setdefault(bucket, set())
            if came is not None:
                came.update(part["trace_id"])
        for bucket in left:
            _write_spans(store_dir, bucket, _split(store_dir, bucket, strays)[1])
        touched |= dict.fromkeys(left)
        spans = spans.clear()


def _add(store_dir: Path, bucket: int, spans: pl.DataFrame) -> list[Skipped]:
    """Merge spans into a bucket; returned are those that lost against another of the same id."""
    both = pl.concat([read_bucket(store_dir, "spans", bucket), spans])
    # The same span may have been stored by a version that saw other ties.
    both = both.unique(list(SPAN_SCHEMA), keep="last", maintain_order=True)
    kept, replaced = distinct_spans(both)
    _write_spans(store_dir, bucket, kept)
    return replaced


def _split(store_dir: Path, bucket: int, strays: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read a bucket's spans: those of traces that belong elsewhere, and the others."""
    spans = read_bucket(store_dir, "spans", bucket)
    traces = strays.filter(pl.col("bucket") == bucket)["trace_id"]
    leaves = spans["trace_id"].is_in(traces.implode())
    return spans.filter(leaves), spans.filter(~leaves)


def count_known(store_dir: Path, spans: pl.DataFrame) -> int:
    """Count the given spans whose ids the store has."""
    ids = spans.select(_ROW_KEY)
    stored = (read_bucket(store_dir, "spans", bucket, _ROW_KEY) for bucket in range(BUCKETS))
    return pl.concat([rows.join(ids, on=_ROW_KEY, how="semi") for rows in stored]).unique().height


def _stored_ties(store_dir: Path) -> pl.DataFrame:
    """Return the pairs of all stored traces, with the bucket in which they stand."""
    return pl.concat(
        tie_rows(
            read_bucket(store_dir, "spans", bucket, ["trace_id", *SPAN_TIES_SCHEMA])
        ).with_columns(bucket=pl.lit(bucket))
        for bucket in range(BUCKETS)
    )


def _buckets_of(ties: pl.DataFrame) -> pl.DataFrame:
    """Return the bucket (`target`) of every trace: the same for all that are tied together."""
    group = groups(ties.iter_rows())
    traces = ties["trace_id"].unique()
    targets = [_bucket_of(group[trace]) for trace in traces]
    return pl.DataFrame([traces, pl.Series("target", targets, dtype=pl.Int32)])


def _bucket_of(group: str) -> int:
    """Hash a group's name in a way that is the same in every version and on every machine."""
    return int(digest(group, size_bytes=_BUCKET_HASH_BYTES), 16) % BUCKETS


def buckets_with(store_dir: Path, traces: set[str]) -> set[int]:
    """Return the buckets that hold spans of these traces."""
    return set(_stored_ties(store_dir).filter(pl.col("trace_id").is_in(traces))["bucket"])


def tied_traces(spans: pl.DataFrame, traces: Traces) -> Traces:
    """Return the traces of a bucket that are tied to these, and these."""
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
