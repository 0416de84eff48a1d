"""Documents of Elastic APM, as `_search` of Elasticsearch has them.

The server of APM writes attributes as labels, with underscores for dots and at most 1,024
characters (elastic/apm-data@0012afd input/otlp/traces.go); exceptions are documents of their own.
The Collector's exporter in its mode `otel` keeps the names (open-telemetry/
opentelemetry-collector-contrib@16f72c9 exporter/elasticsearchexporter/internal/serializer/
otelserializer/traces.go).
"""

from collections.abc import Collection
from typing import Any

from looptrace.collector.importers.platforms.spans_and_logs import LogOf, SpanOrLog, exception_of
from looptrace.collector.importers.rows.underscores import with_dots
from looptrace.collector.importers.spans import (
    NS_PER_US,
    mapping,
    plain_attributes,
    time_ns,
)
from looptrace.collector.otlp.span_rows import SERVICE_NAME

_AT = "@timestamp"
_FAILED = {"failure": True, "success": False}
_CODES = {"error": True, "ok": False}


_EVENTS = ("span", "transaction")


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a document of a trace or a log."""
    fields = set(names)
    is_classic = "trace" in fields or {"message", "labels"} <= fields
    is_otel = "attributes" in fields and not fields.isdisjoint(("resource", "span_id"))
    return _AT in fields and (is_classic or is_otel)


def told_by(document: dict[str, Any]) -> SpanOrLog:
    """Return what a document tells; None for one that is no span, exception or log record."""
    if "attributes" in document:
        return _of_otel(document)
    at_ns = _start_ns(document)
    parent = mapping(document.get("parent")).get("id")
    service = mapping(document.get("service"))
    labels = {**mapping(document.get("labels")), **mapping(document.get("numeric_labels"))}
    attributes = {"session.id": mapping(document.get("session")).get("id"), **with_dots(labels)}
    trace = mapping(document.get("trace")).get("id")
    if "error" in document and "processor" in document:
        held = mapping(document["error"]).get("exception")
        first = mapping(held[0] if isinstance(held, list) and held else held)
        return exception_of(trace, parent, first.get("type"), first.get("message"), at_ns)
    spans = (mapping(document.get(event)) for event in _EVENTS)
    span = next((each for each in spans if "duration" in each), None)
    if span is None:
        resource = {SERVICE_NAME: service.get("name")}
        own = mapping(document.get("span")).get("id")
        return LogOf(at_ns, document.get("message"), attributes, resource, trace=trace, span=own)
    return {
        "trace": trace,
        "span": span["id"],
        "parent": parent,
        "name": span.get("name"),
        "start_ns": at_ns,
        "end_ns": at_ns + round(float(mapping(span["duration"])["us"]) * NS_PER_US),
        "failed": _FAILED.get(str(mapping(document.get("event")).get("outcome"))) or None,
        "service": service.get("name"),
        "scope": mapping(service.get("framework")).get("name"),
        "attributes": attributes,
    }


def _start_ns(document: dict[str, Any]) -> int:
    exact = mapping(document.get("timestamp")).get("us")
    return time_ns(document[_AT]) if exact is None else int(exact) * NS_PER_US


def _of_otel(document: dict[str, Any]) -> SpanOrLog:
    attributes = mapping(document["attributes"])
    resource = mapping(mapping(document.get("resource")).get("attributes"))
    start_ns = time_ns(document[_AT])
    if "duration" not in document:
        body = mapping(document.get("body"))
        said = body.get("structured", body.get("text"))
        ids = {"trace": document.get("trace_id"), "span": document.get("span_id")}
        return LogOf(start_ns, said, attributes, resource, name=document.get("event_name"), **ids)
    status = mapping(document.get("status"))
    return {
        "trace": document["trace_id"],
        "span": document["span_id"],
        "parent": document.get("parent_span_id"),
        "name": document.get("name"),
        "start_ns": start_ns,
        "end_ns": start_ns + int(document["duration"]),
        "failed": _CODES.get(str(status.get("code")).lower()),
        "error": status.get("message"),
        "service": resource.get(SERVICE_NAME),
        "scope": mapping(document.get("scope")).get("name"),
        "attributes": plain_attributes(attributes),
    }
