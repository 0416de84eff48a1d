"""Steps of runs of OpenAI's assistants, which hold the calls with their results.

The fields are those of openai/openai-python@e43b422 src/openai/types/beta/threads/runs/
run_step.py; a thread is a session. A step names a message, and has no text of it.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from looptrace import semconv
from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.records import Part
from looptrace.collector.importers.spans import (
    foreign_row,
    mapping,
    session_attributes,
    text_of,
    time_ns,
)


def parts(step: dict[str, Any]) -> Iterator[Part]:
    """Yield the response of a step, and its calls, each with its place."""
    calls: list[dict[str, Any]] = mapping(step["step_details"]).get("tool_calls") or []
    yield "", partial(_response, step, calls)
    for index, call in enumerate(calls):
        yield f"step_details.tool_calls[{index}]", partial(_call, step, call)


def _response(step: dict[str, Any], calls: list[dict[str, Any]]) -> SpanRow:
    usage = mapping(step.get("usage"))
    asked = [call for call in calls if _of(call)]
    answer = {"role": "assistant", "tool_calls": asked}
    at_ns = time_ns(step["created_at"])
    told = {
        semconv.GEN_AI_OPERATION_NAME: "chat",
        semconv.GEN_AI_OUTPUT_MESSAGES: text_of([answer]) if asked else None,
        semconv.GEN_AI_USAGE_INPUT_TOKENS: usage.get("prompt_tokens"),
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: usage.get("completion_tokens"),
    }
    error = mapping(step.get("last_error")).get("message")
    return _row(step, step["id"], "chat", (at_ns, at_ns), told, error)


def _call(step: dict[str, Any], call: dict[str, Any]) -> SpanRow:
    told = _of(call)
    name = told.get("name") or call["type"]
    start_ns = time_ns(step["created_at"])
    ends = (step.get(f"{how}_at") for how in ("completed", "failed", "cancelled", "expired"))
    end_ns = next((time_ns(end) for end in ends if end), 0)
    output = told.get("output", told.get("outputs"))
    attributes = {
        semconv.GEN_AI_OPERATION_NAME: "execute_tool",
        semconv.GEN_AI_TOOL_NAME: name,
        semconv.GEN_AI_TOOL_CALL_ID: call.get("id"),
        semconv.GEN_AI_TOOL_CALL_ARGUMENTS: text_of(told.get("arguments", told.get("input"))),
        semconv.GEN_AI_TOOL_CALL_RESULT: text_of(output),
    }
    error = mapping(step.get("last_error")).get("message") if output is None else None
    return _row(step, f"{step['id']} {call.get('id')}", name, (start_ns, end_ns), attributes, error)


def _of(call: dict[str, Any]) -> dict[str, Any]:
    """Return what a call holds under the name of its type."""
    return mapping(call.get(str(call.get("type"))))


def _row(
    step: dict[str, Any],
    span: object,
    name: object,
    times_ns: tuple[int, int],
    attributes: dict[str, Any],
    error: object,
) -> SpanRow:
    return foreign_row(
        trace=step["run_id"],
        span=span,
        parent=None,
        name=name,
        start_ns=times_ns[0],
        end_ns=times_ns[1],
        failed=True if error else None,
        error=error,
        service=step.get("assistant_id"),
        scope="openai",
        attributes={**attributes, **session_attributes(step["thread_id"])},
    )
