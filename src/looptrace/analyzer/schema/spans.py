"""The span table: what the collector hands to the analyzer.

One row a span. Attributes, events and links stay JSON text, because their keys differ with every
framework; `dialects` picks from them. A span is known by (trace_id, span_id).
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

SPAN_SCHEMA = pl.Schema(
    {
        "trace_id": pl.String(),  # 32 lower-case hex digits
        "span_id": pl.String(),  # 16 lower-case hex digits
        "parent_span_id": pl.String(),  # null at a root
        "name": pl.String(),
        "start_ns": pl.Int64(),  # since 1970, UTC
        "end_ns": pl.Int64(),
        "status": pl.Int8(),  # 0 unset, 1 ok, 2 error
        "status_message": pl.String(),
        "service": pl.String(),  # resource attribute service.name, null where absent
        "scope": pl.String(),  # instrumentation scope, null where absent
        "attributes": pl.String(),  # JSON object
        "events": pl.String(),  # JSON array of {"name", "time_ns", "attributes"}
        "links": pl.String(),  # JSON array of {"trace_id", "span_id"}
    }
)

# How much a span says, in characters.
SPAN_CHARS = pl.sum_horizontal(
    pl.col(name).str.len_chars() for name, kind in SPAN_SCHEMA.items() if kind == pl.String
)

# What a span says of whom its trace belongs to, as it is stored beside the span.
SPAN_TIES_SCHEMA = pl.Schema(
    {
        "session": pl.String(),  # null where the span itself names none
        "task": pl.String(),
        "task_parent": pl.String(),
        "linked_traces": pl.List(pl.String()),  # ids of the traces in its links
    }
)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part of the input that was not taken as it stood: where it lies, and why, in one line."""

    where: str
    why: str


def distinct_spans(spans: pl.DataFrame) -> tuple[pl.DataFrame, list[Skipped]]:
    """Keep one row a (trace_id, span_id), whatever order they came in.

    The same span sent twice is one span. Of two different spans with one id the one that ended
    last is kept, of two that ended at once the one that says more, and the other is reported: a
    process may send a span as it is, and again with what it inherits from spans that are open.
    """
    key = ["trace_id", "span_id"]
    spans = spans.unique(maintain_order=True)
    clashing = spans.filter(pl.struct(key).is_duplicated())
    if clashing.is_empty():
        return spans, []
    order = ["end_ns", SPAN_CHARS, *(name for name in SPAN_SCHEMA if name != "end_ns")]
    kept = spans.sort(order, descending=True, nulls_last=True).unique(
        key, keep="first", maintain_order=True
    )
    counts = clashing.group_by(key).len().sort("span_id", "trace_id")
    skipped = [
        Skipped(
            f"span {span_id} of trace {trace_id}",
            f"{count} different spans have this id; the one that ended last, else the one that "
            "says most, was kept",
        )
        for trace_id, span_id, count in counts.iter_rows()
    ]
    return kept, skipped
