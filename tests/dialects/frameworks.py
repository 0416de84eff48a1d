"""Frameworks with keys of their own beside GenAI's."""

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
    SYSTEM,
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
from tests.otlp import CLIENT, PRODUCER, Event, Trace, exception

USED = {"gen_ai.usage.input_tokens": TOKENS[0], "gen_ai.usage.output_tokens": TOKENS[1]}


def google_adk(calls: Sequence[Call]) -> Trace:
    """Return an invocation of ADK, with the content in its own attributes."""
    trace = blank_trace("google_adk", "gcp.vertex.agent")
    root = trace.span("invocation")
    agent: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": AGENT,
        "gen_ai.conversation.id": SESSION,
    }
    root = trace.span(f"invoke_agent {AGENT}", root, agent)
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": TASK}]}]
    for number, call in rounds(calls):
        parts: list[dict[str, Any]] = [{"text": call.text if call else DONE}]
        if call:
            parts.append({"function_call": {"name": call.tool, "args": dict(call.arguments)}})
        content = {"role": "model", "parts": parts}
        used = {
            "prompt_token_count": TOKENS[0],
            "cached_content_token_count": CACHED,
            "candidates_token_count": TOKENS[1] - THOUGHT,
            "thoughts_token_count": THOUGHT,
            "total_token_count": sum(TOKENS),
        }
        request: dict[str, Any] = {
            "gen_ai.system": "gcp.vertex.agent",
            "gen_ai.request.model": MODEL,
            "gcp.vertex.agent.session_id": SESSION,
            "gcp.vertex.agent.llm_request": json.dumps({"model": MODEL, "contents": contents}),
            "gcp.vertex.agent.llm_response": json.dumps(
                {"content": content, "finish_reason": "STOP", "usage_metadata": used}
            ),
            "gen_ai.usage.experimental.reasoning_tokens": THOUGHT,
        } | USED
        trace.span("call_llm", root, request)
        contents = [*contents, content]
        if call:
            response = (
                {"status": "error", "error": call.error} if call.error else {"result": call.told}
            )
            answer = {"name": call.tool, "response": response}
            contents.append({"role": "user", "parts": [{"function_response": answer}]})
            _adk_tool(trace, root, call, number, response)
    return trace


def _adk_tool(trace: Trace, root: str, call: Call, number: int, response: dict[str, str]) -> None:
    empty = {"gcp.vertex.agent.llm_request": "{}", "gcp.vertex.agent.llm_response": "{}"}
    shared = {"gen_ai.operation.name": "execute_tool", "gen_ai.system": "gcp.vertex.agent"} | empty
    tool: dict[str, Any] = {
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.type": "FunctionTool",
        "gen_ai.tool.call.id": call_id(number),
        "gcp.vertex.agent.tool_call_args": call.json,
        "gcp.vertex.agent.tool_response": json.dumps(response),
    }
    trace.span(f"execute_tool {call.tool}", root, shared | tool)
    merged: dict[str, Any] = {
        "gen_ai.tool.name": "(merged tools)",
        "gen_ai.tool.call.id": f"event-{number}",
        "gcp.vertex.agent.tool_call_args": "N/A",
        "gcp.vertex.agent.tool_response": json.dumps([response]),
    }
    trace.span("execute_tool (merged)", root, shared | merged)


