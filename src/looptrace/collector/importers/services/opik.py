"""Spans of Opik, from its API or its command `opik export`, alone or beside their trace.

The fields are those of `SpanPublic` and `TracePublic` in opik 2.2.122 opik/rest_api/types.
"""

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.records import Part
from looptrace.collector.importers.spans import (
    foreign_row,
    mapping,
    original_attributes,
    session_attributes,
    text_of,
    time_ns,
)

_SPAN = {"id", "trace_id", "type", "start_time"}
# Langfuse has the others too. The first span of a list has no parent.
_OWN = {"parent_span_id", "error_info", "total_estimated_cost", "last_updated_at"}
# What was cached, in the names of each API; all are counted in `prompt_tokens`.
_CACHED = tuple(
    f"original_usage.{name}"
    for name in (
        "cache_read_input_tokens",
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
        "cached_content_token_count",
        "cacheReadInputTokens",
    )
)
_KINDS = {"tool": "TOOL", "llm": "LLM", "guardrail": "GUARDRAIL"}


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a span, or of a trace with its spans."""
    fields = set(names)
    is_span = fields >= _SPAN and not fields.isdisjoint(_OWN)
    return is_span or {"trace", "spans", "project_name"} <= fields


def parts(record: dict[str, Any]) -> Iterator[Part]:
    """Yield the spans of a record, each with its place."""
    if "spans" not in record:
        yield "", partial(_row, record, None)
        return
    session = mapping(record["trace"]).get("thread_id")
    for index, span in enumerate(record["spans"] or ()):
        yield f"spans[{index}]", partial(_row, span, session)


def _row(span: dict[str, Any], session: object) -> SpanRow:
    kind = _KINDS.get(str(span["type"]), "CHAIN")
    usage, error = mapping(span.get("usage")), mapping(span.get("error_info"))
    return foreign_row(
        trace=span["trace_id"],
        span=span["id"],
        parent=span.get("parent_span_id"),
        name=span.get("name"),
        start_ns=time_ns(span["start_time"]),
        end_ns=time_ns(span.get("end_time")),
        failed=True if error else None,
        error=error.get("message") or error.get("exception_type"),
        service=span.get("project_name"),
        scope="opik",
        attributes={
            **original_attributes(mapping(span.get("metadata"))),
            "openinference.span.kind": kind,
            "tool.name": span.get("name") if kind == "TOOL" else None,
            "input.value": text_of(span.get("input")),
            "output.value": text_of(span.get("output")),
            "llm.model_name": span.get("model"),
            "llm.token_count.prompt": usage.get("prompt_tokens"),
            "llm.token_count.completion": usage.get("completion_tokens"),
            "llm.token_count.prompt_details.cache_read": _cached(usage),
            **session_attributes(session),
        },
    )


def _cached(usage: dict[str, Any]) -> object:
    return next((usage[name] for name in _CACHED if usage.get(name)), None)
