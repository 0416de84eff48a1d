"""Agents that write code: their own traces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.dialects.work import (
    AGENT,
    CACHE_WRITTEN,
    CACHED,
    DONE,
    MODEL,
    SESSION,
    TASK,
    THOUGHT,
    TOKENS,
    Call,
    Writer,
    blank_trace,
    call_id,
    parts_answer,
    parts_history,
    rounds,
)
from tests.otlp import CLIENT, Event, Trace


def claude_code(calls: Sequence[Call]) -> Trace:
    """Return a prompt to Claude Code with a subagent, all content switched on."""
    trace = blank_trace("claude_code", "com.anthropic.claude_code.tracing")
    shared: dict[str, Any] = {"session.id": SESSION}
    agent: dict[str, Any] = shared | {"agent_id": AGENT}
    asked = shared | {"span.type": "interaction", "user_prompt": TASK, "interaction.sequence": 1}
    root = trace.span("claude_code.interaction", None, asked)
    for number, call in rounds(calls):
        request: dict[str, Any] = {
            "span.type": "llm_request",
            "model": MODEL,
            "gen_ai.system": "anthropic",
            "gen_ai.request.model": MODEL,
            "input_tokens": TOKENS[0] - CACHED - CACHE_WRITTEN,
            "output_tokens": TOKENS[1],
            "cache_read_tokens": CACHED,
            "cache_creation_tokens": CACHE_WRITTEN,
            "success": True,
            "stop_reason": "tool_use" if call else "end_turn",
        }
        trace.span("claude_code.llm_request", root, agent | request)
        if call:
            _claude_tool(trace, root, call, number, agent)
    return trace


def _claude_tool(trace: Trace, root: str, call: Call, number: int, shared: dict[str, Any]) -> None:
    ids = {"tool_use_id": call_id(number), "gen_ai.tool.call.id": call_id(number)}
    details, output = _claude_details(call, number)
    tool = {"span.type": "tool", "result_tokens": 9} | details
    told: list[Event] = [("tool.output", output)] if output else []
    outer = trace.span("claude_code.tool", root, shared | ids | tool, told)
    waited = {"span.type": "tool.blocked_on_user", "decision": "accept", "source": "config"}
    trace.span("claude_code.tool.blocked_on_user", outer, shared | ids | waited)
    ran = {"span.type": "tool.execution", "success": not call.error}
    ran |= {"error": call.error} if call.error else {}
    trace.span("claude_code.tool.execution", outer, shared | ids | ran)


def _claude_details(call: Call, number: int) -> tuple[dict[str, str], dict[str, str]]:
    """Return what a tool of Claude Code shows of its call; the call without a failure is varied."""
    command = f"labels {call.tool} {' '.join(call.arguments.values())}"
    path = f"orders/{call.tool}.txt"
    forms = [
        ({"tool_name": "Read", "file_path": path}, {"file_path": path, "content": call.result}),
        ({"tool_name": "Edit", "file_path": path}, {"file_path": path, "diff": f"+{call.result}"}),
        ({"tool_name": "Skill", "skill_name": "labels"}, {}),
        ({"tool_name": "Agent", "subagent_type": "helper"}, {}),
    ]
    bash = {"bash_command": command, "output": call.told}
    return ({"tool_name": "Bash", "full_command": command}, bash) if call.error else forms[number]


def codex(calls: Sequence[Call]) -> Trace:
    """Return a turn of Codex, whose spans have neither arguments nor results."""
    trace = blank_trace("codex", "codex_cli_rs")
    root = trace.span("session_task.turn", None, {"thread.id": SESSION, "model": MODEL})
    for number, call in rounds(calls):
        stream = trace.span("receiving_stream", root)
        used: dict[str, Any] = {
            "gen_ai.usage.input_tokens": TOKENS[0],
            "gen_ai.usage.output_tokens": TOKENS[1],
            "gen_ai.usage.cache_read.input_tokens": CACHED,
            "codex.usage.reasoning_output_tokens": THOUGHT,
            "codex.usage.total_tokens": sum(TOKENS),
        }
        trace.span("completed", stream, used)
        if call:
            ids = {"tool_name": call.tool, "call_id": call_id(number)}
            tool = trace.span(call.tool, root, ids | {"aborted": False})
            ended: dict[str, Any] = {
                "event.name": "codex.tool_result",
                "success": "false" if call.error else "true",
            }
            ended |= ids | ({"error.message": call.error} if call.error else {})
            event: Event = ("event otel/src/events/session_telemetry.rs:1064", ended)
            trace.span("dispatch_tool_call_with_terminal_outcome", tool, {}, [event])
    return trace


def gemini_cli(calls: Sequence[Call]) -> Trace:
    """Return a prompt to Gemini CLI, which writes Google's own forms into GenAI's attributes."""
    trace = blank_trace("gemini_cli", "gemini-cli")
    shared = {"gen_ai.agent.name": "gemini-cli", "gen_ai.conversation.id": SESSION}
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": TASK}]}]
    asked = {"gen_ai.operation.name": "user_prompt", "gen_ai.input.messages": TASK}
    root = trace.span("user_prompt", None, shared | asked, status="ok")
    for number, call in rounds(calls):
        text = call.text if call else DONE
        pieces: list[list[dict[str, Any]]] = [
            [{"text": "I should look.", "thought": True}],
            [{"text": text[:4]}],
        ]
        pieces.append([{"text": text[4:]}])
        if call:
            asked_for = {"id": call_id(number), "name": call.tool, "args": dict(call.arguments)}
            pieces.append([{"functionCall": asked_for}])
        streamed: list[Any] = [{"role": "model", "parts": parts} for parts in pieces]
        request: dict[str, Any] = {
            "gen_ai.operation.name": "llm_call",
            "gen_ai.request.model": MODEL,
            "gen_ai.input.messages": json.dumps(contents),
            "gen_ai.output.messages": json.dumps([*streamed, None]),
            "gen_ai.usage.input_tokens": TOKENS[0],
            "gen_ai.usage.output_tokens": TOKENS[1],
        }
        trace.span("llm_call", root, shared | request, status="ok")
        parts: list[dict[str, Any]] = [{"text": text}, *(pieces[-1] if call else [])]
        contents = [*contents, {"role": "model", "parts": parts}]
        if call:
            said = {"error": call.error} if call.error else {"output": call.result}
            answer = {"id": call_id(number), "name": call.tool, "response": said}
            contents.append({"role": "user", "parts": [{"functionResponse": answer}]})
            _gemini_tool(trace, root, call, number, answer)
    return trace


def _gemini_tool(trace: Trace, root: str, call: Call, number: int, answer: dict[str, Any]) -> None:
    shared = {"gen_ai.agent.name": "gemini-cli", "gen_ai.conversation.id": SESSION}
    request: dict[str, Any] = {
        "callId": call_id(number),
        "name": call.tool,
        "args": dict(call.arguments),
        "prompt_id": f"{SESSION}########1",
    }
    response: dict[str, Any] = {
        "callId": call_id(number),
        "responseParts": [{"functionResponse": answer}],
        "resultDisplay": call.told,
    }
    if call.error:
        response |= {"error": {"message": call.error}, "errorType": "execution_failed"}
    done: dict[str, Any] = {
        "status": "error" if call.error else "success",
        "request": request,
        "response": response,
        "durationMs": 4,
    }
    scheduled: dict[str, Any] = {
        "gen_ai.operation.name": "schedule_tool_calls",
        "gen_ai.input.messages": json.dumps([request]),
        "gen_ai.output.messages": json.dumps([done]),
    }
    around = trace.span("schedule_tool_calls", root, shared | scheduled, status="ok")
    tool: dict[str, Any] = {
        "gen_ai.operation.name": "tool_call",
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.call_id": call_id(number),
        "gen_ai.input.messages": json.dumps(request),
        "gen_ai.output.messages": json.dumps(done),
    }
    trace.span("tool_call", around, shared | tool, status="ok")


def copilot(calls: Sequence[Call]) -> Trace:
    """Return a request to Copilot Chat; each of its responses names a conversation of its own."""
    trace = blank_trace("copilot", "copilot-chat")
    shared = {"copilot_chat.chat_session_id": SESSION}
    agent: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": AGENT,
        "gen_ai.conversation.id": "conversation-1",
        "copilot_chat.session_id": "conversation-1",
        "gen_ai.input.messages": json.dumps(parts_history(())[1:]),
    }
    root = trace.span(f"invoke_agent {AGENT}", None, shared | agent)
    for number, call in rounds(calls):
        request: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "github",
            "gen_ai.request.model": MODEL,
            "gen_ai.conversation.id": f"request-{number}",
            "copilot_chat.user_request": TASK,
            "gen_ai.input.messages": json.dumps(parts_history(calls[:number])),
            "gen_ai.output.messages": json.dumps([parts_answer(call, number)]),
            "gen_ai.usage.input_tokens": TOKENS[0],
            "gen_ai.usage.output_tokens": TOKENS[1],
            "gen_ai.response.finish_reasons": ["tool_calls" if call else "stop"],
        }
        trace.span(f"chat {MODEL}", root, shared | request, kind=CLIENT)
        if call:
            hook: dict[str, Any] = {
                "gen_ai.operation.name": "execute_hook",
                "copilot_chat.hook_type": "PreToolUse",
                "copilot_chat.hook_command": "audit",
            }
            trace.span("execute_hook PreToolUse", root, shared | hook, status="ok")
            tool: dict[str, Any] = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.tool,
                "gen_ai.tool.call.id": call_id(number),
                "gen_ai.tool.call.arguments": call.json,
                "gen_ai.tool.call.result": f"ERROR: {call.error}" if call.error else call.result,
            }
            name = f"execute_tool {call.tool}"
            trace.span(name, root, shared | tool, status=call.status, message=call.error)
    return trace


def opencode(calls: Sequence[Call]) -> Trace:
    """Return a session of opencode, as its plug-in writes it in OpenInference's attributes."""
    trace = blank_trace("opencode", "com.opencode")
    shared: dict[str, Any] = {"session.id": SESSION}
    agent = {"openinference.span.kind": "AGENT", "agent.name": AGENT}
    root = trace.span("opencode.session", None, shared | agent, status="ok")
    listed = {"tool.name": "list", "tool.args": "{}", "tool.output": "labels", "tool.success": True}
    trace.span("opencode.tool list", root, shared | listed)
    for number, call in rounds(calls):
        text = call.text if call else DONE
        request: dict[str, Any] = {
            "openinference.span.kind": "LLM",
            "agent.name": AGENT,
            "llm.model_name": MODEL,
            "input.value": TASK,
            "llm.input_messages": json.dumps([{"role": "user", "content": TASK}]),
            "output.value": text,
            "llm.output_messages": json.dumps([{"role": "assistant", "content": text}]),
            "llm.token_count.prompt": TOKENS[0],
            "llm.token_count.completion": TOKENS[1],
            "llm.finish_reason": "tool-calls" if call else "stop",
        }
        trace.span("opencode.llm", root, shared | request, kind=CLIENT, status="ok")
        if call:
            tool: dict[str, Any] = {
                "openinference.span.kind": "TOOL",
                "tool.id": call_id(number),
                "tool.name": call.tool,
                "tool.parameters": call.json,
                "input.value": call.json,
                "tool.success": not call.error,
                "output.value": call.told,
            } | ({"tool.error": call.error} if call.error else {})
            name = f"opencode.tool.{call.tool}"
            trace.span(name, root, shared | tool, status=call.status, message=call.error)
    return trace


WRITERS: dict[str, Writer] = {
    "claude_code": claude_code,
    "codex": codex,
    "gemini_cli": gemini_cli,
    "copilot": copilot,
    "opencode": opencode,
}
