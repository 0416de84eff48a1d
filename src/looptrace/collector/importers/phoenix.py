"""Spans of Phoenix and Arize: answers of Phoenix's APIs, and rows of data frames of spans.

The API nests the ids in `context`; the data frame has a column `context.span_id`, and one for each
attribute, `attributes.llm.input_messages`, with lists in it that OpenInference writes flat.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.importers.spans import flat_attributes, foreign_row, mapping, time_ns

_KIND = "openinference.span.kind"
_ATTRIBUTES, _CONTEXT = "attributes.", "context."
_FAILED = {"ERROR": True, "OK": False}
# Objects that OpenInference writes as one text.
_WHOLE = {"metadata", "llm.prompt_template.variables"}


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a span."""
    has_ids = "context" in names or "context.span_id" in names
    has_kind = "span_kind" in names or f"{_ATTRIBUTES}{_KIND}" in names
    return has_ids and has_kind and "start_time" in names


def row_of(span: dict[str, Any]) -> SpanRow:
    """Return the row of a span."""
    context = mapping(span.get("context")) or _columns(span, _CONTEXT)
    held = mapping(span.get("attributes")) or _columns(span, _ATTRIBUTES)
    attributes = dict(flat_attributes(held, _WHOLE))
    # Arize has it with the other attributes alone.
    kind = {_KIND: str(span["span_kind"]).upper()} if "span_kind" in span else {}
    return foreign_row(
        trace=context["trace_id"],
        span=context["span_id"],
        parent=span.get("parent_id"),
        name=span.get("name"),
        start_ns=time_ns(span["start_time"]),
        end_ns=time_ns(span.get("end_time")),
        failed=_FAILED.get(str(span.get("status_code"))),
        error=span.get("status_message"),
        attributes=kind | attributes,
        events=[
            (str(event["name"]), time_ns(event.get("timestamp")), mapping(event.get("attributes")))
            for event in parsed(span.get("events")) or ()
        ],
    )


def _columns(span: dict[str, Any], prefix: str) -> dict[str, Any]:
    found = {name: value for name, value in span.items() if name.startswith(prefix)}
    return {name.removeprefix(prefix): value for name, value in found.items()}
