"""What ties a span's trace to others: its session, its tasks, and the traces it links to.

It is read once, when a span is stored, and kept in columns of its own. Of the attributes only those
are decoded that say so; the others are skipped in the text.
"""

from __future__ import annotations

from typing import Any, TypedDict, cast

import msgspec
import polars as pl

from looptrace.analyzer.normalize.dialects import (
    DETAILS_EVENT,
    FieldColumns,
    attribute_keys,
    with_events,
)
from looptrace.analyzer.normalize.span_fields import linked_traces, span_fields_of
from looptrace.analyzer.normalize.span_kinds import DIALECTS, kind_of
from looptrace.analyzer.schema.spans import SPAN_TIES_SCHEMA

_FIELDS = ("session", "task", "task_parent")

_keys = attribute_keys(_FIELDS) | {dialect.marker for dialect in DIALECTS}
_Attributes = TypedDict("_Attributes", dict.fromkeys(_keys, Any), total=False)  # type: ignore[misc] # Its keys are the table's.
_decoder = msgspec.json.Decoder(_Attributes)


def with_ties(spans: pl.DataFrame) -> pl.DataFrame:
    """Return spans (`SPAN_SCHEMA`) with the columns of `SPAN_TIES_SCHEMA`."""
    columns = zip(spans["attributes"], spans["events"], spans["links"], strict=True)
    ties = []
    for row, (attributes, events, links) in enumerate(columns):
        try:
            ties.append((*_said(attributes, events), linked_traces(links)))
        except RecursionError:  # Nested too deep for that; the whole span is read with care.
            (span,) = span_fields_of(spans[row])
            ties.append((span.session, span.task, span.task_parent, span.links))
    return spans.hstack(pl.DataFrame(ties, SPAN_TIES_SCHEMA, orient="row"))


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


def _said(text: str, events: str) -> tuple[str | None, ...]:
    attributes = cast("dict[str, Any]", _decoder.decode(text))
    if DETAILS_EVENT in events:
        attributes = with_events(attributes, msgspec.json.decode(events))
    _, dialect = kind_of(attributes)
    columns = FieldColumns(dialect, [attributes])
    return tuple(columns.texts(name)[0] for name in _FIELDS)
