"""What ties a span's trace to others: its session, its tasks, and the traces it links to.

The ties are read once, when a span is stored, and kept in columns of their own.
"""

from __future__ import annotations

import polars as pl

from looptrace.analyzer.fields.dialect_table import SHIPPED, TIES, DialectTable
from looptrace.analyzer.fields.span_fields import reader_by
from looptrace.analyzer.schema.spans import NO_ITEMS, SPAN_TIES_SCHEMA, linked_traces

_FIELDS = (*TIES, "connection")


def with_ties(spans: pl.DataFrame, dialects: DialectTable = SHIPPED) -> pl.DataFrame:
    """Return spans (`SPAN_SCHEMA`) with their ties (`SPAN_TIES_SCHEMA`).

    Those that have them stay as they are.
    """
    if not SPAN_TIES_SCHEMA.keys() - set(spans.columns):
        return spans
    named = pl.DataFrame(
        reader_by(dialects).ties(spans["attributes"].to_list(), spans["events"].to_list()),
        dict.fromkeys(_FIELDS, pl.String),
        orient="row",
    )
    # A connection may be the session of a trace that begins with it (`Connections`).
    begins = pl.when(spans["parent_span_id"].is_null()).then("connection")
    named = named.select(pl.coalesce("session", begins), *TIES[1:])
    return spans.hstack(named).hstack([_links_of(spans)])


def tie_rows(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of a trace and what it is tied to (`tie`); every trace is tied to itself.

    The spans have the columns of SPAN_TIES_SCHEMA.
    """
    trace = pl.col("trace_id")
    named = [
        spans.lazy().select(trace, tie=pl.col(name).fill_null(trace)).unique()
        for name in ("session", "task", "task_parent")
    ]
    linked = spans.lazy().filter(pl.col("linked_traces").list.len() > 0)
    linked = linked.select(trace, tie="linked_traces").explode("tie")
    return pl.concat([*named, linked]).unique().collect()


def _links_of(spans: pl.DataFrame) -> pl.Series:
    name, kind = "linked_traces", SPAN_TIES_SCHEMA["linked_traces"]
    if (spans["links"] == NO_ITEMS).all():
        return pl.Series(name, [[]], kind).new_from_index(0, spans.height)
    return pl.Series(name, list(map(linked_traces, spans["links"])), kind)
