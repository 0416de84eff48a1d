"""Rows of the table `otel_traces`, into which the Collector's ClickHouse exporter writes.

The columns are those of open-telemetry/opentelemetry-collector-contrib@2bf6b9e
exporter/clickhouseexporter/internal/sqltemplates/traces_table.sql; the values of attributes are
texts, and a span's events stand in three columns.
"""

from collections.abc import Iterator
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.importers.spans import foreign_row, mapping, time_ns
from looptrace.collector.otlp.span_rows import SERVICE_NAME

_FAILED = {"ERROR": True, "OK": False}


def row_of(row: dict[str, Any]) -> SpanRow:
    """Return the row of a span."""
    start_ns = time_ns(row["Timestamp"])
    code = str(row.get("StatusCode") or "").upper().removeprefix("STATUS_CODE_")
    return foreign_row(
        trace=row["TraceId"],
        span=row["SpanId"],
        parent=row.get("ParentSpanId"),
        name=row["SpanName"],
        start_ns=start_ns,
        end_ns=start_ns + int(row["Duration"]),
        failed=_FAILED.get(code),
        error=row.get("StatusMessage"),
        service=row.get("ServiceName") or mapping(row.get("ResourceAttributes")).get(SERVICE_NAME),
        scope=row.get("ScopeName"),
        attributes=mapping(row["SpanAttributes"]),
        events=_events(row),
    )


def _events(row: dict[str, Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    names = ("Name", "Timestamp", "Attributes")
    columns = (parsed(row.get(f"Events.{name}")) or () for name in names)
    for name, at, attributes in zip(*columns, strict=True):
        yield str(name), time_ns(at), mapping(attributes)
