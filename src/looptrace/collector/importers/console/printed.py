"""Reads what an SDK prints, record by record: spans, log records, and metrics, which are ignored.

Log records are read like a request (`otlp_logs`): coding agents write their work into them.
"""

from collections.abc import Collection
from typing import Any

import msgspec

from looptrace.collector.coding_agents import otlp_logs
from looptrace.collector.importers.console import spans
from looptrace.collector.otlp.json_request import attribute_list
from looptrace.collector.otlp.span_rows import DecodedSpans

# The last one is that of the file of Copilot's command line.
_METRICS = ("scopeMetrics", "ScopeMetrics", "scope_metrics", "resource_metrics", "dataPoints")
# Python and .NET name the severity, JavaScript the time of its own clock.
_LOGS = ("severity_number", "hrTime", "severityNumber", "Severity")
_LOG_TIME = ("hrTime", "timestamp", "Timestamp")
_LOG_SEEN = ("hrTimeObserved", "observed_timestamp", "ObservedTimestamp")
_BODY = ("body", "_body", "Body")
_EVENT = ("event_name", "eventName", "_eventName", "EventName")


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a printed span, log record or metrics."""
    return spans.is_record(names) or _is_log(names) or not set(names).isdisjoint(_METRICS)


def _is_log(names: Collection[str]) -> bool:
    fields = set(names)
    return not (fields.isdisjoint(_LOGS) or fields.isdisjoint(("attributes", "Attributes")))


def read(record: dict[str, Any], where: str) -> DecodedSpans:
    """Return the row of a span, or those of a log record. Raises one of RECORD_ERRORS."""
    if _is_log(record):
        return otlp_logs.decode_json(msgspec.json.encode(_logs_request(record)), where)
    if not spans.is_record(record) and not set(record).isdisjoint(_METRICS):
        return DecodedSpans()
    return DecodedSpans([spans.row_of(record)])


def _logs_request(record: dict[str, Any]) -> dict[str, Any]:
    """Return a log record as an export request."""
    body = spans.first(record, _BODY)
    log = {
        "timeUnixNano": spans.moment_ns(spans.first(record, _LOG_TIME)),
        "observedTimeUnixNano": spans.moment_ns(spans.first(record, _LOG_SEEN)),
        "eventName": spans.first(record, _EVENT),
        "traceId": spans.trace_of(record),
        "spanId": spans.span_of(record),
        "body": attribute_list({"body": body})[0]["value"],
        "attributes": attribute_list(spans.attributes_of(record)),
    }
    resource = {"attributes": attribute_list(spans.resource_of(record))}
    scopes = [{"scope": {"name": spans.scope_of(record)}, "logRecords": [log]}]
    return {"resourceLogs": [{"resource": resource, "scopeLogs": scopes}]}
