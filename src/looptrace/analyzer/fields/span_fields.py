"""Spans to canonical fields: what each span is, and what its turns are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import msgspec
import polars as pl

from looptrace._core import FieldReader
from looptrace.analyzer.fields.dialect_table import SHIPPED, DialectTable
from looptrace.analyzer.schema.span_fields import SpanFields
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, SpanRow, span_rows


@lru_cache(maxsize=16)
def reader_by(dialects: DialectTable) -> FieldReader:
    """Return the reader by a table of dialects."""
    own = dialects.own
    if own is None:
        return FieldReader()
    kinds = [row.given for row in own.kinds]
    return FieldReader(
        msgspec.json.encode({"name": own.name, "kinds": kinds, "fields": own.fields}).decode()
    )


def span_fields_of(spans: pl.DataFrame, dialects: DialectTable = SHIPPED) -> list[SpanFields]:
    """Read each span of the table (`SPAN_SCHEMA`), in the table's order."""
    return span_fields_of_rows(span_rows(spans.select(*SPAN_SCHEMA)), dialects)


def span_fields_of_rows(
    rows: Sequence[SpanRow], dialects: DialectTable = SHIPPED
) -> list[SpanFields]:
    """Read each of these spans."""
    return reader_by(dialects).fields(rows)


@dataclass(frozen=True, slots=True)
class FieldReading:
    """A field of a span, the key that it was read from, and its value as text."""

    name: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class SpanReading:
    """What a span was read as. The kind is "" if no dialect knows it."""

    trace_id: str
    span_id: str
    name: str
    scope: str | None
    kind: str  # of `KINDS`, or ""
    dialect: str
    condition: str  # the one by which the dialect says so
    fields: tuple[FieldReading, ...]
    unread: tuple[str, ...]  # attributes that no field is read from


def span_reading(span: SpanRow, dialects: DialectTable) -> SpanReading:
    """Return what a span (`SPAN_SCHEMA`) is read as by a table of dialects, and by which keys."""
    place, fields, unread = reader_by(dialects).reading(span)
    row, dialect = (None, "") if place is None else dialects.rows[place]
    told = dict(zip(SPAN_SCHEMA, span, strict=True))
    return SpanReading(
        str(told["trace_id"]),
        str(told["span_id"]),
        str(told["name"]),
        cast("str | None", told["scope"]),
        row.kind if row else "",
        dialect,
        row.condition if row else "",
        tuple(FieldReading(*field) for field in fields),
        tuple(unread),
    )
