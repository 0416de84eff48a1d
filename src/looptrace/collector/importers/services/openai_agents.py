"""Spans of the OpenAI Agents SDK in its own form, as its processors export them to OpenAI.

`Span.export()` and `Trace.export()` of openai/openai-agents-python@7f7a44f
src/agents/tracing/{spans,traces,span_data}.py; the SDK for JavaScript writes the same.
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

    def read(self, record: dict[str, Any], _where: str) -> DecodedSpans:
        """Return the row of a span, and none for a trace. Raises one of RECORD_ERRORS."""
        if record["object"] == _TRACE:
            self._groups[str(record["id"])] = record.get("group_id")
            return DecodedSpans()
        if record["object"] != _SPAN:
            raise ValueError(f"expected {_SPAN!r}, found {record['object']!r:.60}")
        return DecodedSpans([_row(record, self._groups.get(str(record["trace_id"])))])

    def rest(self) -> list[SpanRow]:
        """Return nothing, because no row waits for another record."""
        return []


def _row(span: dict[str, Any], session: object) -> SpanRow:
    data = mapping(span["span_data"])
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
            "gen_ai.usage.raw": text_of(usage) if usage else None,
            **session_attributes(session),
        },
    )