def spring_ai(calls: Sequence[Call]) -> Trace:
    """Return a chat of Spring AI with the content of tools switched on."""
    trace = blank_trace("spring_ai", "org.springframework.boot")
    client: dict[str, Any] = {
        "gen_ai.operation.name": "framework",
        "gen_ai.system": "spring_ai",
        "spring.ai.kind": "chat_client",
        "spring.ai.chat.client.conversation.id": SESSION,
    }
    root = trace.span("spring_ai chat_client", None, client)
    for number, call in rounds(calls):
        request: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.system": "openai",
            "gen_ai.request.model": MODEL,
            "gen_ai.response.finish_reasons": json.dumps(["TOOL_CALLS" if call else "STOP"]),
        } | USED
        trace.span(f"chat {MODEL}", root, request, kind=CLIENT)
        if call:
            is_new = bool(number % 2)
            tool: dict[str, Any] = {
                "gen_ai.operation.name": "execute_tool" if is_new else "framework",
                "gen_ai.provider.name" if is_new else "gen_ai.system": "spring_ai",
                "spring.ai.kind": "tool_call",
                "spring.ai.tool.definition.name": call.tool,
                "spring.ai.tool.definition.description": "A tool for labels.",
                "spring.ai.tool.call.arguments": call.json,
                "spring.ai.tool.call.result": json.dumps(
                    f"Error: {call.error}" if call.error else call.result
                ),
            }
            tool |= {"spring.ai.tool.call.id": call_id(number)} if is_new else {}
            trace.span(f"{'execute_tool' if is_new else 'tool_call'} {call.tool}", root, tool)
    query: dict[str, Any] = {
        "spring.ai.kind": "vector_store",
        "db.operation.name": "query",
        "db.system": "pg_vector",
        "db.vector.query.content": "labels of order A17",
        "db.vector.query.response.documents": '["one label a crate"]',
    }
    trace.span("pg_vector query", root, query)
    return trace


def koog(calls: Sequence[Call]) -> Trace:
    """Return a run of Koog, whose agents have ids only."""
    trace = blank_trace("koog", "ai.koog")
    shared = {"gen_ai.conversation.id": SESSION}
    agent: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.id": AGENT,
        "koog.event.id": "event-agent",
        "gen_ai.input.messages": json.dumps(parts_history(())),
    }
    root = trace.span(f"invoke_agent {AGENT}", None, shared | agent, kind=CLIENT)
    strategy = {"koog.strategy.name": "pack", "koog.event.id": "event-strategy"}
    root = trace.span("strategy pack", root, shared | strategy)
    for number, call in rounds(calls):
        node = {"koog.node.id": "step", "koog.event.id": f"event-{number}"}
        step = trace.span("node step", root, shared | node)
        request: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": MODEL,
            "gen_ai.input.messages": json.dumps(parts_history(calls[:number])),
            "gen_ai.output.messages": json.dumps([parts_answer(call, number)]),
            "gen_ai.response.finish_reasons": ["tool_calls" if call else "stop"],
        } | USED
        trace.span(f"chat {MODEL}", step, shared | request, kind=CLIENT, status="ok")
        if call:
            tool: dict[str, Any] = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.provider.name": "koog",
                "gen_ai.tool.name": call.tool,
                "gen_ai.tool.call.id": call_id(number),
                "gen_ai.tool.call.arguments": call.json,
            } | ({"gen_ai.tool.call.result": call.result} if call.result else {})
            tool |= {"error.type": "LabelError"} if call.error else {}
            name = f"execute_tool {call.tool}"
            trace.span(name, step, tool, status=call.status, message=call.error)
    return trace


def strands(calls: Sequence[Call]) -> Trace:
    """Return a run of Strands: each cycle has a request and its calls, with content in events."""
    trace = blank_trace("strands", "strands.telemetry.tracer")
    shared = {"session.id": SESSION, "gen_ai.system": "strands-agents"}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": AGENT}
    said = json.dumps([{"text": TASK}])
    asked: list[Event] = [("gen_ai.user.message", {"content": said})]
    root = trace.span(f"invoke_agent {AGENT}", None, shared | agent, asked)
    history = list(asked)
    _strands_memory(trace, root, shared)
    for number, call in rounds(calls):
        cycle: dict[str, Any] = {
            "gen_ai.operation.name": "execute_event_loop_cycle",
            "event_loop.cycle_id": f"cycle-{number}",
        }
        around = trace.span("execute_event_loop_cycle", root, shared | cycle, history)
        content: list[dict[str, Any]] = [{"text": call.text if call else DONE}]
        if call:
            use = {"name": call.tool, "toolUseId": call_id(number), "input": dict(call.arguments)}
            content.append({"toolUse": use})
        finish = "tool_use" if call else "end_turn"
        choice: Event = ("gen_ai.choice", {"finish_reason": finish, "message": json.dumps(content)})
        request: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": MODEL,
            "gen_ai.usage.cache_read_input_tokens": CACHED,
            "gen_ai.usage.cache_write_input_tokens": CACHE_WRITTEN,
            "gen_ai.usage.total_tokens": sum(TOKENS),
        } | USED
        trace.span("chat", around, {**shared, **request}, [*history, choice])
        if call:
            told = _strands_tool(trace, around, call, number, shared)
            answered = json.dumps([{"toolResult": {"toolUseId": call_id(number)} | told}])
            history += [
                ("gen_ai.assistant.message", {"content": json.dumps(content)}),
                ("gen_ai.tool.message", {"content": answered}),
            ]
    return trace


