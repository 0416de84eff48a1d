"""Executions of n8n, from its API (`includeData=true`) or `n8n execute --rawOutput`.

The runs of each node stand under its name, as in n8n-io/n8n@c649060 packages/workflow/src/
interfaces.ts (IRunData, ITaskData). Nodes below an agent have what they were given in
`inputOverride` and what they gave in `data`, by the kind of their connection, as in
packages/@n8n/ai-utilities/src/utils/{log-wrapper,n8n-llm-tracing}.ts.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from looptrace import semconv
from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.records import Part
from looptrace.collector.importers.spans import (
    NS_PER_MS,
    foreign_row,
    mapping,
    session_attributes,
    text_of,
    time_ns,
)

_TOOL, _MODEL = "ai_tool", "ai_languageModel"
_CONNECTIONS = (_TOOL, _MODEL, "main")
_AGENT_TYPES = (".agent", ".agentTool")


def parts(execution: dict[str, Any]) -> Iterator[Part]:
    """Yield the runs of the nodes of an execution, each with its place."""
    runs: dict[str, list[dict[str, Any]]] = mapping(execution["data"])["resultData"]["runData"]
    nodes = mapping(execution.get("workflowData")).get("nodes") or ()
    types = {node["name"]: str(node["type"]) for node in nodes}
    chat = _chat(runs)
    for name, each in runs.items():
        for index, run in enumerate(each):
            place = f"data.resultData.runData[{name!r}][{index}]"
            row = partial(_row, execution, (name, index), run, types.get(name, ""), chat)
            yield place, row


def _chat(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the item of a message to the workflow, which names its session."""
    items = (_item(run.get("data"), "main") for each in runs.values() for run in each)
    return next((item for item in items if "sessionId" in item), {})


def _item(held: object, connection: str) -> dict[str, Any]:
    """Return the first item of a connection; empty for none."""
    lists: list[list[Any]] = mapping(held).get(connection) or []
    first = next((items[0] for items in lists if items), None)
    return mapping(mapping(first).get("json"))


def _row(
    execution: dict[str, Any],
    place: tuple[str, int],
    run: dict[str, Any],
    kind: str,
    chat: dict[str, Any],
) -> SpanRow:
    name, index = place
    held, given = mapping(run.get("data")), mapping(run.get("inputOverride"))
    connection = next((each for each in _CONNECTIONS if each in held or each in given), "main")
    told, answer = _item(given, connection), _item(held, connection)
    error = mapping(run.get("error"))
    start_ns = time_ns(run["startTime"])
    trace = execution.get("id") or execution["startedAt"]
    if connection == _TOOL:
        attributes = _call(name, told, answer)
    elif connection == _MODEL:
        attributes = _response(told, answer)
    else:
        attributes = _step(name, kind, chat)
    return foreign_row(
        trace=f"n8n {trace}",
        span=f"{trace} {name} {index}",
        parent=_parent(trace, run) if connection != "main" else None,
        name=name,
        start_ns=start_ns,
        end_ns=start_ns + round(run.get("executionTime") or 0) * NS_PER_MS,
        failed=True if error or run.get("executionStatus") == "error" else None,
        error=error.get("message") or error.get("description"),
        service=execution.get("workflowId"),
        scope="n8n",
        attributes={**attributes, **session_attributes(chat.get("sessionId"))},
    )


def _parent(trace: object, run: dict[str, Any]) -> str | None:
    """Return the id of the run that asked for a run of a node below it."""
    sources = [each for each in run.get("source") or () if each]
    if not sources:
        return None
    return f"{trace} {sources[0].get('previousNode')} {sources[0].get('previousNodeRun') or 0}"


def _call(name: str, told: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a call; a tool of a server is named beside its query."""
    result = answer.get("response", answer or None)
    return {
        semconv.GEN_AI_OPERATION_NAME: "execute_tool",
        semconv.GEN_AI_TOOL_NAME: mapping(told.get("tool")).get("name") or name,
        semconv.GEN_AI_TOOL_CALL_ID: told.get("toolCallId"),
        semconv.GEN_AI_TOOL_CALL_ARGUMENTS: text_of(told.get("query", told)) if told else None,
        semconv.GEN_AI_TOOL_CALL_RESULT: text_of(result),
    }


def _response(told: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a response, whose calls n8n leaves out."""
    usage = mapping(answer.get("tokenUsage")) or mapping(answer.get("tokenUsageEstimate"))
    options = mapping(told.get("options"))
    texts = [
        {"role": "assistant", "content": text}
        for choices in mapping(answer.get("response")).get("generations") or ()
        for choice in choices
        if (text := mapping(choice).get("text"))
    ]
    return {
        semconv.GEN_AI_OPERATION_NAME: "chat",
        semconv.GEN_AI_REQUEST_MODEL: options.get("model") or options.get("model_name"),
        semconv.GEN_AI_OUTPUT_MESSAGES: text_of(texts) if texts else None,
        semconv.GEN_AI_USAGE_INPUT_TOKENS: usage.get("promptTokens"),
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: usage.get("completionTokens"),
    }


def _step(name: str, kind: str, chat: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of an agent's run, or of a step of the workflow."""
    is_agent = kind.endswith(_AGENT_TYPES)
    return {
        "openinference.span.kind": "AGENT" if is_agent else "CHAIN",
        "agent.name": name if is_agent else None,
        "input.value": text_of(chat.get("chatInput")) if is_agent else None,
    }
