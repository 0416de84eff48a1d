"""Executions of Flowise's agentflows, from its API or its export.

The fields are those of FlowiseAI/Flowise@ababf4c packages/server/src/Interface.ts
(IAgentflowExecutedData) and packages/components/nodes/agentflow/{Agent,Tool}. An agent's node has
its last response and the calls before it, without their times.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from looptrace import semconv
from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.importers.records import Part
from looptrace.collector.importers.spans import (
    NS_PER_MS,
    foreign_row,
    mapping,
    session_attributes,
    text_of,
    time_ns,
)

_TOOL_NODE = "toolAgentflow"
_MODEL_NODES = {"agentAgentflow", "llmAgentflow"}


def parts(execution: dict[str, Any]) -> Iterator[Part]:
    """Yield the calls and responses of an execution in their order, each with its place."""
    now_ns = time_ns(execution["createdDate"])
    for index, node in enumerate(parsed(execution["executionData"])):
        data = mapping(node["data"])
        steps = list(_steps(data))
        times = mapping(mapping(data.get("output")).get("timeMetadata"))
        start_ns = time_ns(times.get("start")) or now_ns
        now_ns = max(time_ns(times.get("end")), start_ns + NS_PER_MS * (len(steps) + 1))
        error = data.get("error") if node.get("status") == "ERROR" else None
        for number, (place, attributes, failure) in enumerate(steps, 1):
            span = f"{execution['id']} {index} {number}"
            each_ns = (now_ns - start_ns) // len(steps)
            times_ns = (start_ns + each_ns * (number - 1), start_ns + each_ns * number)
            why = failure or (error if number == len(steps) else None)
            told = {semconv.GEN_AI_AGENT_NAME: node.get("nodeLabel"), **attributes}
            yield (
                f"executionData[{index}].data{place}",
                partial(_row, execution, span, times_ns, told, why),
            )


def _steps(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], object]]:
    """Yield the place, the attributes and the failure of what a node did."""
    given, output = mapping(data.get("input")), mapping(data.get("output"))
    if data.get("name") == _TOOL_NODE:
        name, told = given.get("selectedTool"), given.get("toolInputArgs")
        yield "", _call(name, told, output.get("content")), None
    if data.get("name") not in _MODEL_NODES:
        return
    for index, call in enumerate(output.get("usedTools") or ()):
        attributes = _call(call["tool"], call.get("toolInput"), call.get("toolOutput"))
        yield f".output.usedTools[{index}]", attributes, call.get("error")
    yield ".output", _response(given, output), None


def _call(name: object, arguments: object, result: object) -> dict[str, Any]:
    return {
        semconv.GEN_AI_OPERATION_NAME: "execute_tool",
        semconv.GEN_AI_TOOL_NAME: name,
        semconv.GEN_AI_TOOL_CALL_ARGUMENTS: text_of(arguments),
        semconv.GEN_AI_TOOL_CALL_RESULT: text_of(result) or None,
    }


def _response(given: dict[str, Any], output: dict[str, Any]) -> dict[str, Any]:
    usage, answer = mapping(output.get("usageMetadata")), output.get("content")
    messages, made = given.get("messages"), [{"role": "assistant", "content": answer}]
    model = mapping(output.get("responseMetadata"))
    return {
        semconv.GEN_AI_OPERATION_NAME: "chat",
        semconv.GEN_AI_REQUEST_MODEL: model.get("model_name") or model.get("model"),
        semconv.GEN_AI_INPUT_MESSAGES: text_of(messages) if messages else None,
        semconv.GEN_AI_OUTPUT_MESSAGES: text_of(made) if answer else None,
        semconv.GEN_AI_USAGE_INPUT_TOKENS: usage.get("input_tokens"),
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: usage.get("output_tokens"),
    }


def _row(
    execution: dict[str, Any],
    span: str,
    times_ns: tuple[int, int],
    attributes: dict[str, Any],
    error: object,
) -> SpanRow:
    return foreign_row(
        trace=execution["id"],
        span=span,
        parent=None,
        name=attributes.get(semconv.GEN_AI_TOOL_NAME) or "chat",
        start_ns=times_ns[0],
        end_ns=times_ns[1],
        failed=True if error else None,
        error=error,
        service=execution["agentflowId"],
        scope="flowise",
        attributes={**attributes, **session_attributes(execution["sessionId"])},
    )
