"""Shapes in OpenTelemetry's own names for generative AI, and in those that came before them."""

from __future__ import annotations

import json
from dataclasses import replace

from examples.dialects import GENAI, PYDANTIC, Asked, Message, Response, compact
from tests.framework_traces.shape import (
    MODEL,
    Piece,
    Shape,
    Talk,
    arguments,
    chat,
    executed,
    failing,
    seen,
    stopped,
    total_of,
    usage,
)
from tests.otlp import CLIENT

TOOL_ERROR = "TOOL_ERROR"


def invoke(talk: Talk, **more: object) -> Piece:
    """Return the span of an agent at work."""
    named = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": talk.run.agent}
    return Piece(f"invoke_agent {talk.run.agent}", {**named, **more})


def conversation_id(talk: Talk) -> dict[str, object]:
    """Return the session under OpenTelemetry's name."""
    return {"gen_ai.conversation.id": talk.run.session}


def answers_with(response: Response, *parts: Message) -> str:
    """Return a response's output messages, as JSON text, with parts of its message."""
    return json.dumps([{**response.message, "parts": list(parts)}])


# LangGraph with OpenTelemetry's instrumentation: tools name no session; failures have no event.
LANGGRAPH = Shape(
    "opentelemetry.instrumentation.genai.langchain",
    around=lambda talk: [
        invoke(
            talk,
            **conversation_id(talk),
            **{
                "gen_ai.input.messages": json.dumps(talk.first[1:]),
                "gen_ai.output.messages": json.dumps([talk.last.message]),
            },
        )
    ],
    model=lambda talk, response: [
        Piece(
            f"chat {MODEL}",
            chat(response, **conversation_id(talk), **stopped(response)),
            kind=CLIENT,
        )
    ],
    tool=lambda talk, asked: [_langgraph_tool(talk, asked)],
)


def _langgraph_tool(talk: Talk, asked: Asked) -> Piece:
    kind, message = asked.error
    failed = {"error.type": kind} if kind else {"gen_ai.tool.call.result": asked.call.result}
    said = {**executed(asked), "gen_ai.agent.name": talk.run.agent}
    given = {"gen_ai.tool.call.arguments": arguments(asked)}
    status = "error" if kind else None
    return Piece(f"execute_tool {asked.name}", said | given | failed, (), status, message)  # type: ignore[arg-type]


def _plain_root(talk: Talk) -> list[Piece]:
    return [Piece(talk.run.service, {})]


def _sdk_model(_: Talk, response: Response) -> list[Piece]:
    """Return a model's span in which the calls come before the text."""
    text, *calls = response.message["parts"]
    said = {"gen_ai.output.messages": answers_with(response, *calls, text)}
    return [Piece(f"chat {MODEL}", chat(response, **stopped(response)) | said, kind=CLIENT)]


# The OpenAI SDK alone, with OpenTelemetry's instrumentation and with OpenLLMetry's: models only.
OPENAI = Shape("opentelemetry.instrumentation.genai.openai", around=_plain_root, model=_sdk_model)
OPENAI_OPENLLMETRY = Shape(
    "opentelemetry.instrumentation.openai.v1",
    around=_plain_root,
    model=lambda _, response: [
        Piece("openai.chat", chat(response, **stopped(response), **total_of(response)), kind=CLIENT)
    ],
)


def _pydantic_model(talk: Talk, response: Response) -> list[Piece]:
    named = {"gen_ai.agent.name": talk.run.agent, **conversation_id(talk)}
    given = {"gen_ai.input.messages": compact(response.messages[1:])}
    return [Piece(f"chat {MODEL}", chat(response, **named) | given, kind=CLIENT)]


def _pydantic_tool(talk: Talk, asked: Asked, name: str = "", old: bool = False) -> Piece:
    keys = ("tool_arguments", "tool_response")
    new = ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
    given, told = keys if old else new
    said = {
        **executed(asked),
        given: compact(asked.arguments),
        "gen_ai.agent.name": talk.run.agent,
        **conversation_id(talk),
        told: seen(asked),
    }
    return failing(Piece(name or f"execute_tool {asked.name}", said), asked, "")


def pydantic_root(talk: Talk) -> Piece:
    """Return Pydantic AI's outer span, which repeats the sum of the tokens."""
    sums = {
        "gen_ai.aggregated_usage.input_tokens": talk.input_tokens,
        "gen_ai.aggregated_usage.output_tokens": talk.output_tokens,
    }
    return invoke(talk, agent_name=talk.run.agent, **conversation_id(talk), **sums)


