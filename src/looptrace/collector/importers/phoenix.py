"""Spans of Phoenix and Arize: answers of Phoenix's APIs, and rows of data frames of spans.

The API nests the ids in `context`; the data frame has a column `context.span_id`, and one for each
attribute, `attributes.llm.input_messages`, with lists in it that OpenInference writes flat. GraphQL
has names like `spanKind`, and attributes as JSON (Arize-ai/phoenix@9478f95 js/app/schema.graphql).
Of a response in the names of OpenTelemetry, Phoenix makes an output of its id and its model
(arize-phoenix 20.26.1: phoenix/trace/gen_ai/conversion.py), which says nothing.
"""

from collections.abc import Collection
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.importers.records import snake_case
from looptrace.collector.importers.spans import flat_attributes, foreign_row, mapping, time_ns

_KIND = "openinference.span.kind"
_ATTRIBUTES, _CONTEXT = "attributes.", "context."
_FAILED = {"ERROR": True, "OK": False}
# Objects that OpenInference writes as one text.
_WHOLE = {"metadata", "llm.prompt_template.variables"}
_OUTPUT = "output.value"
# What Phoenix makes an output of, where no other is told.
_MADE_OF = {"id": "gen_ai.response.id", "model": "gen_ai.response.model"}


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a span."""
    fields = set(map(snake_case, names))
    has_ids = not fields.isdisjoint(("context", "context.span_id", "trace"))
    has_kind = "span_kind" in fields or f"{_ATTRIBUTES}{_KIND}" in fields
    is_whole = "attributes" in fields or "spanKind" not in names
    return has_ids and has_kind and is_whole and "start_time" in fields


def row_of(span: dict[str, Any]) -> SpanRow:
    """Return the row of a span."""
    span = {snake_case(name): value for name, value in span.items()}
    context = mapping(span.get("context")) or _columns(span, _CONTEXT)
    context = {snake_case(name): value for name, value in context.items()}
    trace = mapping(span.get("trace")).get("traceId")
    held = mapping(span.get("attributes")) or _columns(span, _ATTRIBUTES)
    attributes = dict(flat_attributes(held, _WHOLE))
    made = {name: attributes[key] for name, key in _MADE_OF.items() if attributes.get(key)}
    if made and mapping(attributes.get(_OUTPUT)) == made:
        del attributes[_OUTPUT]
    # Arize has it with the other attributes alone.
    kind = {_KIND: str(span["span_kind"]).upper()} if "span_kind" in span else {}
    return foreign_row(
        trace=trace or context["trace_id"],
        span=span.get("span_id") or context["span_id"],
        parent=span.get("parent_id"),
        name=span.get("name"),
        start_ns=time_ns(span["start_time"]),
        end_ns=time_ns(span.get("end_time")),
        failed=_FAILED.get(str(span.get("status_code"))),
        error=span.get("status_message"),
        attributes=kind | attributes,
        events=[
            (str(event["name"]), time_ns(event.get("timestamp")), _event_attributes(event))
            for event in parsed(span.get("events")) or ()
        ],
    )


def _event_attributes(event: dict[str, Any]) -> dict[str, Any]:
    message = event.get("message")  # of GraphQL, which has no attributes
    told = mapping(event.get("attributes"))
    return told | ({"exception.message": message} if message else {})


def _columns(span: dict[str, Any], prefix: str) -> dict[str, Any]:
    found = {name: value for name, value in span.items() if name.startswith(prefix)}
    return {name.removeprefix(prefix): value for name, value in found.items()}
