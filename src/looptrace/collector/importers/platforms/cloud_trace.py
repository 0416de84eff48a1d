"""Traces of Google Cloud Trace, as versions 1 and 2 of its API have them.

In version 1 the ids of spans are decimal numbers, and attributes are labels, each a text of up to
256 bytes; in version 2, of `traces:batchWrite`, a span names its trace (googleapis/
googleapis@f8291d2 google/devtools/cloudtrace/v1/trace.proto and v2/trace.proto). Rows of the table
`_AllSpans` are read as spans of OTLP (`console`).
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.records import Part
from looptrace.collector.importers.spans import SPAN_DIGITS, foreign_row, mapping, time_ns
from looptrace.collector.otlp.span_rows import BadSpanError

_NAME = re.compile(r"projects/[^/]+/traces/(?P<trace>[^/]+)/spans/[^/]+")
# What the API names so is an error of the span.
_ERROR, _ERROR_TYPE = "/error/message", "/error/name"


def parts(trace: dict[str, Any]) -> Iterator[Part]:
    """Yield the spans of a trace, each with its place."""
    if "displayName" in trace:
        yield "", partial(_row_2, trace)
        return
    for index, span in enumerate(trace["spans"] or ()):
        yield f"spans[{index}]", partial(_row, span, trace["traceId"])


def _row(span: dict[str, Any], trace: object) -> SpanRow:
    labels = mapping(span.get("labels"))
    error = labels.get(_ERROR) or labels.get(_ERROR_TYPE)
    return foreign_row(
        trace=trace,
        span=_hex(span["spanId"]),
        parent=_hex(span.get("parentSpanId")),
        name=span.get("name"),
        start_ns=time_ns(span["startTime"]),
        end_ns=time_ns(span.get("endTime")),
        failed=True if error else None,
        error=error,
        service=labels.get("service.name"),
        attributes={name: value for name, value in labels.items() if not name.startswith("/")},
    )


def _row_2(span: dict[str, Any]) -> SpanRow:
    name = _NAME.fullmatch(str(span["name"]))
    if name is None:
        raise BadSpanError("expected projects/PROJECT/traces/TRACE/spans/SPAN as its name")
    attributes, status = _attributes(span), mapping(span.get("status"))
    events = mapping(span.get("timeEvents")).get("timeEvent") or ()
    return foreign_row(
        trace=name["trace"],
        span=span["spanId"],
        parent=span.get("parentSpanId"),
        name=_text(span["displayName"]),
        start_ns=time_ns(span["startTime"]),
        end_ns=time_ns(span.get("endTime")),
        failed=True if status.get("code") else None,
        error=status.get("message"),
        service=attributes.get("service.name"),
        attributes=attributes,
        events=[
            (_text(told.get("description")), time_ns(event.get("time")), _attributes(told))
            for event, told in ((each, mapping(each.get("annotation"))) for each in events)
        ],
    )


def _attributes(held: dict[str, Any]) -> dict[str, Any]:
    told = mapping(mapping(held.get("attributes")).get("attributeMap"))
    return {name: _value(mapping(value)) for name, value in told.items()}


def _value(value: dict[str, Any]) -> Any:
    if "intValue" in value:
        return int(value["intValue"])
    return value["boolValue"] if "boolValue" in value else _text(value.get("stringValue"))


def _text(value: Any) -> str:
    """Return a text, which stands in an object beside the number of bytes that were cut."""
    return str(mapping(value).get("value") or "")


def _hex(number: object) -> str:
    return "" if number in (None, "", "0", 0) else f"{int(str(number)):0{SPAN_DIGITS}x}"
