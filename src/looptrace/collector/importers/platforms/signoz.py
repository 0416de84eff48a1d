"""Rows of SigNoz's table `signoz_index_v3`, as lines of JSON or Parquet.

The columns are those of SigNoz/signoz-otel-collector@a3ae0d9 cmd/signozschemamigrator/
schema_migrator/squashed_traces_migrations.go; an event is JSON.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.importers.spans import foreign_row, mapping, time_ns
from looptrace.collector.otlp.span_rows import SERVICE_NAME

_ATTRIBUTES = tuple(f"attributes_{kind}" for kind in ("string", "number", "bool"))
_FAILED = {"2": True, "error": True, "1": False, "ok": False}


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are the columns of the table."""
    return {"trace_id", "span_id", "duration_nano", _ATTRIBUTES[0]} <= set(names)


def row_of(row: dict[str, Any]) -> SpanRow:
    """Return the row of a span."""
    start_ns = time_ns(row["timestamp"])
    attributes: dict[str, Any] = {}
    for column in _ATTRIBUTES:
        attributes |= mapping(row.get(column))
    resource = mapping(row.get("resources_string"))
    return foreign_row(
        trace=row["trace_id"],
        span=row["span_id"],
        parent=row.get("parent_span_id"),
        name=row.get("name"),
        start_ns=start_ns,
        end_ns=start_ns + int(row["duration_nano"]),
        failed=_FAILED.get(str(row.get("status_code_string") or row.get("status_code")).lower()),
        error=row.get("status_message"),
        service=resource.get(SERVICE_NAME),
        attributes={
            # Numbers are floats there.
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in attributes.items()
        },
        events=[
            (
                str(event.get("name")),
                time_ns(event.get("timeUnixNano")),
                mapping(event.get("attributeMap")),
            )
            for event in map(mapping, parsed(row.get("events")) or ())
        ],
    )
