"""Shapes in which one span speaks two conventions, and must count once."""

from __future__ import annotations

import json
from dataclasses import replace

from examples.dialects import OPENAI, Asked, Message, Response
from tests.framework_traces import genai
from tests.framework_traces.openinference import INVOKED, flat, kind, llm, values
from tests.framework_traces.shape import (
    MODEL,
    USER,
    Piece,
    Shape,
    Talk,
    arguments,
    seen,
    stopped,
)


def _both_root(talk: Talk) -> list[Piece]:
    piece = genai.pydantic_root(talk)
    more = kind("AGENT", **{"session.id": talk.run.session})
    whole = values(talk.run.task, talk.last.step.text)
    return [replace(piece, attributes={**piece.attributes, **more, **whole}, status="ok")]


def _both_model(talk: Talk, response: Response) -> list[Piece]:
    piece = genai.pydantic_model(talk, response)
    plain = [m for message in response.messages for m in _from_parts(message)]
    answer = _from_parts(response.message)
    said = llm(
        response,
        flat("llm.input_messages", plain, first_call=1, parts=("user",)),
        flat("llm.output_messages", answer, first_call=1),
    )
    told = values(talk.run.task, answer[0])
    more = {"session.id": talk.run.session, **told}
    return [replace(piece, attributes={**piece.attributes, **said, **more}, status="ok")]


def _from_parts(message: Message) -> list[Message]:
    """Return OpenAI's message for one with parts."""
    texts = [part["content"] for part in message["parts"] if part["type"] == "text"]
    calls = [
        {"id": p["id"], "function": {"name": p["name"], "arguments": json.dumps(p["arguments"])}}
        for p in message["parts"]
        if p["type"] == "tool_call"
    ]
    for part in message["parts"]:
        if part["type"] == "tool_call_response":
            return [{"role": "tool", "content": part["result"], "tool_call_id": part["id"]}]
    said = {"role": message["role"], "content": texts[0]}
    return [said | ({"tool_calls": calls} if calls else {})]


def _both_tool(talk: Talk, asked: Asked) -> list[Piece]:
    piece = genai.pydantic_tool(talk, asked)
    more = kind(
        "TOOL",
        **{
            "session.id": talk.run.session,
            "tool.name": asked.name,
            "tool_call.id": asked.id,
            "tool.parameters": arguments(asked),
        },
        **values(arguments(asked), seen(asked)),
    )
    status = piece.status or "ok"
    return [replace(piece, attributes={**piece.attributes, **more}, status=status)]


# Pydantic AI whose spans OpenInference's processor rewrote: one span speaks both conventions.
PYDANTIC_AI = replace(genai.PYDANTIC_AI, around=_both_root, model=_both_model, tool=_both_tool)


def _adk_root(talk: Talk) -> list[Piece]:
    session = {"session.id": talk.run.session, "user.id": USER}
    answer = {"content": {"parts": [{"text": talk.last.step.text}]}}
    flow = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.conversation.id": talk.run.session}
    return [
        Piece("invocation", kind("CHAIN", **session, **values(talk.run.task, answer)), status="ok"),
        Piece(f"invoke_workflow {talk.run.agent}", kind("CHAIN", **flow, **session)),
        Piece(
            f"agent_run [{talk.run.agent}]",
            kind("AGENT", **{"agent.name": talk.run.agent}, **session, **values(None, answer)),
            status="ok",
        ),
        Piece(f"invoke_agent {talk.run.agent}", _adk_overwritten(talk), status="ok"),
    ]


def _adk_overwritten(talk: Talk) -> dict[str, object]:
    """Return the agent's span as the last model call left it, with a call of the one before."""
    last = talk.last
    counted = {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.request.model": MODEL,
        "gen_ai.agent.name": talk.run.agent,
        "gen_ai.conversation.id": talk.run.session,
        **stopped(last),
        "gen_ai.usage.input_tokens": last.input_tokens,
        "gen_ai.usage.output_tokens": last.output_tokens,
    }
    calls = talk.responses[-2].message["tool_calls"]
    left_over = {**last.message, "role": "model", "tool_calls": calls}
    given = flat("llm.input_messages", last.messages, 1, ("user", "model"))
    told = flat("llm.output_messages", [left_over], 1, ("model",))
    whole = values({"contents": [talk.run.task]}, {"content": last.step.text})
    return counted | llm(last, given, told) | INVOKED | whole


def _adk_tool(talk: Talk, asked: Asked) -> list[Piece]:
    piece = genai.adk_tool(talk, asked)
    key = "error" if asked.call.error else "output"
    told = {"id": asked.id, "name": asked.name, "response": {key: seen(asked)}}
    named = {"session.id": talk.run.session, "user.id": USER}
    named |= {"tool.name": asked.name, "tool.id": asked.id}
    named["tool.parameters"] = arguments(asked)
    more = kind("TOOL", **named, **values(arguments(asked), told))
    status = piece.status or "ok"
    return [replace(piece, attributes={**piece.attributes, **more}, status=status)]


# Google's ADK with OpenInference: all model calls are written onto the agent's one span.
ADK = Shape(
    "openinference.instrumentation.google_adk",
    around=_adk_root,
    tool=_adk_tool,
    wording=replace(
        OPENAI,
        said=lambda step, asked: {**OPENAI.said(step, asked), "role": "model"},
        answered=lambda asked: {
            "role": "tool",
            "name": asked.name,
            "tool_call_id": asked.id,
            "content": json.dumps({"error" if asked.call.error else "output": seen(asked)}),
        },
    ),
)