def _strands_memory(trace: Trace, root: str, shared: dict[str, Any]) -> None:
    """Add a search of the memory, and a new entry."""
    found = json.dumps([{"content": "A17 is urgent", "store_name": "orders"}])
    spans: tuple[tuple[str, list[Event]], ...] = (
        (
            "memory.search",
            [("memory.query", {"content": "A17"}), ("memory.results", {"content": found})],
        ),
        ("memory.add", [("memory.content", {"content": "A17 was packed"})]),
    )
    for name, events in spans:
        trace.span(name, root, {**shared, "gen_ai.operation.name": name}, events)


def _strands_tool(
    trace: Trace, around: str, call: Call, number: int, shared: dict[str, Any]
) -> dict[str, Any]:
    told = {"status": "error" if call.error else "success", "content": [{"text": call.told}]}
    tool: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.call.id": call_id(number),
        "gen_ai.tool.status": told["status"],
    }
    events: list[Event] = [
        ("gen_ai.tool.message", {"role": "tool", "content": call.json, "id": call_id(number)}),
        ("gen_ai.choice", {"message": json.dumps(told["content"]), "id": call_id(number)}),
    ]
    name = f"execute_tool {call.tool}"
    trace.span(name, around, {**shared, **tool}, events, status=call.status, message=call.error)
    return told


def langchain4j(calls: Sequence[Call]) -> Trace:
    """Return a method of an AI service in Quarkus, with the content switched on."""
    trace = blank_trace("langchain4j", "io.quarkus.opentelemetry")
    root = trace.span("langchain4j.aiservices.Packer.pack")
    said = [f"SystemMessage {{ text = {SYSTEM} }}", f"UserMessage {{ contents = {TASK} }}"]
    for number, call in rounds(calls):
        request: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": MODEL,
            "gen_ai.prompt": "\n".join(said),
            "gen_ai.completion": call.text if call else DONE,
            "gen_ai.response.finish_reasons": "TOOL_EXECUTION" if call else "STOP",
        } | USED
        trace.span(f"completion {MODEL}", root, request, kind=CLIENT)
        if call:
            tool: dict[str, Any] = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.call.id": call_id(number),
                "gen_ai.tool.name": call.tool,
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.arguments": call.json,
            } | ({"gen_ai.tool.call.result": call.result} if call.result else {})
            events = [exception("LabelError", call.error)] if call.error else []
            trace.span(f"langchain4j.tools.{call.tool}", root, tool, events, status=call.status)
            said.append(f"ToolExecutionResultMessage {{ text = {call.told} }}")
    return trace


def agent_framework(calls: Sequence[Call]) -> Trace:
    """Return a workflow of Microsoft's Agent Framework whose agents show no models and no tools."""
    trace = blank_trace("agent_framework", "agent_framework")
    flow = {"workflow.id": "w-1", "gen_ai.conversation.id": SESSION}
    root = trace.span("workflow.run", None, flow)
    for call in calls:
        for executor, said in (("packer", call.tool), ("checker", call.told)):
            edge: dict[str, Any] = {
                "edge_group.type": "SingleEdgeGroup",
                "edge_group.delivered": True,
                "message.target_id": executor,
            }
            trace.span("edge_group.process SingleEdgeGroup", root, edge)
            ids: dict[str, Any] = {
                "executor.id": executor,
                "executor.type": "AgentExecutor",
                "message.type": "standard",
                "message.payload_type": "AgentExecutorRequest",
            }
            process = trace.span(f"executor.process {executor}", root, ids)
            given = [{"role": "user", "parts": [{"type": "text", "content": said}]}]
            answer = [{"role": "assistant", "parts": [{"type": "text", "content": call.told}]}]
            run: dict[str, Any] = {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": executor,
                "gen_ai.input.messages": json.dumps(given),
                "gen_ai.output.messages": json.dumps(answer),
            }
            trace.span(f"invoke_agent {executor}", process, run)
            sent = {"message.type": "AgentExecutorResponse"}
            trace.span("message.send", process, sent, kind=PRODUCER)
    return trace


