"""Traces of Grafana Tempo and of Jaeger's API v3: export requests under other names.

Tempo's API has `batches`, in its version 2 `trace.resourceSpans`; ids are base64, as in all JSON
that is made of protobuf by its own rules. Jaeger's has `result.resourceSpans`. A group of spans may
also be alone.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import msgspec

from looptrace.collector.importers.spans import span_id, trace_id
from looptrace.collector.otlp.json import decode_request
from looptrace.collector.otlp.span_rows import DecodedSpans, DecodingBounds

_RESOURCE_SPANS = ("resourceSpans", "batches", "resource_spans")
_SCOPE_SPANS = ("scopeSpans", "instrumentationLibrarySpans", "scope_spans")
# One group of spans without its request, as Java's `OtlpJsonLoggingSpanExporter` logs it.
_GROUP = ({"resource", "scopeSpans"}, {"resource", "scope_spans"})
_IDS = {
    "traceId": trace_id, "spanId": span_id, "parentSpanId": span_id,
    "trace_id": trace_id, "span_id": span_id, "parent_span_id": span_id,
}  # fmt: skip


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a trace."""
    fields = set(names)
    return not fields.isdisjoint(_RESOURCE_SPANS) or any(fields >= group for group in _GROUP)


def read(record: dict[str, Any], where: str) -> DecodedSpans:
    """Return the spans of a trace, which is an export request except for its names and ids.

    Raises one of RECORD_ERRORS.
    """
    held = next((name for name in _RESOURCE_SPANS if name in record), None)
    found = [record] if held is None else record[held] or ()
    groups = [_resource_spans(group) for group in found]
    decoded = decode_request(msgspec.json.encode({"resourceSpans": groups}), DecodingBounds())
    problems = [replace(problem, where=where) for problem in decoded.problems]
    return replace(decoded, problems=problems)


def _resource_spans(group: dict[str, Any]) -> dict[str, Any]:
    held = next((name for name in _SCOPE_SPANS if name in group), _SCOPE_SPANS[0])
    return {
        "resource": group.get("resource"),
        "scopeSpans": [_scope_spans(scope) for scope in group.get(held) or ()],
    }


def _scope_spans(group: dict[str, Any]) -> dict[str, Any]:
    scope = group.get("scope", group.get("instrumentationLibrary"))
    return {"scope": scope, "spans": [_span(span) for span in group.get("spans") or ()]}


def _span(span: Any) -> Any:
    if not isinstance(span, dict):
        return span  # The decoder reports what is wrong with it.
    links = [_with_ids(link) for link in span.get("links") or ()]
    return {**_with_ids(span), "links": links}


def _with_ids(fields: dict[str, Any]) -> dict[str, Any]:
    return fields | {name: make(fields[name]) for name, make in _IDS.items() if fields.get(name)}
