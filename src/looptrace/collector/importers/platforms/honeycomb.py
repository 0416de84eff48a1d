"""Events of Honeycomb, a span or an event of a span each, as JSON, lines or CSV.

What the fields mean is in docs.honeycomb.io, send-data/opentelemetry and its shared/husky
(honeycombio/husky@21a0eae otlp/traces.go): attributes keep their names, beside those of the span.
"""

import re
from typing import Any

from looptrace.collector.importers.platforms.spans_and_logs import LogOf, SpanOrLog
from looptrace.collector.importers.spans import NS_PER_MS, plain_attributes, time_ns
from looptrace.collector.otlp.span_rows import SERVICE_NAME

_TIMES = ("Timestamp", "timestamp", "time", "@timestamp")
# Fields that are no attributes of the span.
_OWN = re.compile(r"(trace|meta)\.|(name|error|duration_ms|status_code|status_message)$")
_SPAN_EVENT = "span_event"
_TRUE = (True, "true", "True")


def told_by(event: dict[str, Any]) -> SpanOrLog:
    """Return what an event tells; None for a link."""
    start_ns = time_ns(next((event[name] for name in _TIMES if name in event), None))
    kind = event.get("meta.annotation_type")
    attributes = plain_attributes({name: event[name] for name in event if not _OWN.match(name)})
    if kind is not None or event.get("trace.span_id") in (None, ""):
        if kind != _SPAN_EVENT:
            return None
        ids = {"trace": event["trace.trace_id"], "span": event["trace.parent_id"]}
        return LogOf(start_ns, None, attributes, {}, name=event["name"], **ids)
    return {
        "trace": event["trace.trace_id"],
        "span": event["trace.span_id"],
        "parent": event.get("trace.parent_id"),
        "name": event["name"],
        "start_ns": start_ns,
        "end_ns": start_ns + round(float(event.get("duration_ms") or 0) * NS_PER_MS),
        "failed": True if event.get("error") in _TRUE else None,
        "error": event.get("status_message"),
        "service": event.get(SERVICE_NAME),
        "scope": event.get("library.name"),
        "attributes": attributes,
    }
