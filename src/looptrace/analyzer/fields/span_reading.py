"""What a span was read as, and by which keys: for people whose spans are not understood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from looptrace.analyzer.fields.dialect_table import FIELDS, DialectTable
from looptrace.analyzer.fields.field_reader import reader_by
from looptrace.analyzer.fields.flat_messages import FlatMessages
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, SpanRow
from looptrace.analyzer.text.payloads import canonical


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
    kind: str  # tool, model, agent, structure or ""
    dialect: str
    condition: str  # the one by which the dialect says so
    fields: tuple[FieldReading, ...]
    unread: tuple[str, ...]  # attributes that no field is read from


def span_reading(span: SpanRow, dialects: DialectTable) -> SpanReading:
    """Return what a span (`SPAN_SCHEMA`) is read as by a table of dialects."""
    row = dict(zip(SPAN_SCHEMA, span, strict=True))
    reader, name = reader_by(dialects), str(row["name"])
    scope = None if row["scope"] is None else str(row["scope"])
    events = msgspec.json.decode(str(row["events"]))
    found = reader.with_events(msgspec.json.decode(str(row["attributes"])), events)
    found = reader.with_flat_messages(found)
    kind, dialect = dialects.kind_of(found, name, scope)
    row_of_kind = dialects.row_of(found, name, scope)
    columns = {key: (value,) for key, value in found.items()}
    fields = reader.columns(dialect, columns, 1)
    readings = [
        FieldReading(field, key, _text(value))
        for field in FIELDS
        if field in fields and (value := fields.values(field)[0]) is not None
        for key in [fields.key_of(field)]
    ]
    return SpanReading(
        str(row["trace_id"]),
        str(row["span_id"]),
        name,
        scope,
        kind or ("structure" if dialect else ""),
        dialect,
        row_of_kind.condition if row_of_kind else "",
        tuple(readings),
        tuple(sorted(fields.others.keys() - dialects.markers)),
    )


def _text(value: Any) -> str:
    if isinstance(value, FlatMessages):
        return canonical(value.values())
    return value if isinstance(value, str) else canonical(value)
