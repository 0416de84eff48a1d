"""Events of PostHog's LLM analytics, `$ai_generation` and `$ai_span`, as its API exports them.

The properties are those of posthog/ai/langchain/callbacks.py and posthog/ai/utils.py. An event is
sent at the end of what it tells.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.spans import (
    NS_PER_S,
    foreign_row,
    mapping,
    session_attributes,
    text_of,
    time_ns,
)

# A span is a chain or a call, and says nowhere which.
_KINDS = {"$ai_generation": "LLM", "$ai_span": "CHAIN", "$ai_trace": "CHAIN"}


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of an event."""
    return {"event", "properties", "timestamp"} <= set(names)


def row_of(event: dict[str, Any]) -> SpanRow | None:
    """Return the row of an event, None for those of other products."""
    kind = _KINDS.get(str(event["event"]))
    if kind is None:
        return None
    told = mapping(event["properties"])
    end_ns = time_ns(event["timestamp"])
    trace = told["$ai_trace_id"]
    name = told.get("$ai_span_name")
    return foreign_row(
        trace=trace,
        span=told.get("$ai_span_id") or told.get("$ai_generation_id") or event.get("uuid") or trace,
        parent=told.get("$ai_parent_id"),
        name=name,
        start_ns=end_ns - round(float(told.get("$ai_latency") or 0) * NS_PER_S),
        end_ns=end_ns,
        failed=True if told.get("$ai_is_error") in (True, "true") else None,
        error=told.get("$ai_error"),
        scope="posthog",
        attributes={
            "openinference.span.kind": kind,
            "input.value": text_of(told.get("$ai_input", told.get("$ai_input_state"))),
            "output.value": text_of(told.get("$ai_output_choices", told.get("$ai_output_state"))),
            "llm.model_name": told.get("$ai_model"),
            "llm.token_count.prompt": told.get("$ai_input_tokens"),
            "llm.token_count.completion": told.get("$ai_output_tokens"),
            **session_attributes(told.get("$ai_session_id")),
        },
    )
