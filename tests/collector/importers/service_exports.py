"""The run as SDKs write it without OpenTelemetry, and as other services export it.

The fields are those of the sources that each importer names.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tests.collector.importers.exported_run import (
    AGENT,
    MODEL,
    SESSION,
    START,
    TRACE,
    Fields,
    Span,
    genai,
)

# A record is seen at once, with several of its fields in a line.
# fmt: off

_USAGE = {"input_tokens": 80, "output_tokens": 12}


def openai_agents(run: Sequence[Span]) -> Fields:
    """Return what `BackendSpanExporter` of the OpenAI Agents SDK posts."""
    trace: Fields = {"object": "trace", "id": f"trace_{TRACE}", "workflow_name": "orders"}
    return {"data": [{**trace, "group_id": SESSION}, *map(_agents_span, run)]}


def _agents_span(span: Span) -> Fields:
    data: Fields = {"type": "agent", "name": AGENT, "handoffs": [], "tools": ["run_tests"]}
    if span.kind == "model":
        data = {"type": "generation", "input": span.given, "output": [span.answer], "model": MODEL}
        data["usage"] = _USAGE
    elif span.kind == "tool":
        text = span.result or f"An error occurred while running the tool. Error: {span.error}"
        data = {"type": "function", "name": span.name, "input": json.dumps(span.arguments)}
        data["output"] = text
    error = {"message": "Error running tool", "data": {"error": span.error}}
    return {"object": "trace.span", "id": f"span_{span.id}", "trace_id": f"trace_{TRACE}",
        "parent_id": f"span_{span.parent}" if span.parent else None, "started_at": span.start,
        "ended_at": span.end, "span_data": data, "error": error if span.error else None}


def opik(run: Sequence[Span]) -> Fields:
    """Return a file of `opik export`."""
    types = {"agent": "general", "model": "llm", "tool": "tool"}
    failure = {"exception_type": "RuntimeError", "traceback": "Traceback"}
    spans = [{"id": span.uuid(), "trace_id": TRACE,
        "parent_span_id": span.uuid(1) if span.parent else None, "name": span.name,
        "type": types[span.kind], "start_time": span.start, "end_time": span.end,
        "input": {"messages": span.given} if span.given else span.arguments,
        "output": {"choices": [{"message": span.answer}]}
            if span.answer else {"output": span.result},
        "model": MODEL if span.answer else None,
        "usage": {"prompt_tokens": 80, "completion_tokens": 12} if span.answer else None,
        "error_info": {**failure, "message": span.error} if span.error else None} for span in run]
    trace = {"id": TRACE, "thread_id": SESSION}
    return {"trace": trace, "spans": spans, "project_name": "orders"}


def n8n(run: Sequence[Span]) -> Fields:
    """Return an execution as n8n's API has it, whose responses show no calls."""
    made: dict[str, list[Fields]] = {"Chat": [{"startTime": 1775548800000, "executionTime": 1,
        "source": [], "executionStatus": "success", "data": {"main": [[{"json":
            {"sessionId": SESSION, "action": "sendMessage", "chatInput": "Get A17 ready."}}]]}}]}
    for span in run:
        given: Fields = {"query": span.arguments}
        answer: Fields = {"response": span.result}
        connection = {"agent": "main", "model": "ai_languageModel", "tool": "ai_tool"}[span.kind]
        if span.kind == "model":
            given = {"messages": ["Human: Get A17 ready."], "options": {"model": MODEL}}
            text: Any = [[{"text": span.answer["content"] or "", "generationInfo": {}}]]
            usage = {"completionTokens": 12, "promptTokens": 80, "totalTokens": 92}
            answer = {"response": {"generations": text}, "tokenUsage": usage}
        start_ms = span.ns(span.start_s) // 1_000_000
        of_run: Fields = {"startTime": start_ms, "executionStatus": "success",
            "executionTime": round((span.end_s - span.start_s) * 1000),
            "source": [{"previousNode": AGENT if span.parent else "Chat"}]}
        if span.error:
            of_run |= {"executionStatus": "error", "error": {"message": span.error}}
        else:
            of_run["data"] = {connection: [[{"json": answer}]]}
        if span.parent:
            of_run["inputOverride"] = {connection: [[{"json": given}]]}
        name = MODEL if span.kind == "model" else span.name
        made.setdefault(name, []).append(of_run)
    nodes = [{"name": AGENT, "type": "@n8n/n8n-nodes-langchain.agent"}]
    return {"data": [{"id": "231", "finished": True, "mode": "webhook", "status": "success",
        "startedAt": run[0].start, "stoppedAt": run[-1].end, "workflowId": "orders",
        "data": {"resultData": {"runData": made}}, "workflowData": {"nodes": nodes}}],
        "nextCursor": None}


