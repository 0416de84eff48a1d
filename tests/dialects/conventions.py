"""The conventions themselves, and producers that write just what these say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.dialects.work import (
    AGENT,
    CACHE_WRITTEN,
    CACHED,
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
from tests.otlp import CLIENT, Attributes, Event, Trace

SERVER = 2


def _tokens() -> dict[str, Any]:
    return {"gen_ai.usage.input_tokens": TOKENS[0], "gen_ai.usage.output_tokens": TOKENS[1]}


def _parts(written: str = "gen_ai.usage.cache_write.input_tokens") -> dict[str, Any]:
    return {
        "gen_ai.usage.cache_read.input_tokens": CACHED,
        written: CACHE_WRITTEN,
        "gen_ai.usage.reasoning.output_tokens": THOUGHT,
    }


def genai(
    calls: Sequence[Call],
    *,
    name: str = "gen_ai",
    scope: str = "opentelemetry.instrumentation.genai",
    shared: dict[str, Any] | None = None,
) -> Trace:
    """Return an agent with its requests and calls, by the GenAI conventions."""
    trace = blank_trace(name, scope)
    shared = {"gen_ai.conversation.id": SESSION} if shared is None else shared
    agent = shared | {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": AGENT}
    asked = {"gen_ai.input.messages": json.dumps(parts_history(())[1:])}
    flow = trace.span("invoke_workflow pack", None, {"gen_ai.operation.name": "invoke_workflow"})
    root = trace.span(f"invoke_agent {AGENT}", flow, agent | asked)
    _others(trace, root, shared)
    for number, call in rounds(calls):
        chat: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": MODEL,
            "gen_ai.input.messages": json.dumps(parts_history(calls[:number])),
            "gen_ai.output.messages": json.dumps([parts_answer(call, number)]),
            "gen_ai.response.finish_reasons": ["tool_call" if call else "stop"],
        }
        trace.span(f"chat {MODEL}", root, shared | chat | _tokens() | _parts(), kind=CLIENT)
        if call:
            _genai_call(trace, root, call, number, shared)
    return trace


def _others(trace: Trace, root: str, shared: dict[str, Any]) -> None:
    """Add what the conventions have beside the tools of an agent, each once."""
    skill = {"gen_ai.operation.name": "execute_tool", "gen_ai.skill.name": "labels"}
    spans: tuple[tuple[str, Attributes], ...] = (
        (
            "retrieval orders",
            {
                "gen_ai.operation.name": "retrieval",
                "gen_ai.data_source.id": "orders",
                "gen_ai.retrieval.query.text": "order A17",
                "gen_ai.retrieval.documents": '[{"id": "A17", "score": 0.9}]',
            },
        ),
        (
            "search_memory",
            {
                "gen_ai.operation.name": "search_memory",
                "gen_ai.memory.store.id": "orders",
                "gen_ai.memory.query.text": "urgent orders",
                "gen_ai.memory.records": '[{"id": "m1", "content": "A17 is urgent"}]',
            },
        ),
        (
            "update_memory",
            {
                "gen_ai.operation.name": "update_memory",
                "gen_ai.memory.record.id": "m1",
                "gen_ai.memory.record.count": 1,
            },
        ),
        ("execute_tool load_skill", skill | {"gen_ai.tool.name": "load_skill"}),
        (
            "execute_tool read_skill",
            skill | {"gen_ai.tool.name": "read_skill", "gen_ai.skill.resource.name": "sizes.md"},
        ),
        (
            "execute_tool bash",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "bash",
                "process.executable.name": "labels",
                "process.command_args": ["labels", "--version"],
                "process.exit.code": 0,
            },
        ),
        (f"plan {AGENT}", {"gen_ai.operation.name": "plan", "gen_ai.agent.name": AGENT}),
        ("embeddings", {"gen_ai.operation.name": "embeddings"}),
    )
    for name, attributes in spans:
        trace.span(name, root, {**shared, **attributes})
    # Before 1.28 the content was in these events, and what was cached had another name for a while.
    old = {"gen_ai.operation.name": "chat", "gen_ai.request.model": MODEL}
    given, said = (
        [{"role": "user", "content": TASK}],
        [{"role": "assistant", "content": "At once."}],
    )
    events: list[Event] = [
        ("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps(given)}),
        ("gen_ai.content.completion", {"gen_ai.completion": json.dumps(said)}),
    ]
    used = _tokens() | _parts("gen_ai.usage.cache_creation.input_tokens")
    trace.span(f"chat {MODEL}", root, {**shared, **old, **used}, events)


def _genai_call(trace: Trace, root: str, call: Call, number: int, shared: dict[str, Any]) -> None:
    told: dict[str, str] = {"gen_ai.tool.call.result": call.result} if call.result else {}
    told |= {"error.type": "LabelError"} if call.error else {}
    tool: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call_id(number),
        "gen_ai.tool.call.arguments": call.json,
    }
    details = {"exception.type": "LabelError", "exception.message": call.error}
    events = [("gen_ai.execute_tool.exception", details)] if call.error else []
    trace.span(f"execute_tool {call.tool}", root, shared | tool | told, events)


def mcp(calls: Sequence[Call]) -> Trace:
    """Return calls of an MCP client, each with the span of the server."""
    trace = blank_trace("mcp", "mcp-client")
    for number, call in enumerate(calls):
        content = {"content": [{"type": "text", "text": call.told}], "isError": bool(call.error)}
        shared: dict[str, Any] = {
            "mcp.method.name": "tools/call",
            "mcp.session.id": SESSION,
            "gen_ai.tool.name": call.tool,
            "jsonrpc.request.id": str(number),
            "gen_ai.tool.call.arguments": call.json,
            "gen_ai.tool.call.result": json.dumps(content),
        } | ({"error.type": "tool_error"} if call.error else {})
        name = f"tools/call {call.tool}"
        client = trace.span(name, None, shared, kind=CLIENT, status=call.status)
        trace.span(name, client, shared, kind=SERVER, status=call.status, scope="mcp-server")
    return trace


def semantic_kernel(calls: Sequence[Call]) -> Trace:
    """Return what Semantic Kernel's .NET SDK writes with sensitive events switched on."""
    trace = blank_trace("semantic_kernel", "Microsoft.SemanticKernel.Diagnostics")
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": AGENT}
    root = trace.span(f"invoke_agent {AGENT}", None, agent)
    history: list[tuple[str, dict[str, Any]]] = [
        ("user", {"role": "user", "name": None, "content": TASK, "tool_calls": []})
    ]
    for number, call in rounds(calls):
        answer = _kernel_answer(call, number)
        events: list[Event] = [
            (f"gen_ai.{role}.message", {"gen_ai.event.content": json.dumps(message)})
            for role, message in history
        ]
        choice = {"index": 0, "message": answer, "tool_calls": answer["tool_calls"]}
        choice["finish_reason"] = "ToolCalls" if call else "Stop"
        events.append(("gen_ai.choice", {"gen_ai.event.content": json.dumps(choice)}))
        chat: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.system": "openai",
            "gen_ai.request.model": MODEL,
            "gen_ai.response.finish_reason": choice["finish_reason"],
        }
        trace.span(f"chat {MODEL}", root, chat | _tokens(), events, kind=CLIENT)
        if call:
            _genai_call(trace, root, call, number, {})
            told: dict[str, Any] = {
                "role": "tool",
                "name": None,
                "content": call.told,
                "tool_calls": [],
            }
            history += [("assistant", answer), ("tool", told)]
    return trace


def _kernel_answer(call: Call | None, number: int) -> dict[str, object]:
    asked = []
    if call:
        function = {"name": call.tool, "arguments": dict(call.arguments)}
        asked = [{"id": call_id(number), "function": function, "type": "function"}]
    text = call.text if call else "Order A17 can go."
    return {"role": "assistant", "name": AGENT, "content": text, "tool_calls": asked}


_ADOT = {"session.id": SESSION, "aws.local.service": "agentcore"}
WRITERS: dict[str, Writer] = {
    "gen_ai": genai,
    "mcp": mcp,
    "semantic_kernel": semantic_kernel,
    "agentcore": partial(
        genai,
        name="agentcore",
        scope="amazon.opentelemetry.distro.instrumentation.langchain",
        shared=_ADOT,
    ),
}
