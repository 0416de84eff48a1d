"""Spans of Datadog's LLM Observability, as its SDK sends them.

The fields are those of `LLMObsSpanEvent` in ddtrace 3.12.0 ddtrace/llmobs/_llmobs.py.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.spans import (
    foreign_row,
    mapping,
    session_attributes,
    text_of,
    time_ns,
)

_KINDS = {"tool": "TOOL", "retrieval": "RETRIEVER", "llm": "LLM", "agent": "AGENT"}
_NO_PARENT = "undefined"


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a span."""
    return {"span_id", "trace_id", "start_ns", "duration", "meta"} <= set(names)


def row_of(span: dict[str, Any]) -> SpanRow:
    """Return the row of a span."""
    meta, metrics = mapping(span["meta"]), mapping(span.get("metrics"))
    kind = _KINDS.get(str(meta.get("span.kind")), "CHAIN")
    given, answer = mapping(meta.get("input")), mapping(meta.get("output"))
    parent, start_ns = span.get("parent_id"), time_ns(span["start_ns"])
    return foreign_row(
        trace=span["trace_id"],
        span=span["span_id"],
        parent=None if parent == _NO_PARENT else parent,
        name=span.get("name"),
        start_ns=start_ns,
        end_ns=start_ns + int(span["duration"]),
        failed=True if span.get("status") == "error" else None,
        error=meta.get("error.message"),
        service=span.get("service"),
        scope="datadog",
        attributes={
            "openinference.span.kind": kind,
            "agent.name": span.get("name") if kind == "AGENT" else None,
            "tool.name": span.get("name") if kind == "TOOL" else None,
            "input.value": text_of(given.get("messages") or given.get("value")),
            "output.value": text_of(
                answer.get("messages") or answer.get("documents") or answer.get("value")
            ),
            "error.type": meta.get("error.type"),
            "llm.model_name": meta.get("model_name"),
            "llm.token_count.prompt": metrics.get("input_tokens"),
            "llm.token_count.completion": metrics.get("output_tokens"),
            "llm.token_count.prompt_details.cache_read": metrics.get("cache_read_input_tokens"),
            "llm.token_count.prompt_details.cache_write": metrics.get("cache_write_input_tokens"),
            **session_attributes(span.get("session_id")),
        },
    )