# Pydantic AI tells the model of a failure in the name of the person. A failed tool has a result.
PYDANTIC_SAYS = replace(
    PYDANTIC,
    answered=lambda asked: {
        "role": "user",
        "parts": [
            {
                "type": "tool_call_response",
                "id": asked.id,
                "name": asked.name,
                "result": seen(asked),
            }
        ],
    },
)
PYDANTIC_AI = Shape(
    "pydantic-ai",
    around=lambda talk: [pydantic_root(talk)],
    model=_pydantic_model,
    tool=lambda talk, asked: [_pydantic_tool(talk, asked)],
    wording=PYDANTIC_SAYS,
)
PYDANTIC_AI_2 = replace(
    PYDANTIC_AI,
    around=lambda talk: [replace(pydantic_root(talk), name="agent run")],
    tool=lambda talk, asked: [_pydantic_tool(talk, asked, "running tool", old=True)],
)


def pydantic_tool(talk: Talk, asked: Asked) -> Piece:
    """Return the span of a tool in Pydantic AI's newer names."""
    return _pydantic_tool(talk, asked)


def pydantic_model(talk: Talk, response: Response) -> Piece:
    """Return the span of a model in Pydantic AI's newer names."""
    return _pydantic_model(talk, response)[0]


# Google's ADK: names, tokens, and that a tool failed; neither arguments nor results nor texts.
ADK = Shape(
    "gcp.vertex.agent",
    around=lambda talk: [
        Piece(
            f"invoke_workflow {talk.run.agent}",
            {"gen_ai.operation.name": "invoke_workflow", **conversation_id(talk)},
        ),
        invoke(talk, **conversation_id(talk)),
    ],
    model=lambda talk, response: [
        Piece(
            f"generate_content {MODEL}",
            {
                "gen_ai.operation.name": "generate_content",
                "gen_ai.request.model": MODEL,
                "gen_ai.agent.name": talk.run.agent,
                **conversation_id(talk),
                **stopped(response),
                **usage(response),
            },
        )
    ],
    tool=lambda talk, asked: [adk_tool(talk, asked)],
)


def adk_tool(talk: Talk, asked: Asked) -> Piece:
    """Return the span of a tool that ADK writes; what went wrong is always the same word."""
    said = {**executed(asked), "gen_ai.agent.name": talk.run.agent}
    name = f"execute_tool {asked.name}"
    if asked.call.error:
        return Piece(name, said | {"error.type": TOOL_ERROR}, (), "error", TOOL_ERROR)
    return Piece(name, said)


def _said_as_text(step_message: Message) -> Message:
    """Return a message whose calls carry their arguments as JSON text."""
    parts = [
        part | ({"arguments": json.dumps(part["arguments"])} if "arguments" in part else {})
        for part in step_message["parts"]
    ]
    return {**step_message, "parts": parts}


def _framework_tool(_: Talk, asked: Asked) -> list[Piece]:
    kind, message = asked.error
    failed = {"error.type": kind} if kind else {"gen_ai.tool.call.result": asked.call.result}
    said = {**executed(asked), "gen_ai.tool.call.arguments": arguments(asked), **failed}
    piece = Piece(f"execute_tool {asked.name}", said)
    return [failing(piece, asked, f"{kind}({message!r})")]


# Microsoft's Agent Framework: the model is not told what failed, and a guard ends the third time.
AGENT_FRAMEWORK = Shape(
    "agent_framework",
    around=lambda talk: [
        invoke(
            talk,
            **{
                "gen_ai.request.model": MODEL,
                **stopped(talk.last),
                "gen_ai.usage.input_tokens": talk.input_tokens,
                "gen_ai.usage.output_tokens": talk.output_tokens,
                "gen_ai.input.messages": json.dumps(talk.first[1:]),
                "gen_ai.output.messages": json.dumps(talk.whole[2:]),
            },
        )
    ],
    model=lambda _, response: [
        Piece(
            f"chat {MODEL}",
            chat(response, **stopped(response))
            | {"gen_ai.input.messages": json.dumps(response.messages[1:])},
        )
    ],
    tool=_framework_tool,
    wording=replace(
        GENAI,
        said=lambda step, asked: _said_as_text(GENAI.said(step, asked)),
        answered=lambda asked: {
            "role": "tool",
            "parts": [
                {
                    "type": "tool_call_response",
                    "id": asked.id,
                    "response": "Error: Function failed."
                    if asked.call.error
                    else asked.call.result,
                }
            ],
        },
    ),
    executed_max=3,
)
