"""Spans as objects, under the names that each SDK gives to their fields.

The forms, each read in its source:

- Python: `ReadableSpan.to_json`, opentelemetry-python 1.45, sdk/trace/__init__.py
- JavaScript: `ConsoleSpanExporter._exportInfo`, opentelemetry-js 0229f2c; a `ReadableSpan` as JSON,
  as `FileSpanExporter` of gemini-cli db455de writes it
- Go: `SpanStub`, opentelemetry-go 047d607, sdk/trace/tracetest/span.go
- OTLP: one span without its request; its attributes may be a plain object, and its status an
  object of name and number (rows of Google's `_AllSpans`)
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.spans import (
    NS_PER_S,
    NS_PER_US,
    foreign_row,
    span_id,
    time_ns,
    trace_id,
)
from looptrace.collector.otlp.span_rows import SERVICE_NAME

# The names of each field; a name within another object follows a dot. The first that is there
# counts.
_CONTEXTS = ("context", "SpanContext", "spanContext", "_spanContext")
_TRACE_NAMES, _SPAN_NAMES = ("trace_id", "traceId", "TraceID"), ("span_id", "spanId", "SpanID")
_TRACE = (*_TRACE_NAMES, *(f"{c}.{name}" for c in _CONTEXTS for name in _TRACE_NAMES))
_SPAN = (*_SPAN_NAMES, *(f"{c}.{name}" for c in _CONTEXTS for name in _SPAN_NAMES), "id")
_PARENTS = ("parent", "Parent", "parentSpanContext")
_PARENT = (
    *("parentSpanId", "parent_span_id", "parent_id", "parentId", "ParentSpanID"),
    *(f"{parent}.{name}" for parent in _PARENTS for name in _SPAN_NAMES),
)
_NAME = ("name", "Name")
_START = (
    *("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "StartTime"),
    "timestamp",
)
_END = ("endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime", "EndTime")
_ATTRIBUTES = ("attributes", "Attributes")
_EVENTS, _LINKS = ("events", "Events"), ("links", "Links")
_EVENT_TIME = ("timestamp", "timeUnixNano", "time_unix_nano", "time", "Time")
_CODE = ("status.status_code", "status.code.name", "status.code", "Status.Code", "status")
_MESSAGE = ("status.description", "status.message", "Status.Description")
_RESOURCE = (
    *("resource.attributes", "resource._rawAttributes", "Resource", "resource"),
    "resource._syncAttributes",
)
_SCOPE = (
    *("scope.name", "instrumentationScope.name", "instrumentationLibrary.name"),
    *("instrumentation_scope.name", "InstrumentationScope.Name", "InstrumentationLibrary.Name"),
)
_FAILED = {"ERROR": True, "2": True, "OK": False, "1": False}
_TYPED = ("Type", "Value")  # a value of Go


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a span."""
    fields = set(names)
    has_ids = not fields.isdisjoint(_CONTEXTS) or (
        not fields.isdisjoint(_TRACE_NAMES) and not fields.isdisjoint((*_SPAN_NAMES, "id"))
    )
    has_name = not fields.isdisjoint(_NAME) and not fields.isdisjoint(_START)
    # A span of JavaScript's console has the fields of one of Zipkin and these.
    is_console = "id" not in fields or not fields.isdisjoint((*_ATTRIBUTES, "resource"))
    return has_ids and has_name and is_console and "span_kind" not in fields


def row_of(span: dict[str, Any]) -> SpanRow:
    """Return the row of a span."""
    start_ns = moment_ns(first(span, _START))
    code = str(first(span, _CODE) or "").rpartition(".")[2].removeprefix("STATUS_CODE_").upper()
    return foreign_row(
        trace=_id(first(span, _TRACE), 32),
        span=_id(first(span, _SPAN), 16),
        parent=_id(first(span, _PARENT), 16),
        name=first(span, _NAME),
        start_ns=start_ns,
        end_ns=moment_ns(first(span, _END)) or start_ns + _duration_ns(span.get("duration")),
        failed=_FAILED.get(code),
        error=first(span, _MESSAGE),
        service=resource_of(span).get(SERVICE_NAME),
        scope=scope_of(span),
        attributes=attributes_of(span),
        events=[
            (
                str(first(event, _NAME) or ""),
                moment_ns(first(event, _EVENT_TIME)),
                attributes_of(event),
            )
            for event in first(span, _EVENTS) or ()
            if isinstance(event, dict)
        ],
        links=list(_links(first(span, _LINKS))),
    )


def first(fields: Mapping[str, Any], names: Collection[str]) -> Any:
    """Return the first of these fields that is there; a dot leads into another object."""
    for name in names:
        value: Any = fields
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value not in (None, ""):
            return value
    return None


def _links(links: Any) -> Iterator[tuple[str, str]]:
    for link in links or ():
        if isinstance(link, dict):
            yield trace_of(link), span_of(link)


def trace_of(fields: Mapping[str, Any]) -> str:
    """Return the id of the trace of a span, a link or a log record, in hex; empty for none."""
    found = first(fields, _TRACE)
    return "" if found is None else trace_id(_id(found, 32))


def span_of(fields: Mapping[str, Any]) -> str:
    """Return the id of the span of a link or a log record, in hex; empty for none."""
    return span_id(_id(first(fields, _SPAN), 16))


def attributes_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span, an event or a log record."""
    return _map(first(fields, _ATTRIBUTES))


def resource_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of the resource of a span or a log record."""
    return _map(first(fields, _RESOURCE))


def scope_of(fields: Mapping[str, Any]) -> str | None:
    """Return the name of the instrumentation of a span or a log record."""
    name = first(fields, _SCOPE)
    return None if name is None else str(name)


def _id(value: Any, digits: int) -> Any:
    """Return an id in hex where it is a number, as Pydantic writes one of Python."""
    return f"{value:0{digits}x}" if isinstance(value, int) else value


def moment_ns(value: Any) -> int:
    """Return a time in nanoseconds; JavaScript's is a list of seconds and nanoseconds."""
    if isinstance(value, list) and len(value) == 2:
        return int(value[0]) * NS_PER_S + int(value[1])
    return time_ns(value)


def _duration_ns(value: Any) -> int:
    return int(value * NS_PER_US) if isinstance(value, int | float) else 0


def _map(attributes: Any) -> dict[str, Any]:
    """Return attributes as a dict: from one, from a list of keys and values, or of pairs."""
    if isinstance(attributes, dict):
        return {str(key): _value(value) for key, value in attributes.items()}
    found = {}
    for each in attributes if isinstance(attributes, list) else ():
        if isinstance(each, dict):
            key = each.get("key", each.get("Key"))
            found[str(key)] = _value(each.get("value", each.get("Value")))
        elif isinstance(each, list) and len(each) == 2:
            found[str(each[0])] = _value(each[1])
    return found


def _value(value: Any) -> Any:
    """Return a plain value from one of OTLP or Go, which name the type."""
    if not isinstance(value, dict):
        return value
    if set(value) == set(_TYPED):
        return value["Value"]
    ((kind, held),) = value.items() if len(value) == 1 else (("", None),)
    read = _READ.get(kind.replace("_", "").lower())
    return value if read is None else read(held)


_READ: dict[str, Callable[[Any], Any]] = {
    "stringvalue": lambda held: held,
    "boolvalue": lambda held: held,
    "bytesvalue": lambda held: held,
    "intvalue": int,
    "doublevalue": float,
    "arrayvalue": lambda held: [_value(item) for item in held.get("values") or ()],
    "kvlistvalue": lambda held: _map(held.get("values")),
}
