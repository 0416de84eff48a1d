"""What ties a span's trace to others: its session, its tasks, and the traces it links to.

The ties are read once, when a span is stored, and kept in columns of their own. Only the attributes
that name them are decoded; the others are skipped in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeAlias, TypedDict, cast

import msgspec
import polars as pl

from looptrace.analyzer.fields.dialect_table import SHIPPED, TIES, DialectTable
from looptrace.analyzer.fields.field_reader import DETAILS_EVENT, FieldReader, reader_by
from looptrace.analyzer.fields.span_fields import span_fields_of
from looptrace.analyzer.schema.spans import NO_ITEMS, SPAN_TIES_SCHEMA, linked_traces

_FIELDS = (*TIES, "connection")
# Session, task, task above it, connection.
_Names: TypeAlias = tuple[str | None, str | None, str | None, str | None]


@lru_cache(maxsize=16)
def _decoder(dialects: DialectTable) -> msgspec.json.Decoder[Any]:
    """Return a decoder of the attributes that names are read from."""
    keys = dict.fromkeys(dialects.attribute_keys(_FIELDS), Any)
    return msgspec.json.Decoder(TypedDict("_Attributes", keys, total=False))  # type: ignore[operator] # Its keys are the table's.


def with_ties(spans: pl.DataFrame, dialects: DialectTable = SHIPPED) -> pl.DataFrame:
    """Return spans (`SPAN_SCHEMA`) with their ties (`SPAN_TIES_SCHEMA`).

    Those that have them stay as they are.
    """
    if not SPAN_TIES_SCHEMA.keys() - set(spans.columns):
        return spans
    named = pl.DataFrame(
        list(_names(spans, reader_by(dialects))), dict.fromkeys(_FIELDS, pl.String), orient="row"
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


def _names(spans: pl.DataFrame, reader: FieldReader) -> Iterator[_Names]:
    """Yield the names that spans give."""
    decoder = _decoder(reader.table)
    for row, (text, events) in enumerate(zip(spans["attributes"], spans["events"], strict=True)):
        try:
            yield _named(cast("dict[str, Any]", decoder.decode(text)), events, reader)
        except RecursionError:  # It is nested too deep; the whole span is read with care.
            (span,) = span_fields_of(spans[row], reader.table)
            yield span.session, span.task, span.task_parent, span.connection


def _named(attributes: dict[str, Any], events: str, reader: FieldReader) -> _Names:
    if DETAILS_EVENT in events:
        attributes = reader.with_events(attributes, msgspec.json.decode(events))
    columns = reader.columns("", {key: (value,) for key, value in attributes.items()}, 1)
    session, task, task_parent, connection = (columns.names(name)[0] for name in _FIELDS)
    return session, task, task_parent, connection
