"""Spans of the OpenTelemetry SDK as rows of the span table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars as pl
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.otlp.span_rows import service_name, span_row
from looptrace.collector.otlp.span_table import span_table

_PLAIN = frozenset({int, float, bool})
# These make a plain value of a subclass, whatever conversions the subclass defines.
_SUBCLASSED: dict[type, Callable[[Any], object]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
}


def sdk_spans(spans: Iterable[ReadableSpan]) -> pl.DataFrame:
    """Return spans of the SDK, such as its in-memory exporter has, as a table (`SPAN_SCHEMA`)."""
    return span_table([row_of(span) for span in spans])


def row_of(span: ReadableSpan) -> SpanRow:
    """Return the row of the span table for a span of the SDK."""
    context, parent, scope = span.get_span_context(), span.parent, span.instrumentation_scope
    return span_row(
        trace_id=trace.format_trace_id(context.trace_id if context else 0),
        span_id=trace.format_span_id(context.span_id if context else 0),
        parent_span_id=trace.format_span_id(parent.span_id) if parent else "",
        name=_text(span.name),
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        status=span.status.status_code.value,
        status_message=_text(span.status.description or ""),
        service=service_name(plain(span.resource.attributes)),
        scope=_text(scope.name) if scope else None,
        attributes=plain(span.attributes),
        events=[(_text(e.name), e.timestamp, plain(e.attributes)) for e in span.events],
        links=[
            (trace.format_trace_id(k.context.trace_id), trace.format_span_id(k.context.span_id))
            for k in span.links
        ],
    )


def plain(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return attributes as values that JSON has."""
    return {_text(name): plain_value(value) for name, value in (attributes or {}).items()}


def plain_value(value: Any) -> Any:
    """Return a value as it would be after export; bytes are text where they are valid text.

    The SDK takes subclasses, such as an enum's members and NumPy's numbers, and keeps them.
    """
    if type(value) is str:
        return _text(value)
    if type(value) in _PLAIN:
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return plain(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain_value(item) for item in value]
    for kind, convert in _SUBCLASSED.items():
        if isinstance(value, kind):
            return plain_value(convert(value))
    return value


def _text(text: str) -> str:
    """Return a text that can be encoded: half of a character, as cutting leaves it, becomes `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
