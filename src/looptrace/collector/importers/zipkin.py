"""Spans of Zipkin's API, version 2: an array of spans, or one of traces.

Times are microseconds, and all tags are texts. A span that fails has the tag `error`.
"""

import re
from collections.abc import Collection
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.spans import NS_PER_US, foreign_row, mapping

_SCOPES = ("otel.scope.name", "otel.library.name")
_STATUS = "otel.status_code"
# `"name":{...}` of Java, `name: {...}` of Go, `name|{...}|0` of the Collector; Python writes JSON.
_EVENT = re.compile(r'"?(?P<name>[^"|{}]+?)"?\s*[:|]\s*(?P<attributes>\{.*\})(?:\|\d+)?', re.DOTALL)
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
            (name, int(each["timestamp"]) * NS_PER_US, attributes)
            for each in span.get("annotations") or ()
            for name, attributes in [_event(str(each.get("value")))]
        ],
    )


def _event(value: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the attributes of an event, which exporters write in four ways."""
    whole = mapping(value)
    if len(whole) == 1:
        ((name, attributes),) = whole.items()
        return name, mapping(attributes)
    parts = _EVENT.fullmatch(value)
    return (parts["name"], mapping(parts["attributes"])) if parts else (value, {})
