"""Spans of Zipkin's API, version 2: an array of spans, or one of traces.

Times are microseconds, and all tags are texts. A span that fails has the tag `error`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.spans import NS_PER_US, foreign_row

_SCOPES = ("otel.scope.name", "otel.library.name")
_STATUS = "otel.status_code"
_MARKS = {"localEndpoint", "timestamp", "duration", "annotations"}


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a span."""
    return (
        {"traceId", "id"} <= set(names)
        and not _MARKS.isdisjoint(names)
        and (
            "type" not in names  # An observation of Langfuse.
        )
    )


def row_of(span: dict[str, Any]) -> SpanRow:
    """Return the row of a span."""
    tags = dict(span.get("tags") or {})
    start_ns = int(span.get("timestamp") or 0) * NS_PER_US
    error, status = tags.pop("error", None), tags.pop(_STATUS, "")
    return foreign_row(
        trace=span["traceId"],
        span=span["id"],
        parent=span.get("parentId"),
        name=span.get("name"),
        start_ns=start_ns,
        end_ns=start_ns + int(span.get("duration") or 0) * NS_PER_US,
        failed=True if error is not None or status == "ERROR" else False if status else None,
        error=None if error == "true" else error,
        service=(span.get("localEndpoint") or {}).get("serviceName"),
        scope=next((tags.pop(name) for name in _SCOPES if name in tags), None),
        attributes=tags,
        events=[
            (str(each.get("value")), int(each["timestamp"]) * NS_PER_US, {})
            for each in span.get("annotations") or ()
        ],
    )