def any_agent(calls: Sequence[Call]) -> Trace:
    """Return a run of any-agent: one flat list of spans, and no ids of calls."""
    trace = blank_trace("any_agent", "any_agent")
    agent: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": AGENT,
        "gen_ai.request.model": MODEL,
        "any_agent.version": "1.18.0",
    }
    root = trace.span(f"invoke_agent [{AGENT}]", None, agent)
    for number, call in rounds(calls):
        asked = {"tool.name": call.tool, "tool.args": call.json} if call else {}
        request: dict[str, Any] = {
            "gen_ai.operation.name": "call_llm",
            "gen_ai.request.model": MODEL,
            "gen_ai.output": json.dumps([asked]) if call else DONE,
            "gen_ai.output.type": "json" if call else "text",
        } | USED
        given = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
        request |= {} if number else {"gen_ai.input.messages": json.dumps(given)}
        trace.span(f"call_llm {MODEL}", root, request, status="ok")
        if call:
            tool: dict[str, Any] = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.tool,
                "gen_ai.tool.args": call.json,
                "gen_ai.output": f"Error calling tool: {call.error}" if call.error else call.result,
                "gen_ai.output.type": "text",
            }
            message = f"Error calling tool: {call.error}" if call.error else ""
            trace.span(f"execute_tool {call.tool}", root, tool, status=call.status, message=message)
    return trace


def pipecat(calls: Sequence[Call]) -> Trace:
    """Return a conversation of Pipecat: functions have no spans, and contexts show their results.

    Services that hear and speak write a span of a call, as of the first one here.
    """
    trace = blank_trace("pipecat", "pipecat")
    talk = {"conversation.id": SESSION, "conversation.type": "voice"}
    root = trace.span("conversation", None, talk)
    history: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
    for number, call in rounds(calls):
        turn: dict[str, Any] = {
            "turn.number": number + 1,
            "turn.type": "conversation",
            "conversation.id": SESSION,
        }
        around = trace.span("turn", root, turn)
        trace.span("stt", around, {"gen_ai.operation.name": "stt", "transcript": TASK})
        request: dict[str, Any] = {
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": MODEL,
            "gen_ai.operation.name": "chat",
            "gen_ai.output.type": "text",
            "stream": True,
            "input": json.dumps(history),
            "output": call.text if call else DONE,
        } | USED
        trace.span("llm", around, request)
        if call:
            function = {"name": call.tool, "arguments": call.json}
            asked = {"id": call_id(number), "type": "function", "function": function}
            told = f"Error: {call.error}" if call.error else call.result
            answer = {"role": "tool", "content": told, "tool_call_id": call_id(number)}
            history += [{"role": "assistant", "tool_calls": [asked]}, answer]
    spoken: dict[str, Any] = {
        "gen_ai.operation.name": "llm_tool_call",
        "service.operation": "llm_tool_call",
        "tool.function_name": calls[0].tool,
        "tool.call_id": call_id(0),
        "tool.calls_count": 1,
        "tool.arguments": calls[0].json,
    }
    trace.span("llm_tool_call", root, spoken, start_s=0.0, end_s=2.5)
    for name in ("tts", "llm_setup"):
        trace.span(name, root, {"gen_ai.operation.name": name})
    return trace


WRITERS: dict[str, Writer] = {
    "agent_framework": agent_framework,
    "any_agent": any_agent,
    "pipecat": pipecat,
    "google_adk": google_adk,
    "spring_ai": spring_ai,
    "koog": koog,
    "strands": strands,
    "langchain4j": langchain4j,
}
