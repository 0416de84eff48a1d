"""Traces of Jaeger as its page downloads them and its API answers: `{"data": [trace, ...]}`.

Elasticsearch has a document for each span (jaegertracing/jaeger@aa62de0
internal/storage/elasticsearch/dbmodel/model.go). Times are microseconds. Tags and the fields of
logs are lists of `{key, type, value}`; they include what OTLP calls status, scope and resource. The
API of gRPC has other names and forms of times and values in JSON (jaegertracing/jaeger-idl@74be563
proto/api_v2/model.proto).
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.records import Part
from looptrace.collector.importers.spans import (
    NS_PER_US,
    foreign_row,
    mapping,
    span_id,
    time_ns,
    trace_id,
)
from looptrace.collector.otlp.span_rows import SERVICE_NAME

_SCOPES = ("otel.scope.name", "otel.library.name")
_STATUS, _MESSAGE, _ERROR = "otel.status_code", "otel.status_description", "error"
_FAILED = {"ERROR": True, "OK": False}
_CHILD = "CHILD_OF"
_US_PER_S = 1_000_000


def parts(trace: dict[str, Any]) -> Iterator[Part]:
    """Yield the spans of a trace, each with its place."""
    if "spans" not in trace:
        yield "", partial(_row, _of_page(trace) if "traceId" in trace else trace, {})
        return
    processes = trace["processes"] or {}
    for index, span in enumerate(trace["spans"] or ()):
        yield f"spans[{index}]", partial(_row, span, processes)


def _row(span: dict[str, Any], processes: dict[str, Any]) -> SpanRow:
    tags = _map(span.get("tags"))
    process = span.get("process") or processes.get(str(span.get("processID"))) or {}
    parents = [each for each in span.get("references") or () if each["refType"] == _CHILD]
    others = [each for each in span.get("references") or () if each not in parents[:1]]
    start_ns = int(span["startTime"]) * NS_PER_US
    error = tags.pop(_ERROR, None)
    status = str(tags.pop(_STATUS, "")).upper()
    return foreign_row(
        trace=span["traceID"],
        span=span["spanID"],
        parent=parents[0]["spanID"] if parents else span.get("parentSpanID"),
        name=span.get("operationName"),
        start_ns=start_ns,
        end_ns=start_ns + int(span.get("duration") or 0) * NS_PER_US,
        failed=True if error in (True, "true") else _FAILED.get(status),
        error=tags.pop(_MESSAGE, None),
        service=_map(process.get("tags")).get(SERVICE_NAME) or process.get("serviceName"),
        scope=next((tags.pop(name) for name in _SCOPES if name in tags), None),
        attributes=tags,
        events=[_event(log) for log in span.get("logs") or ()],
        links=[(trace_id(each["traceID"]), span_id(each["spanID"])) for each in others],
    )


def _of_page(span: dict[str, Any]) -> dict[str, Any]:
    """Return a span of the API of gRPC as the page has it."""
    process = mapping(span.get("process"))
    return {
        "traceID": span["traceId"],
        "spanID": span["spanId"],
        "operationName": span.get("operationName"),
        "references": [
            {
                "refType": each.get("refType", _CHILD),
                "traceID": each.get("traceId"),
                "spanID": each.get("spanId"),
            }
            for each in span.get("references") or ()
        ],
        "startTime": time_ns(span["startTime"]) // NS_PER_US,
        "duration": round(float(str(span.get("duration") or "0").removesuffix("s")) * _US_PER_S),
        "tags": _tags(span),
        "logs": [
            {"timestamp": time_ns(log["timestamp"]) // NS_PER_US, "fields": _tags(log, "fields")}
            for log in span.get("logs") or ()
        ],
        "process": {"serviceName": process.get("serviceName"), "tags": _tags(process)},
    }


def _tags(held: dict[str, Any], name: str = "tags") -> list[dict[str, Any]]:
    """Return values of the API of gRPC, each of which stands under the name of its type."""
    return [
        {
            "key": tag["key"],
            "type": str(tag.get("vType") or "").lower(),
            "value": next((tag[n] for n in tag if n not in ("key", "vType")), ""),
        }
        for tag in held.get(name) or ()
    ]


def _event(log: dict[str, Any]) -> tuple[str, int, dict[str, Any]]:
    fields = _map(log.get("fields"))
    return str(fields.pop("event", "")), int(log["timestamp"]) * NS_PER_US, fields


def _map(tags: list[dict[str, Any]] | None) -> dict[str, Any]:
    return {str(tag["key"]): _value(tag) for tag in tags or ()}


def _value(tag: dict[str, Any]) -> Any:
    value = tag.get("value")
    if tag.get("type") in ("int64", "float64") and isinstance(value, str):
        return float(value) if tag["type"] == "float64" else int(value)
    return value
