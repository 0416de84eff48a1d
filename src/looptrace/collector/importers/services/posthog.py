"""Events of PostHog's LLM analytics, `$ai_generation` and `$ai_span`, as its API exports them.

The properties are those of PostHog/posthog-python@c55c9b2 posthog/ai/langchain/callbacks.py,
posthog/ai/openai_agents/processor.py and posthog/ai/utils.py. An event is sent at the end.
"""

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

# A span may say what it is; else it is a chain or a call.
_KINDS = {"$ai_generation": "LLM", "$ai_span": "CHAIN", "$ai_trace": "CHAIN"}
_SPAN_TYPES = {"tool": "TOOL", "agent": "AGENT", "guardrail": "GUARDRAIL"}
_CACHED = ("$ai_cache_read_input_tokens", "$ai_cache_creation_input_tokens")


def row_of(event: dict[str, Any]) -> SpanRow | None:
    """Return the row of an event, None for those of other products."""
    kind = _KINDS.get(str(event["event"]))
    if kind is None:
        return None
    told = mapping(event["properties"])
    kind = _SPAN_TYPES.get(str(told.get("$ai_span_type")), kind)
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
            "agent.name": name if kind == "AGENT" else None,
            "tool.name": name if kind == "TOOL" else None,
            "llm.token_count.prompt": _input_tokens(told),
            "llm.token_count.prompt_details.cache_read": told.get(_CACHED[0]),
            "llm.token_count.prompt_details.cache_write": told.get(_CACHED[1]),
            "llm.token_count.completion": told.get("$ai_output_tokens"),
            **session_attributes(told.get("$ai_session_id")),
        },
    )


def _input_tokens(told: dict[str, Any]) -> Any:
    """Return the tokens of the input, also those that were cached and counted beside it."""
    tokens = told.get("$ai_input_tokens")
    if tokens is None or told.get("$ai_cache_reporting_exclusive") not in (True, "true"):
        return tokens
    return int(tokens) + sum(int(told.get(name) or 0) for name in _CACHED)
