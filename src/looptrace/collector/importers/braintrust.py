"""Spans of Braintrust's logs, as its API and SQL return them; an export has the same in lines.

A span that came as one of OpenTelemetry may have its attributes in `metadata` (braintrust.dev,
OpenTelemetry attributes and events).
"""

from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.spans import (
    foreign_row,
    mapping,
    original_attributes,
    session_attributes,
    text_of,
    time_ns,
)

_KINDS = {"llm": "LLM", "tool": "TOOL"}
_KIND, _UNKNOWN = "openinference.span.kind", "UNKNOWN"
_SESSIONS = ("session_id", "thread_id", "conversation_id")


def row_of(span: dict[str, Any]) -> SpanRow:
    """Return the row of a span."""
    about, metrics = mapping(span.get("span_attributes")), mapping(span.get("metrics"))
    metadata = mapping(span.get("metadata"))
    kind = _KINDS.get(str(about.get("type")), str(about.get("type") or _UNKNOWN).upper())
    original = original_attributes(metadata)
    given, answer = span.get("input"), span.get("output")
    return foreign_row(
        trace=span["root_span_id"],
        span=span["span_id"],
        parent=next(iter(span.get("span_parents") or ()), None),
        name=about.get("name"),
        start_ns=time_ns(metrics.get("start") or span.get("created")),
        end_ns=time_ns(metrics.get("end")),
        failed=True if span.get("error") else None,
        error=span.get("error"),
        scope="braintrust",
        attributes={
            **original,
            "openinference.span.kind": original.get(_KIND) if kind == _UNKNOWN else kind,
            "tool.name": about.get("name") if kind == "TOOL" else None,
            "input.value": text_of(given),
            "output.value": text_of(answer),
            "llm.model_name": metadata.get("model"),
            "braintrust.metrics": text_of(metrics) if metrics else None,
            **session_attributes(
                next((metadata[name] for name in _SESSIONS if metadata.get(name)), None)
            ),
        },
    )
