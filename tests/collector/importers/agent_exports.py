"""The run in the form of each agent's own file, by what the agents document or write."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tests.collector.importers.exported_run import MODEL, SESSION, Fields, Span

# A record is seen at once, with several of its fields in a line.
# fmt: off

# Agents ----------------------------------------------------------------------------------------


def _steps(run: Sequence[Span]) -> Iterator[tuple[Span, Span | None]]:
    tools = {span.call_id: span for span in run if span.kind == "tool"}
    for span in run:
        if span.kind == "model":
            calls = span.answer.get("tool_calls", ())
            yield span, tools[calls[0]["id"]] if calls else None


def _command(tool: Span) -> str:
    return " ".join([tool.name, *map(str, tool.arguments.values())])


def swe_agent(run: Sequence[Span]) -> Fields:
    """Return a `.traj` of SWE-agent."""
    return {"environment": "depot",
        "trajectory": [{"thought": model.answer["content"], "response": model.answer["content"],
            "action": _command(tool) if tool else "",
            "observation": (tool.result or f"Error: {tool.error}") if tool else "",
            "execution_time": 0.25, "state": {}} for model, tool in _steps(run)],
        "history": [], "info": {"exit_status": "submitted"}}


def claude_hooks(run: Sequence[Span]) -> list[Fields]:
    """Return the inputs that hooks of Claude Code log."""
    every = {"session_id": SESSION, "transcript_path": "t.jsonl", "cwd": "/depot"}
    lines: list[Fields] = [{**every, "hook_event_name": "UserPromptSubmit", "prompt": "Go."}]
    for tool in (span for span in run if span.kind == "tool"):
        call = {**every, "tool_name": tool.name, "tool_input": tool.arguments}
        call |= {"tool_use_id": tool.call_id}
        told = {"hook_event_name": "PostToolUse", "tool_response": tool.result}
        if tool.error:
            told = {"hook_event_name": "PostToolUseFailure", "error": tool.error}
        lines += [{**call, "hook_event_name": "PreToolUse"}, {**call, **told}]
    return lines


def cursor_hooks(run: Sequence[Span]) -> list[Fields]:
    """Return the inputs that hooks of Cursor log, where calls of servers are told of twice."""
    every = {"conversation_id": SESSION, "generation_id": "g", "workspace_roots": ["/depot"],
        "cursor_version": "2.0.77"}
    lines: list[Fields] = [{**every, "hook_event_name": "beforeSubmitPrompt", "prompt": "Go."}]
    for span in run:
        if span.kind == "model":
            lines.append({**every, "hook_event_name": "afterAgentResponse", "model": MODEL,
                "text": span.answer["content"]})
        if span.kind == "tool":
            call = {**every, "tool_name": span.name, "timestamp": span.end, "duration": 900}
            text = span.result or f"Error: {span.error}"
            lines.append({**call, "hook_event_name": "afterMCPExecution", "result_json": text,
                "tool_input": json.dumps(span.arguments)})
            told = {"hook_event_name": "postToolUse", "tool_output": text}
            if span.error:
                told = {"hook_event_name": "postToolUseFailure", "error_message": span.error}
            lines.append({**call, **told, "tool_input": span.arguments})
    return lines


def mini_swe_agent(run: Sequence[Span]) -> Fields:
    """Return a `.traj.json` of mini-swe-agent."""
    messages: list[Fields] = [{"role": "user", "content": "Get order A17 ready."}]
    for model, tool in _steps(run):
        text = model.answer["content"]
        if tool:
            text += f"\n\n```bash\n{_command(tool)}\n```"
        messages.append({"role": "assistant", "content": text})
        if tool:
            code, output = (1, f"Error: {tool.error}") if tool.error else (0, tool.result)
            said = f"<returncode>{code}</returncode>\n<output>\n{output}\n</output>"
            messages.append({"role": "user", "content": said})
    info = {"config": {"model": {"model_name": MODEL}}}
    return {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1"}


def openhands(run: Sequence[Span]) -> list[Fields]:
    """Return the events of a session before version 1."""
    events: list[Fields] = [
        {
            "id": 0, "timestamp": run[0].start, "source": "user", "action": "message",
            "args": {"content": "Get order A17 ready."}, "message": "Get order A17 ready.",
        }
    ]  # fmt: skip
    for model, tool in _steps(run):
        about = {"id": len(events), "timestamp": model.end, "source": "agent"}
        if tool is None:
            events.append({**about, "action": "finish", "args": {}, "message": "Done."})
            continue
        args = {"command": _command(tool), "thought": model.answer["content"]}
        events.append({**about, "action": "run", "args": args})
        events.append({"id": len(events), "timestamp": tool.end, "source": "agent",
            "cause": about["id"], "observation": "run",
            "content": tool.result or f"Error: {tool.error}",
            "extras": {"metadata": {"exit_code": 1 if tool.error else 0}}})
    return events


def openhands_1(run: Sequence[Span]) -> list[Fields]:
    """Return the events of a conversation since version 1."""
    events: list[Fields] = []
    for model, tool in _steps(run):
        if tool is None:
            continue
        about = {"timestamp": model.end, "tool_name": "terminal", "tool_call_id": tool.call_id}
        command = _command(tool)
        events.append({**about, "id": model.uuid(), "kind": "ActionEvent", "source": "agent",
            "thought": [{"type": "text", "text": model.answer["content"]}],
            "action": {"kind": "ExecuteBashAction", "command": command},
            "llm_response_id": f"chatcmpl-{model.number}"})
        seen = {"content": [{"type": "text", "text": tool.result or f"Error: {tool.error}"}],
            "exit_code": 1 if tool.error else 0}
        events.append({**about, "id": tool.uuid(), "timestamp": tool.end,
            "kind": "ObservationEvent", "source": "environment", "observation": seen})
    return events


def claude_stream(run: Sequence[Span]) -> list[Fields]:
    """Return `claude -p --output-format stream-json --verbose`."""
    about = {"session_id": SESSION, "parent_tool_use_id": None}
    lines: list[Fields] = [{"type": "system", "subtype": "init", **about}]
    for model, tool in _steps(run):
        content: list[Fields] = [{"type": "text", "text": model.answer["content"]}]
        if tool:
            content.append({"type": "tool_use", "id": tool.call_id, "name": tool.name,
                "input": tool.arguments})
        message = {"id": f"msg_{model.number}", "role": "assistant", "content": content}
        lines.append({"type": "assistant", "message": message, "uuid": model.uuid(), **about})
        if tool:
            result = {"type": "tool_result", "tool_use_id": tool.call_id,
                "content": tool.result or f"Error: {tool.error}", "is_error": bool(tool.error)}
            said = {"role": "user", "content": [result]}
            lines.append({"type": "user", "message": said, "uuid": tool.uuid(), **about})
    return [*lines, {"type": "result", "subtype": "success", **about}]


def qwen_stream(run: Sequence[Span]) -> list[Fields]:
    """Return the same of Qwen Code, whose messages have one part each."""
    lines = list[Fields]()
    for line in claude_stream(run):
        message = line.get("message", {})
        parts: list[Fields] = message["content"] if line["type"] == "assistant" else []
        for number, part in enumerate(parts):
            is_last = part is parts[-1]
            tokens = {"input_tokens": 80, "output_tokens": 12, "cache_read_input_tokens": 50}
            usage = tokens if is_last else {"input_tokens": 0, "output_tokens": 0}
            told = {**message, "id": f"{message['id']}-{number}", "content": [part]}
            lines.append({**line, "message": {**told, "usage": usage}})
        if not parts:
            lines.append({**line, "qwen_code_version": "0.15.10"} if not lines else line)
    return lines


def codex_exec(run: Sequence[Span]) -> list[Fields]:
    """Return `codex exec --json`."""
    lines: list[Fields] = [{"type": "thread.started", "thread_id": SESSION}]
    for model, tool in _steps(run):
        item: Fields = {"id": f"item_{model.number}", "type": "agent_message"}
        lines.append({"type": "item.completed", "item": item | {"text": model.answer["content"]}})
        if tool:
            item = {"id": f"item_{tool.number}", "type": "command_execution",
                "command": _command(tool),
                "aggregated_output": tool.result or f"Error: {tool.error}",
                "exit_code": 1 if tool.error else 0,
                "status": "failed" if tool.error else "completed"}
            lines.append({"type": "item.completed", "item": item})
    usage = {"input_tokens": 120, "output_tokens": 9}
    return [*lines, {"type": "turn.completed", "usage": usage}]


def gemini_cli(run: Sequence[Span]) -> Fields:
    """Return a recorded chat of Gemini CLI."""
    messages: list[Fields] = []
    for model, tool in _steps(run):
        message = {
            "id": model.uuid(), "timestamp": model.end, "type": "gemini", "model": "gemini-2.5-pro",
            "content": model.answer["content"], "tokens": {"input": 120, "output": 9},
        }  # fmt: skip
        if tool:
            said = {"error": tool.error} if tool.error else {"output": tool.result}
            part = {"functionResponse": {"id": tool.call_id, "name": tool.name, "response": said}}
            message["toolCalls"] = [{"id": tool.call_id, "name": tool.name, "args": tool.arguments,
                "status": "error" if tool.error else "success", "result": [part],
                "timestamp": tool.end}]
        messages.append(message)
    return {"sessionId": SESSION, "startTime": run[0].start, "messages": messages}


def gemini_cli_lines(run: Sequence[Span]) -> list[Fields]:
    """Return the same as lines: a message is written twice, and another one was taken back.

    What the program says first, and the results of calls, are messages of the user as well.
    """
    chat = gemini_cli(run)
    first = {"sessionId": SESSION, "projectHash": "p", "startTime": run[0].start, "kind": "main"}
    own = {"id": "own", "timestamp": run[0].start, "type": "user"}
    context = [{"text": "<session_context>\nToday is Sunday.\n</session_context>"}]
    lines: list[Fields] = [first, {"$set": {"messages": [{**own, "content": context}]}}]
    for message in chat["messages"]:
        taken = {**message, "id": "taken-back"}
        plain = {name: value for name, value in message.items() if name != "toolCalls"}
        lines += [plain, {"$set": {"lastUpdated": run[-1].end}}, message]
        lines += [taken, {"$rewindTo": "taken-back"}]
        for call in message.get("toolCalls", ()):
            shown = {"timestamp": call["timestamp"], "content": call["result"]}
            lines.append({**own, "id": f"of-{call['id']}", **shown})
    return lines


def copilot_cli(run: Sequence[Span]) -> Iterator[Fields]:
    """Yield the events of a session of GitHub Copilot CLI."""
    yield _copilot_event("session.start", 0, run[0].start, {"sessionId": SESSION})
    yield _copilot_event("user.message", 1, run[0].start, {"content": "Get order A17 ready."})
    for span in run:
        if span.kind == "model":
            asked = [{"toolCallId": call["id"], "name": call["function"]["name"],
                "arguments": json.loads(
                    call["function"]["arguments"])} for call in span.answer.get("tool_calls", ())]
            told = {"messageId": f"m{span.number}", "content": span.answer["content"]}
            answer = {**told, "toolRequests": asked, "outputTokens": 12}
            yield _copilot_event("assistant.message", span.number, span.end, answer)
        elif span.kind == "tool":
            call = {"toolCallId": span.call_id, "toolName": span.name}
            yield _copilot_event("tool.execution_start", span.number, span.start, call)
            done = {"error": {"message": span.error}} if span.error else {}
            done = done or {"result": {"content": span.result}}
            ended = {"toolCallId": span.call_id, "success": not span.error, **done}
            yield _copilot_event("tool.execution_complete", span.number, span.end, ended)


def copilot_stream(run: Sequence[Span]) -> list[Fields]:
    """Return the events that GitHub Copilot CLI prints, of which the last names the session."""
    events = [event for event in copilot_cli(run) if event["type"] != "session.start"]
    return [*events, {"type": "result", "timestamp": run[-1].end, "sessionId": SESSION,
        "exitCode": 0, "usage": {"premiumRequests": 0}}]


def _copilot_event(kind: str, number: int, at: str, data: Fields) -> Fields:
    ids = {"id": f"{kind}-{number}", "parentId": None, "timestamp": at}
    return {"type": kind, "data": data, **ids}


def gemini_stream(run: Sequence[Span]) -> list[Fields]:
    """Return what Gemini CLI prints: texts come in pieces."""
    lines: list[Fields] = [
        {"type": "init", "timestamp": run[0].start, "session_id": SESSION, "model": MODEL},
        {"type": "message", "timestamp": run[0].start, "role": "user", "content": "Get it ready."}]
    for span in run:
        if span.kind == "model":
            text = span.answer["content"] or ""
            lines += [{"type": "message", "timestamp": span.end, "role": "assistant",
                "content": piece, "delta": True} for piece in (text[:4], text[4:]) if piece]
        elif span.kind == "tool":
            error = {"error": {"type": "tool_error", "message": span.error}}
            ended = {"status": "error", **error} if span.error else {
                "status": "success", "output": span.result}
            about = {"tool_id": span.call_id}
            lines += [{"type": "tool_use", "timestamp": span.start, **about,
                "tool_name": span.name, "parameters": span.arguments},
                {"type": "tool_result", "timestamp": span.end, **about, **ended}]
    stats = {"total_tokens": 120, "input_tokens": 100, "output_tokens": 20, "cached": 0,
        "input": 100, "duration_ms": 9, "tool_calls": 6, "models": {}}
    return [*lines, {"type": "result", "timestamp": run[-1].end, "status": "success",
        "stats": stats}]


def droid_stream(run: Sequence[Span]) -> list[Fields]:
    """Return what `droid exec` prints."""
    about = {"session_id": SESSION, "messageId": "m"}
    lines: list[Fields] = [{"type": "system", "subtype": "init", "cwd": "/depot",
        "session_id": SESSION, "tools": [], "model": MODEL, "reasoning_effort": "off"}]
    for span in run:
        if span.kind == "model" and span.answer["content"]:
            lines.append({"type": "message", "role": "assistant", "id": "m", "session_id": SESSION,
                "text": span.answer["content"], "timestamp": span.ns(span.end_s) // 10**6})
        elif span.kind == "tool":
            error = {"type": "tool_error", "message": span.error} if span.error else None
            lines += [{"type": "tool_call", "id": span.call_id, "toolId": span.name, **about,
                "toolName": span.name, "parameters": span.arguments,
                "timestamp": span.ns(span.start_s) // 10**6},
                {"type": "tool_result", "id": span.call_id, "toolId": span.name, **about,
                "isError": bool(error), **({"error": error} if error else {"value": span.result}),
                "timestamp": span.ns(span.end_s) // 10**6}]
    usage = {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0, "factory_credits": 0}
    return [*lines, {"type": "completion", "finalText": "Done.", "numTurns": 6, "durationMs": 9,
        "session_id": SESSION, "timestamp": run[-1].ns(run[-1].end_s) // 10**6, "usage": usage}]


def cline_stream(run: Sequence[Span]) -> list[Fields]:
    """Return what `cline --json` prints: tokens come before the text, pieces of results beside."""
    hook = {"type": "hook_event", "agentId": "a", "taskId": SESSION, "parentAgentId": None}
    lines: list[Fields] = [{"ts": run[0].start, **hook, "hookEventName": "agent_start"}]

    def add(at: str, **event: Any) -> None:
        lines.append({"ts": at, "type": "agent_event", "event": event})

    for span in run:
        if span.kind == "model":
            add(span.end, type="iteration_start", iteration=span.number)
            add(span.end, type="usage", inputTokens=80, outputTokens=12, cacheReadTokens=0)
            add(span.end, type="content_end", contentType="text", text=span.answer["content"])
        elif span.kind == "tool":
            about = {"contentType": "tool", "toolCallId": span.call_id, "toolName": span.name}
            add(span.start, type="content_start", **about, input=span.arguments)
            add(span.start, type="content_update", **about, update={"chunk": "2 of 5"})
            shown = [{"query": span.name, "result": span.result, "success": True}]
            ended = {"error": span.error} if span.error else {"output": shown}
            add(span.end, type="content_end", **about, **ended)
    return lines
