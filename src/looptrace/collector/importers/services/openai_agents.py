"""Spans of the OpenAI Agents SDK in its own form, as its processors export them to OpenAI.

`Span.export()` and `Trace.export()` of openai/openai-agents-python@7f7a44f
src/agents/tracing/{spans,traces,span_data}.py; the SDK for JavaScript writes the same, and usage on
turns alone (@openai/agents 0.20.0, recorded).
"""

from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.spans import (
    foreign_row,
    mapping,
    session_attributes,
    text_of,
    time_ns,
)
from looptrace.collector.otlp.span_rows import DecodedSpans

# A response's span has its usage, and no messages; those of other types are structure.
_KINDS = {
    "function": "TOOL",
    "generation": "LLM",
    "response": "LLM",
    "agent": "AGENT",
    "guardrail": "GUARDRAIL",
}
_TRACE, _SPAN = "trace", "trace.span"


class OpenAIAgentsReader:
    """The reader of spans, of which a trace before them names the session."""

    def __init__(self) -> None:
        self._groups: dict[str, object] = {}  # by trace
        self._responses: dict[object, dict[str, Any]] = {}  # without usage, by their turn

    def read(self, record: dict[str, Any], _where: str) -> DecodedSpans:
        """Return the row of a span, and none for a trace. Raises one of RECORD_ERRORS."""
        if record["object"] == _TRACE:
            self._groups[str(record["id"])] = record.get("group_id")
            return DecodedSpans()
        if record["object"] != _SPAN:
            raise ValueError(f"expected {_SPAN!r}, found {record['object']!r:.60}")
        data, turn = mapping(record["span_data"]), record.get("parent_id")
        if data.get("type") == "response" and not data.get("usage") and turn not in self._responses:
            self._responses[turn] = record
            return DecodedSpans()
        answered = self._responses.pop(record["id"], None)
        usage = mapping(data.get("data")).get("usage")
        return DecodedSpans(
            ([self._row(answered, usage)] if answered else []) + [self._row(record)]
        )

    def rest(self) -> list[SpanRow]:
        """Return the rows of responses whose turns have not ended."""
        left = [self._row(response) for response in self._responses.values()]
        self._responses = {}
        return left

    def _row(self, span: dict[str, Any], usage: object = None) -> SpanRow:
        data = mapping(span["span_data"])
        data = {**data, "usage": usage} if usage else data
        return _row(span, data, self._groups.get(str(span["trace_id"])))


def _row(span: dict[str, Any], data: dict[str, Any], session: object) -> SpanRow:
    kind = _KINDS.get(str(data.get("type")), "CHAIN")
    usage, error = mapping(data.get("usage")), mapping(span.get("error"))
    cause = mapping(error.get("data")).get("error")
    name = data.get("name") or data.get("type")
    return foreign_row(
        trace=span["trace_id"],
        span=span["id"],
        parent=span.get("parent_id"),
        name=name,
        start_ns=time_ns(span["started_at"]),
        end_ns=time_ns(span.get("ended_at")),
        failed=True if error else None,
        error=cause or error.get("message"),
        scope="openai-agents",
        attributes={
            "openinference.span.kind": kind,
            "agent.name": name if kind == "AGENT" else None,
            "tool.name": name if kind == "TOOL" else None,
            "input.value": text_of(data.get("input")),
            "output.value": text_of(data.get("output")),
            "llm.model_name": data.get("model"),
            "llm.token_count.prompt": usage.get("input_tokens"),
            "llm.token_count.completion": usage.get("output_tokens"),
            "llm.token_count.prompt_details.cache_read": usage.get("cached_input_tokens"),
            "llm.token_count.prompt_details.cache_write": usage.get("cache_write_input_tokens"),
            "gen_ai.usage.raw": text_of(usage) if usage else None,
            **session_attributes(session),
        },
    )
