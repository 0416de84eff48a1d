"""Traces of Google Cloud Trace, as version 1 of its API has them (`projects.traces.get`).

The ids of spans are decimal numbers, and attributes are labels, each a text of up to 256 bytes
(cloud.google.com/trace/docs/reference/v1/rest/v1/projects.traces). Rows of the table `_AllSpans`
are read as spans of OTLP (`console`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.records import Part
from looptrace.collector.importers.spans import SPAN_DIGITS, foreign_row, mapping, time_ns

# What the API names so is an error of the span.
_ERROR, _ERROR_TYPE = "/error/message", "/error/name"


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a trace."""
    return {"projectId", "traceId", "spans"} <= set(names)


def parts(trace: dict[str, Any]) -> Iterator[Part]:
    """Yield the spans of a trace, each with its place."""
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


def _hex(number: object) -> str:
    return "" if number in (None, "", "0", 0) else f"{int(str(number)):0{SPAN_DIGITS}x}"