def flowise(run: Sequence[Span]) -> Fields:
    """Return an execution as Flowise's API has it: each node of an agent with its calls."""
    nodes: list[Fields] = []
    used: list[Fields] = []
    for span in run:
        if span.kind == "tool":
            used.append({"tool": span.name, "toolInput": span.arguments,
                "toolOutput": span.result} | ({"error": span.error} if span.error else {}))
        if span.kind == "model":
            times = {"start": span.ns(span.start_s) // 1_000_000}
            times |= {"end": times["start"] + 2000, "delta": 2000}
            output = {"content": span.answer["content"], "timeMetadata": times, "usedTools": used,
                "usageMetadata": {**_USAGE, "total_tokens": 92, "tool_call_tokens": 0}}
            data = {"id": "agentAgentflow_0", "name": "agentAgentflow", "output": output,
                "input": {"messages": span.given[:1]}, "state": {}}
            nodes.append({"nodeId": "agentAgentflow_0", "nodeLabel": AGENT, "data": data,
                "previousNodeIds": [], "status": "FINISHED"})
            used = []
    return {"data": [{"id": run[0].uuid(), "executionData": json.dumps(nodes),
        "state": "FINISHED", "agentflowId": "orders", "sessionId": SESSION,
        "createdDate": run[0].start}], "total": 1}


def datadog(run: Sequence[Span]) -> list[Fields]:
    """Return what the SDK of Datadog's LLM Observability sends."""
    return [{"_dd.stage": "raw", "event_type": "span", "spans": [*map(_datadog_span, run)]}]


def _datadog_span(span: Span) -> Fields:
    meta: Fields = {"span.kind": "llm" if span.kind == "model" else span.kind, "metadata": {}}
    if span.kind == "model":
        meta |= {"model_name": MODEL, "input": {"messages": span.given}}
        meta["output"] = {"messages": [span.answer]}
    else:
        meta["input"] = {"value": json.dumps(span.arguments)}
        meta |= {"error.message": span.error} if span.error else {"output": {"value": span.result}}
    return {"span_id": str(span.number), "trace_id": TRACE,
        "parent_id": "1" if span.parent else "undefined", "name": span.name,
        "start_ns": span.ns(span.start_s), "duration": span.ns(span.end_s) - span.ns(span.start_s),
        "status": "error" if span.error else "ok", "meta": meta,
        "metrics": _USAGE if span.kind == "model" else {}, "session_id": SESSION}


def clickhouse(run: Sequence[Span]) -> Iterator[Fields]:
    """Yield rows of `SELECT * FROM otel_traces FORMAT JSONEachRow`."""
    for span in run:
        told = genai(span).items()
        yield {"Timestamp": span.start.replace("T", " ").removesuffix("Z"), "TraceId": TRACE,
            "SpanId": span.id, "ParentSpanId": span.parent or "", "SpanName": span.name,
            "ServiceName": "orders", "ResourceAttributes": {"service.name": "orders"},
            "ScopeName": "packer",
            "SpanAttributes": {k: v if isinstance(v, str) else json.dumps(v) for k, v in told},
            "Duration": str(span.ns(span.end_s) - span.ns(span.start_s)),
            "StatusCode": "Error" if span.error else "Unset", "StatusMessage": span.error,
            "Events.Timestamp": [span.end] if span.error else [],
            "Events.Name": ["exception"] if span.error else [],
            "Events.Attributes": [{"exception.message": span.error}] if span.error else []}


def posthog(run: Sequence[Span]) -> Fields:
    """Return events of PostHog's API, with one of another product."""
    events = {"agent": "$ai_trace", "model": "$ai_generation", "tool": "$ai_span"}
    other: Fields = {"event": "$pageview", "properties": {}, "timestamp": run[0].start}
    made = [{"event": events[span.kind], "timestamp": span.end,
        "properties": {"$ai_trace_id": TRACE, "$ai_span_id": span.id, "$ai_parent_id": span.parent,
            "$ai_span_name": span.name, "$ai_session_id": SESSION,
            "$ai_latency": span.end_s - span.start_s, **_ai_content(span)}} for span in run]
    return {"results": [*made, other], "next": None}


def _ai_content(span: Span) -> Fields:
    if span.kind == "model":
        tokens = {"$ai_input_tokens": 80, "$ai_output_tokens": 12}
        return {"$ai_input": span.given, "$ai_output_choices": [span.answer], **tokens}
    if span.kind == "agent":
        return {}
    ended = {"$ai_is_error": True, "$ai_error": span.error}
    done = {"$ai_output_state": span.result}
    return {"$ai_input_state": span.arguments, **(ended if span.error else done)}


def posthog_langgraph(run: Sequence[Span]) -> Fields:
    """Return the same of LangGraph, whose nodes are given the calls."""
    events = posthog(run)
    for each in events["results"]:
        told = each["properties"]
        if each["event"] == "$ai_trace":
            call = {"name": "check_labels", "args": {}, "id": "c", "type": "tool_call"}
            told |= {"$ai_input_state": [call], "$ai_output_state": [call]}
    return events


def _messages(run: Sequence[Span]) -> list[Fields]:
    """Return the conversation as OpenAI has it, to the last answer."""
    last = max((span for span in run if span.kind == "model"), key=lambda span: span.end_s)
    return [*last.given, last.answer]


def chat(run: Sequence[Span]) -> Fields:
    """Return a request of chat completions, with the answer."""
    return {"model": MODEL, "messages": _messages(run)}


def chat_lines(run: Sequence[Span]) -> list[Fields]:
    """Return its messages, a line each."""
    return _messages(run)


def chat_functions(run: Sequence[Span]) -> list[Fields]:
    """Return messages with functions, which had no ids."""
    made: list[Fields] = []
    for message in _messages(run):
        if "tool_calls" in message and len(message["tool_calls"]) == 1:
            asked = message["tool_calls"][0]["function"]
            made.append({"role": "assistant", "content": None, "function_call": asked})
        elif message["role"] == "tool":
            made.append({"role": "function", "name": "x", "content": message["content"]})
        else:
            made.append(message)
    return made


def tau_bench(run: Sequence[Span]) -> list[Fields]:
    """Return results of tau-bench."""
    return [{"task_id": 4, "reward": 0.0, "info": {}, "traj": _messages(run), "trial": 0}]


def responses(run: Sequence[Span]) -> list[Fields]:
    """Return the items of a conversation of OpenAI's responses."""
    made: list[Fields] = []
    for message in _messages(run):
        if message["role"] == "tool":
            text, asked = message["content"], message["tool_call_id"]
            made.append({"type": "function_call_output", "call_id": asked, "output": text})
            continue
        if message.get("content"):
            made.append({"type": "message", "role": message["role"], "content": message["content"]})
        for call in message.get("tool_calls", ()):
            made += [{"type": "reasoning", "id": "rs_1", "summary": []},
                {"type": "function_call", "call_id": call["id"], **call["function"]}]
    return made


def cline(run: Sequence[Span]) -> list[Fields]:
    """Return `api_conversation_history.json` of Cline, in Anthropic's form."""
    made: list[Fields] = []
    for number, message in enumerate(_messages(run)):
        if message["role"] == "tool":
            text, asked = message["content"], message["tool_call_id"]
            result = {"type": "tool_result", "tool_use_id": asked, "content": text}
            parts = [{**result, "is_error": text.startswith("Error")}]
        else:
            parts = [{"type": "text", "text": message["content"]}] if message["content"] else []
            parts += [_tool_use(call) for call in message.get("tool_calls", ())]
        role = "assistant" if message["role"] == "assistant" else "user"
        more = {"modelInfo": {"modelId": MODEL}, "metrics": {"tokens": _TOKENS}}
        at = {"ts": round(START.timestamp() * 1000) + number * 1000}
        made.append({"role": role, "content": parts, **at, **(more if role != "user" else {})})
    return made


_TOKENS = {"prompt": 80, "completion": 12, "cached": 40}


def _tool_use(call: Fields) -> Fields:
    function = call["function"]
    given = {"name": function["name"], "input": json.loads(function["arguments"])}
    return {"type": "tool_use", "id": call["id"], **given}


def gemini_contents(run: Sequence[Span]) -> list[Fields]:
    """Return the contents of a request to Gemini, whose calls have no ids."""
    made: list[Fields] = []
    for message in _messages(run):
        if message["role"] == "tool":
            part = {"name": "x", "response": {"result": message["content"]}}
            made.append({"role": "user", "parts": [{"functionResponse": part}]})
            continue
        parts: list[Fields] = [{"text": message["content"]}] if message["content"] else []
        for call in message.get("tool_calls", ()):
            function = call["function"]
            asked = {"name": function["name"], "args": json.loads(function["arguments"])}
            parts.append({"functionCall": asked})
        role = "model" if message["role"] == "assistant" else message["role"]
        made.append({"role": role, "parts": parts})
    return made


def goose(run: Sequence[Span]) -> list[Fields]:
    """Return the messages of a session of Goose."""
    made: list[Fields] = []
    for number, message in enumerate(_messages(run)):
        parts: list[Fields] = []
        if message["role"] == "tool":
            text = message["content"]
            told: Fields = {"status": "success", "value": [{"type": "text", "text": text}]}
            told = {"status": "error", "error": text} if text.startswith("Error") else told
            asked = message["tool_call_id"]
            parts = [{"type": "toolResponse", "id": asked, "toolResult": told}]
        elif message["content"]:
            parts = [{"type": "text", "text": message["content"]}]
        for call in message.get("tool_calls", ()):
            used = _tool_use(call)
            value = {"name": used["name"], "arguments": used["input"]}
            asked = {"status": "success", "value": value}
            parts.append({"type": "toolRequest", "id": call["id"], "toolCall": asked})
        role = "assistant" if message["role"] == "assistant" else "user"
        made.append({"role": role, "created": START.timestamp() + number, "content": parts})
    return made


def inspect_log(run: Sequence[Span]) -> Fields:
    """Return a log of an evaluation with Inspect."""
    made: list[Fields] = []
    events: list[Fields] = []
    for number, message in enumerate(_messages(run)):
        message["id"] = f"m{number}"
        if message["role"] == "assistant":
            usage = {"input_tokens": 40, "input_tokens_cache_read": 40, "output_tokens": 12}
            output = {"choices": [{"message": {"id": message["id"]}}], "usage": usage}
            events.append({"event": "model", "output": output})
        calls = [_inspect_call(call) for call in message.get("tool_calls", ())]
        failed = message["role"] == "tool" and message["content"].startswith("Error")
        error = {"error": {"type": "unknown", "message": message["content"]}} if failed else {}
        made.append({**message, **error, **({"tool_calls": calls} if calls else {})})
    sample = {"id": 1, "epoch": 1, "input": "x", "target": "x", "messages": made, "events": events}
    return {"version": 2, "eval": {"task": "orders", "model": MODEL}, "samples": [sample]}


def _inspect_call(call: Fields) -> Fields:
    used = _tool_use(call)
    return {"id": call["id"], "function": used["name"], "arguments": used["input"]}


def opencode(run: Sequence[Span]) -> Fields:
    """Return what `opencode export` prints."""
    tools = {span.call_id: span for span in run if span.kind == "tool"}
    cache = {"read": 40, "write": 0}
    user = {"id": "m0", "role": "user", "time": {"created": START.timestamp() * 1000}}
    made: list[Fields] = [{"info": user, "parts": [{"type": "text", "text": "Get it ready."}]}]
    for span in run:
        if span.kind != "model":
            continue
        text = span.answer["content"]
        parts: list[Fields] = [{"type": "text", "text": text}] if text else []
        asked = [call["id"] for call in span.answer.get("tool_calls", ())]
        parts += [_opencode_part(tools[call_id]) for call_id in asked]
        tokens = {"input": 40, "output": 12, "reasoning": 0, "cache": cache}
        times = {"created": (START.timestamp() + span.start_s) * 1000}
        info = {"id": f"m{span.number}", "role": "assistant", "modelID": MODEL, "time": times}
        made.append({"info": {**info, "tokens": tokens}, "parts": parts})
    return {"info": {"id": SESSION}, "messages": made}


def opencode_stream(run: Sequence[Span]) -> list[Fields]:
    """Return what `opencode run --format json` prints: parts, and whether commands failed."""
    lines = list[Fields]()
    for message in opencode(run)["messages"][1:]:
        info = message["info"]
        about = {"timestamp": info["time"]["created"], "sessionID": SESSION}
        ended = {"type": "step-finish", "tokens": info["tokens"], "reason": "stop"}
        for part in [{"type": "step-start"}, *message["parts"], ended]:
            kind = {"tool": "tool_use"}.get(part["type"], part["type"].replace("-", "_"))
            shown = {**part, **_opencode_state(part), "messageID": info["id"]}
            lines.append({"type": kind, **about, "part": shown})
    return lines


def _opencode_state(part: Fields) -> Fields:
    """Return the state of a call as one of the shell, where that of a command that failed is."""
    state = dict(part.get("state", {}))
    error = state.pop("error", None)
    if error is None:
        return {}
    shown = {"output": error, "exit": 1, "truncated": False}
    return {"state": {**state, "status": "completed", "output": error, "metadata": shown}}


def _opencode_part(tool: Span) -> Fields:
    ended = {"status": "error", "error": tool.error}
    done = {"status": "completed", "output": tool.result}
    times = {"end": (START.timestamp() + tool.end_s) * 1000}
    state = {"input": tool.arguments, "time": times, **(ended if tool.error else done)}
    return {"type": "tool", "callID": tool.call_id, "tool": tool.name, "state": state}
