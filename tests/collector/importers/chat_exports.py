"""The run as workflows and chats of programs have it.

The fields are those of the sources that `rows/forms.toml` and each importer name.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any

from tests.collector.importers.exported_run import (
    AGENT,
    MODEL,
    SESSION,
    START,
    Fields,
    Span,
    anthropic_messages,
    models_of,
)

# A record is seen at once, with several of its fields in a line.
# fmt: off


def _pl(v: Any) -> Any:
    return {"payloads": [{"metadata": {"encoding": "anNvbi9wbGFpbg=="},
        "data": base64.b64encode(json.dumps(v).encode()).decode()}]}


def _temporal(run: Sequence[Span], model: Any = True) -> Any:
    ev: list[Fields] = []

    def add(kind: Any, at: Any, **a: Any) -> Any:
        t = "EVENT_TYPE_" + kind
        key = "".join(w.capitalize() for w in kind.split("_"))
        key = key[0].lower() + key[1:] + "EventAttributes"
        ev.append(
            {"eventId": str(len(ev) + 1), "eventTime": at, "eventType": t, "taskId": "1", key: a})
        return len(ev)

    add("WORKFLOW_EXECUTION_STARTED", run[-1].start, workflowType={"name": "PackerWorkflow"},
        input=_pl("Get order A17 ready."), originalExecutionRunId="0197c192-e1ea",
        workflowId=f"wf-{SESSION}", attempt=1)
    for s in run[:-1]:
        if s.kind == "model" and (not model):
            continue
        add("WORKFLOW_TASK_SCHEDULED", s.start, attempt=1)
        name = "invoke_model_activity" if s.kind == "model" else s.name
        given = ({"model_name": MODEL, "system_instructions": "x",
            "input": [dict(m.items()) for m in s.given], "tools": []}
            if s.kind == "model" else s.arguments)
        n = add("ACTIVITY_TASK_SCHEDULED", s.start, activityId=str(s.number),
            activityType={"name": name}, input=_pl(given), workflowTaskCompletedEventId="4")
        m = add("ACTIVITY_TASK_STARTED", s.start, scheduledEventId=str(n), attempt=1, requestId="r")
        if s.error:
            add("ACTIVITY_TASK_FAILED", s.end, scheduledEventId=str(n), startedEventId=str(m),
                failure={"message": s.error, "source": "PythonSDK", "stackTrace": "  File x",
                    "applicationFailureInfo": {"type": "RuntimeError"}},
                retryState="RETRY_STATE_NON_RETRYABLE_FAILURE")
        else:
            res = (
                {
                    "output": [
                        {
                            "id": "f",
                            "type": "function_call",
                            "call_id": c["id"],
                            "name": c["function"]["name"],
                            "arguments": c["function"]["arguments"],
                        }
                        for c in s.answer.get("tool_calls", ())
                    ]
                    or [
                        {
                            "type": "message",
                            "role": "assistant",
                            "content": [{"type": "output_text", "text": s.answer.get("content")}],
                        }
                    ],
                    "usage": {"requests": 1, "input_tokens": 80, "output_tokens": 12},
                    "response_id": "r",
                }
                if s.kind == "model"
                else s.result
            )
            add("ACTIVITY_TASK_COMPLETED", s.end, scheduledEventId=str(n), startedEventId=str(m),
                result=_pl(res))
    add("WORKFLOW_EXECUTION_COMPLETED", run[-1].end, result=_pl("done"))
    return {"events": ev}


def temporal(run: Sequence[Span]) -> Any:
    """Return a history of Temporal."""
    return _temporal(run)


def temporal_no_models(run: Sequence[Span]) -> Any:
    """Return the same without requests to models."""
    return _temporal(run, False)


def temporal_old(run: Sequence[Span]) -> Any:
    """Return the same as older versions write it."""
    d = _temporal(run)
    for e in d["events"]:
        e["eventType"] = "".join(
            w.capitalize() for w in e["eventType"].removeprefix("EVENT_TYPE_").split("_")
        )
        e["eventId"] = int(e["eventId"])
    return d


def cursor_stream(run: Sequence[Span]) -> Any:
    """Return a stream of Cursor's command line."""
    out = [{"type": "system", "subtype": "init", "apiKeySource": "login", "cwd": "/w",
        "session_id": SESSION, "model": "Claude 4 Sonnet", "permissionMode": "default"},
        {"type": "user",
            "message": {"role": "user",
                "content": [{"type": "text", "text": "Get order A17 ready."}]},
            "session_id": SESSION}]
    for s in run[:-1]:
        if s.kind == "model":
            if s.answer.get("content"):
                out.append({"type": "assistant",
                    "message": {"role": "assistant",
                        "content": [{"type": "text", "text": s.answer["content"]}]},
                    "session_id": SESSION, "timestamp_ms": s.ns(s.end_s) // 10**6})
        else:
            call = {f"{s.name}ToolCall": {"args": s.arguments}}
            out.append({"type": "tool_call", "subtype": "started", "call_id": s.call_id,
                "tool_call": call, "model_call_id": "m", "session_id": SESSION,
                "timestamp_ms": s.ns(s.start_s) // 10**6})
            res = ({"error": {"errorMessage": s.error}}
                if s.error else {"success": {"content": s.result}})
            out.append({"type": "tool_call", "subtype": "completed", "call_id": s.call_id,
                "tool_call": {f"{s.name}ToolCall": {"args": s.arguments, "result": res}},
                "model_call_id": "m", "session_id": SESSION,
                "timestamp_ms": s.ns(s.end_s) // 10**6})
    out.append({"type": "result", "subtype": "success", "duration_ms": 9000,
        "duration_api_ms": 9000, "is_error": False, "result": "done", "session_id": SESSION,
        "usage": {"inputTokens": 100, "outputTokens": 20, "cacheReadTokens": 0,
            "cacheWriteTokens": 0}})
    return ("LINES", out)


def cursor_transcript(run: Sequence[Span]) -> Any:
    """Return a transcript of Cursor."""
    ms = anthropic_messages([*models_of(run)[-1].given, models_of(run)[-1].answer])
    return (
        "LINES",
        [
            {
                "role": m["role"],
                "message": {
                    "content": m["content"]
                    if isinstance(m["content"], list)
                    else [{"type": "text", "text": m["content"]}]
                },
            }
            for m in ms
        ],
    )


def amp_thread(run: Sequence[Span]) -> Any:
    """Return a thread of Amp."""
    ms = anthropic_messages([*models_of(run)[-1].given, models_of(run)[-1].answer])
    out = []
    for i, m in enumerate(ms):
        c = (m["content"]
            if isinstance(m["content"], list) else [{"type": "text", "text": m["content"]}])
        c = [{"type": "tool_result", "toolUseID": p["tool_use_id"],
            "run": {"status": "error", "error": {"message": p["content"]}}
                if p.get("is_error") else {"status": "done", "result": p["content"]}}
            if p["type"] == "tool_result" else p for p in c]
        out.append({"role": m["role"], "messageId": i, "content": c,
            **({"usage": {"model": "claude-sonnet-4-5", "inputTokens": 80, "outputTokens": 12},
                "state": {"type": "complete", "stopReason": "tool_use"}}
                if m["role"] == "assistant" else {"meta": {"sentAt": run[0].ns(i) // 10**6}})})
    return {"v": 12, "id": "T-019b9d03-62e3-772f-9780-3e637f90eaec", "title": "t",
        "agentMode": "smart", "created": 1767865803494, "messages": out, "env": {"initial": {}}}


def kiro_cli(run: Sequence[Span]) -> Any:
    """Return a conversation that Kiro saves."""
    hist: list[Fields] = []
    pend: Fields = {"Prompt": {"prompt": "Get order A17 ready."}}
    ms = models_of(run)
    for s in ms:
        calls = [{"id": c["id"], "name": c["function"]["name"], "orig_name": c["function"]["name"],
            "args": json.loads(c["function"]["arguments"]),
            "orig_args": {}} for c in s.answer.get("tool_calls", ())]
        a = ({"ToolUse": {"message_id": "m", "content": s.answer.get("content") or "",
            "tool_uses": calls}}
            if calls else {"Response": {"message_id": "m", "content": s.answer["content"]}})
        hist.append({"user": {"additional_context": "", "env_context": {"env_state": {}},
            "content": pend, "timestamp": s.start, "images": None},
            "assistant": a,
            "request_metadata": {"request_id": "r", "message_id": "m",
                "request_start_timestamp_ms": s.ns(s.start_s) // 10**6,
                "stream_end_timestamp_ms": s.ns(s.end_s) // 10**6, "model_id": "claude-sonnet-4"}})
        res = []
        for c in calls:
            t = next(t for t in run if t.call_id == c["id"])
            res.append({"tool_use_id": c["id"], "content": [{"Text": t.result or t.error}],
                "status": "Error" if t.error else "Success"})
        pend = {"ToolUseResults": {"tool_use_results": res}}
    return {"conversation_id": SESSION, "next_message": None, "history": hist,
        "valid_history_range": [0, len(hist)], "transcript": ["> x"], "tools": {},
        "context_manager": None, "latest_summary": None, "model": "m"}


def sharegpt(run: Sequence[Span]) -> Any:
    """Return data for training in the form of ShareGPT."""
    out = []
    last = models_of(run)[-1]
    for m in [*last.given, last.answer]:
        if m["role"] == "user":
            out.append({"from": "human", "value": m["content"]})
        elif m["role"] == "tool":
            out.append({"from": "observation", "value": m["content"]})
        elif m.get("tool_calls"):
            out.append(
                {
                    "from": "function_call",
                    "value": json.dumps(
                        [
                            {
                                "name": c["function"]["name"],
                                "arguments": json.loads(c["function"]["arguments"]),
                            }
                            for c in m["tool_calls"]
                        ]
                        if len(m["tool_calls"]) > 1
                        else {
                            "name": m["tool_calls"][0]["function"]["name"],
                            "arguments": json.loads(m["tool_calls"][0]["function"]["arguments"]),
                        }
                    ),
                }
            )
        else:
            out.append({"from": "gpt", "value": m["content"]})
    return [{"conversations": out, "system": "s", "tools": "[]"}]


def hermes(run: Sequence[Span]) -> Any:
    """Return data for training with calls in tags."""
    turns: list[Fields] = [{"from": "system", "value": "You are a function calling AI model."}]
    last = models_of(run)[-1]
    for message in [*last.given, last.answer]:
        text = message["content"] or ""
        if message["role"] == "tool":
            text = _tagged("tool_response", {"name": "x", "content": text})
        for call in message.get("tool_calls", ()):
            told = call["function"]
            held = {"arguments": json.loads(told["arguments"]), "name": told["name"]}
            text += _tagged("tool_call", held)
        sender = {"user": "human", "assistant": "gpt", "tool": "tool"}[message["role"]]
        turns.append({"from": sender, "value": text})
    return [{"id": "1", "conversations": turns, "category": "c"}]


def _tagged(tag: str, held: Fields) -> str:
    return f"<{tag}>\n{json.dumps(held)}\n</{tag}>\n"


def _ai(messages: list[Fields]) -> Any:
    out = []
    names: dict[str, str] = {}
    for m in messages:
        if m["role"] == "user":
            out.append({"role": "user", "content": m["content"]})
        elif m["role"] == "tool":
            e = m["content"].startswith("Error")
            out.append({"role": "tool",
                "content": [{"type": "tool-result", "toolCallId": m["tool_call_id"],
                    "toolName": names[m["tool_call_id"]],
                    "output": {"type": "error-text" if e else "text", "value": m["content"]}}]})
        else:
            for c in m.get("tool_calls", ()):
                names[c["id"]] = c["function"]["name"]
            out.append(
                {
                    "role": "assistant",
                    "content": (
                        [{"type": "text", "text": m["content"]}] if m.get("content") else []
                    )
                    + [
                        {
                            "type": "tool-call",
                            "toolCallId": c["id"],
                            "toolName": c["function"]["name"],
                            "input": json.loads(c["function"]["arguments"]),
                        }
                        for c in m.get("tool_calls", ())
                    ],
                }
            )
    return out


def convex(run: Sequence[Span]) -> Any:
    """Return rows of Convex's agents."""
    last = models_of(run)[-1]
    return ("LINES",
        [{"_id": f"k{i}", "_creationTime": run[0].ns(i) / 1000000.0, "threadId": "m57thread",
            "order": 0, "stepOrder": i, "status": "success", "agentName": AGENT, "model": MODEL,
            "provider": "openai", "message": m, "tool": m["role"] == "tool",
            "usage": {"promptTokens": 80, "completionTokens": 12, "totalTokens": 92}
                if m["role"] == "assistant" else None,
            "finishReason": "tool-calls"} for i, m in enumerate(_ai([*last.given, last.answer]))])


def chatgpt(run: Sequence[Span]) -> Any:
    """Return the conversations that ChatGPT exports; an answer that was made anew is no part."""
    last, told = models_of(run)[-1], list[Fields]()
    for m in [*last.given, last.answer]:
        text = {"content_type": "text", "parts": [m["content"] or ""]}
        said = {"author": {"role": m["role"], "name": None}, "content": text, "recipient": "all"}
        if not m.get("tool_calls"):
            told.append(said)
        for c in m.get("tool_calls", ()):
            result = next(t for t in last.given if t.get("tool_call_id") == c["id"])
            code = {"content_type": "code", "text": c["function"]["arguments"]}
            told.append({**said, "recipient": c["function"]["name"], "content": code})
            output = {"content_type": "execution_output", "text": result["content"]}
            author = {"role": "tool", "name": c["function"]["name"]}
            told.append({**said, "author": author, "content": output})
    told = [t for t in told if t["author"] != {"role": "tool", "name": None}]
    nodes: Fields = {"0": {"id": "0", "message": None, "parent": None, "children": ["1", "other"]}}
    nodes["other"] = {**nodes["0"], "id": "other", "message": told[0], "parent": "0"}
    for i, t in enumerate(told, 1):
        message = {**t, "id": str(i), "create_time": run[0].ns(i) / 1e9}
        nodes[str(i)] = {"id": str(i), "message": message, "parent": str(i - 1), "children": []}
    whole = {"title": "A17", "mapping": nodes, "current_node": str(len(told))}
    return [{**whole, "conversation_id": SESSION, "create_time": run[0].ns(0) / 1e9}]


def claude_ai(run: Sequence[Span]) -> Any:
    """Return the conversations that Claude exports, all of a turn in one message."""
    last = models_of(run)[-1]
    first, *rest = anthropic_messages([*last.given, last.answer])
    parts = [
        part
        for m in rest
        for part in (
            m["content"]
            if isinstance(m["content"], list)
            else [{"type": "text", "text": m["content"]}]
        )
    ]
    asked = {"uuid": "m1", "sender": "human", "text": first["content"], "created_at": run[0].start}
    budget = {"type": "token_budget", "budget": 9000}
    said = {"uuid": "m2", "sender": "assistant", "text": "", "content": [*parts, budget]}
    return [{"uuid": SESSION, "name": "A17", "chat_messages": [asked, said]}]


def kimi_context(run: Sequence[Span]) -> Any:
    """Return the lines of a context of Kimi's command line."""
    last = models_of(run)[-1]
    lines: list[Fields] = [{"role": "_system_prompt", "content": "You pack orders."}]
    for i, m in enumerate([*last.given, last.answer]):
        text = [{"type": "text", "text": m["content"] or ""}]
        lines += [{"role": "_checkpoint", "id": i}, {**m, "content": text}]
        if m["role"] == "assistant":
            lines.append({"role": "_usage", "token_count": 92})
    return ("LINES", lines)


def kimi_wire(run: Sequence[Span]) -> Any:
    """Return the lines of `wire.jsonl` of a session of Kimi's command line, pieces and all."""
    at = START.timestamp()
    told: list[tuple[float, str, Fields]] = [(0, "TurnBegin", {"user_input": "Get A17 ready."})]
    for span in run:
        if span.kind == "model":
            told.append((span.start_s, "StepBegin", {"n": span.number}))
            text = span.answer["content"] or ""
            pieces = ({"type": "text", "text": piece} for piece in (text[:3], text[3:]))
            told += [(span.end_s, "ContentPart", piece) for piece in pieces]
            for call in span.answer.get("tool_calls", ()):
                asked = call["function"]
                first = {**call, "function": {**asked, "arguments": asked["arguments"][:4]}}
                rest = {"arguments_part": asked["arguments"][4:]}
                told += [(span.end_s, "ToolCall", first), (span.end_s, "ToolCallPart", rest)]
            used = {"input_other": 60, "input_cache_read": 20, "output": 12}
            told.append((span.end_s, "StatusUpdate", {"token_usage": used}))
        elif span.kind == "tool":
            value = {"is_error": bool(span.error), "output": span.result, "message": span.error}
            result = {"tool_call_id": span.call_id, "return_value": value}
            told.append((span.end_s, "ToolResult", result))
    lines: list[Fields] = [{"type": "metadata", "protocol_version": "1.9"}]
    for s, kind, data in [*told, (told[-1][0], "TurnEnd", {})]:
        lines.append({"timestamp": at + s, "message": {"type": kind, "payload": data}})
    return ("LINES", lines)


def kimi_code_wire(run: Sequence[Span]) -> Any:
    """Return the lines of `wire.jsonl` of an agent of Kimi Code."""
    at = START.timestamp()
    said = [_text_part("Get A17 ready.")]
    lines: list[Fields] = [{"type": "metadata", "protocol_version": "1.5", "created_at": 1}]
    lines.append({"type": "turn.prompt", "input": said, "time": round(at * 1000)})
    for span in run:
        events: list[Fields] = []
        if span.kind == "model":
            used = {"inputOther": 60, "inputCacheRead": 20, "output": 12}
            events = [{"type": "step.begin", "turnId": "0", "step": span.number}]
            part = _text_part(span.answer["content"] or "")
            events.append({"type": "content.part", "part": part})
            for call in span.answer.get("tool_calls", ()):
                asked = {"toolCallId": call["id"], "name": call["function"]["name"]}
                args = json.loads(call["function"]["arguments"])
                events.append({"type": "tool.call", **asked, "args": args})
            events.append({"type": "step.end", "usage": used})
        elif span.kind == "tool":
            result = {"output": span.error or span.result, "isError": bool(span.error)}
            told = {"type": "tool.result", "toolCallId": span.call_id, "result": result}
            events = [told]
        for event in events:
            at_ms = round((at + span.end_s) * 1000)
            line = {"type": "context.append_loop_event", "event": event, "time": at_ms}
            lines.append(line)
    return ("LINES", lines)


def cline_tagged(run: Sequence[Span]) -> Any:
    """Return a conversation of Cline with a model that has no calls of its own."""
    messages: list[Fields] = [{"role": "user", "content": [_text_part("<task>Get A17 ready")]}]
    tools = {span.call_id: span for span in run if span.kind == "tool"}
    for model in models_of(run):
        said, results = model.answer["content"] or "", []
        for call in model.answer.get("tool_calls", ()):
            tool = tools[call["id"]]
            given = {"server_name": "shop", "tool_name": tool.name}
            given["arguments"] = json.dumps(tool.arguments)
            fields = "".join(f"<{key}>{value}</{key}>\n" for key, value in given.items())
            said += f"\n\n<use_mcp_tool>\n{fields}</use_mcp_tool>"
            error = f"The tool execution failed with the following error:\n{tool.error}"
            results.append(_text_part("[use_mcp_tool for 'shop'] Result:"))
            results.append(_text_part(error if tool.error else tool.result))
            results.append(_text_part(f"<environment_details>{tool.end}</environment_details>"))
        messages.append({"role": "assistant", "content": [_text_part(said)]})
        if results:
            messages.append({"role": "user", "content": results})
    return messages


def _text_part(text: str) -> Fields:
    return {"type": "text", "text": text}


def _langchain(run: Sequence[Span]) -> list[Fields]:
    made: list[Fields] = [{"type": "human", "content": "Get order A17 ready.", "id": "h"}]
    for span in run:
        if span.kind == "model":
            made.append({"type": "ai", "content": span.answer["content"] or "", "tool_calls": [
                {"name": c["function"]["name"], "id": c["id"], "type": "tool_call",
                    "args": json.loads(c["function"]["arguments"])}
                for c in span.answer.get("tool_calls", ())],
                "usage_metadata": {"input_tokens": 80, "output_tokens": 12, "total_tokens": 92}})
        if span.kind == "tool":
            made.append({"type": "tool", "content": span.result or f"Error: {span.error}",
                "tool_call_id": span.call_id, "status": "error" if span.error else "success"})
    return made


def langchain(run: Sequence[Span]) -> Any:
    """Return messages of LangChain as its constructors."""
    names = {"human": "HumanMessage", "ai": "AIMessageChunk", "tool": "ToolMessage"}
    return {"messages": [{"lc": 1, "type": "constructor", "kwargs": message,
        "id": ["langchain", "schema", "messages", names[message["type"]]]}
        for message in _langchain(run)]}


def langgraph(run: Sequence[Span]) -> Any:
    """Return the states of a thread of LangGraph, the last one first."""
    messages = _langchain(run)
    return [{"values": {"messages": messages[:count]}, "next": [], "tasks": [],
        "metadata": {"step": count}, "checkpoint": {"thread_id": SESSION}}
        for count in range(len(messages), 0, -1)]


def ai_sdk_page(run: Sequence[Span]) -> Any:
    """Return messages of the AI SDK for a page: the steps of the run are one message."""
    parts: list[Fields] = []
    for span in run:
        if span.kind == "model":
            parts += [{"type": "step-start"}, {"type": "text", "text": span.answer["content"]}]
        if span.kind == "tool":
            told = {"state": "output-available", "output": span.result}
            if span.error:
                told = {"state": "output-error", "errorText": span.error}
            parts.append({"type": f"tool-{span.name}", "toolCallId": span.call_id,
                "input": span.arguments, **told})
    asked = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "Get A17 ready."}]}
    return {"id": "chat", "messages": [asked, {"id": "a", "role": "assistant", "parts": parts}]}
