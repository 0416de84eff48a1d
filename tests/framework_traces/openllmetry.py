"""Shapes in OpenLLMetry's names: kinds of entities around what OpenTelemetry's names say."""

from __future__ import annotations

import json
from dataclasses import replace

from examples.dialects import GENAI, Asked, Message, Response
from tests.framework_traces.openinference import REDACTED, REDACTED_STATUS
from tests.framework_traces.shape import (
    MODEL,
    Piece,
    Shape,
    Talk,
    arguments,
    chat,
    failing,
    stopped,
    total_of,
)
from tests.otlp import CLIENT


def entity(kind: str, name: str = "", **more: object) -> dict[str, object]:
    """Return what every span of OpenLLMetry says: its kind, and mostly a name."""
    named = {"traceloop.entity.name": name} if name else {}
    return {"traceloop.span.kind": kind, **named, **more}


def _traceloop_session(talk: Talk) -> dict[str, object]:
    return {"traceloop.association.properties.session_id": talk.run.session}


def _traceloop_root(talk: Talk) -> list[Piece]:
    whole = {
        **_traceloop_session(talk),
        "traceloop.entity.input": '{"args": [], "kwargs": {}}',
        "traceloop.entity.output": json.dumps(talk.last.step.text),
    }
    agent = {"gen_ai.agent.name": talk.run.agent, **whole}
    return [
        Piece(f"{talk.run.service}.workflow", entity("workflow", talk.run.service, **whole)),
        Piece(f"{talk.run.agent}.agent", entity("agent", talk.run.agent, **agent)),
    ]


def _traceloop_tool(talk: Talk, asked: Asked) -> list[Piece]:
    said = entity(
        "tool",
        asked.name,
        **{"gen_ai.tool.name": asked.name, "gen_ai.agent.name": talk.run.agent},
        **_traceloop_session(talk),
        **{"traceloop.entity.input": json.dumps({"args": [], "kwargs": asked.arguments})},
    )
    if not asked.call.error:
        said["traceloop.entity.output"] = json.dumps(asked.call.result)
    return [failing(Piece(f"{asked.name}.tool", said), asked)]


def _prefixed(asked: Asked) -> Message:
    text = f"ERROR: {asked.error[1]}" if asked.call.error else asked.call.result
    part = {"type": "tool_call_response", "id": asked.id, "response": text}
    return {"role": "tool", "parts": [part]}


# Traceloop's decorators around the OpenAI SDK: arguments and results are wrapped.
TRACELOOP = Shape(
    "traceloop.tracer",
    around=_traceloop_root,
    model=lambda talk, response: [
        Piece(
            "openai.chat",
            chat(
                response,
                **{"gen_ai.agent.name": talk.run.agent},
                **_traceloop_session(talk),
                **stopped(response),
                **total_of(response),
            ),
            kind=CLIENT,
        )
    ],
    tool=_traceloop_tool,
    wording=replace(GENAI, answered=_prefixed),
)


def _agents_tool(_: Talk, asked: Asked) -> list[Piece]:
    said = entity(
        "tool",
        **{
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": asked.name,
            "gen_ai.tool.call.arguments": arguments(asked),
            "gen_ai.tool.call.result": REDACTED if asked.call.error else asked.call.result,
        },
    )
    piece = Piece(f"{asked.name}.tool", said, status="ok")
    if not asked.call.error:
        return [piece]
    return [replace(piece, status="error", message=REDACTED_STATUS)]


def _agents_model(_: Talk, response: Response) -> list[Piece]:
    said = chat(response, **stopped(response), **total_of(response))
    del said["gen_ai.request.model"]
    said["gen_ai.usage.cache_read.input_tokens"] = response.input_tokens // 2
    said["gen_ai.usage.reasoning_tokens"] = response.output_tokens // 4
    given = [part for m in response.messages for part in _agents_message(m, past=True)]
    said["gen_ai.input.messages"] = json.dumps(given)
    said["gen_ai.output.messages"] = json.dumps(_agents_message(response.message, past=False))
    return [Piece("openai.response", said, status="ok", kind=CLIENT)]


def _agents_message(message: Message, past: bool) -> list[Message]:
    """Return a message in the parts of OpenAI's Responses API.

    A call of the past goes by the id of its item, which is not the one that its result has.
    """
    if message["role"] != "assistant":
        return [message]
    parts = [
        {**part, "id": part["id"].replace("call_", "fc_")} if past and "id" in part else part
        for part in message["parts"]
    ]
    return [{"role": "assistant", "parts": [part]} for part in parts]


# OpenAI's Agents SDK with OpenLLMetry.
OPENAI_AGENTS = Shape(
    "opentelemetry.instrumentation.openai_agents",
    around=lambda talk: [
        Piece("Agent Workflow", entity("workflow"), status="ok"),
        Piece(
            f"{talk.run.agent}.agent",
            entity(
                "agent",
                **{
                    "gen_ai.agent.name": talk.run.agent,
                    "gen_ai.operation.name": "invoke_agent",
                },
            ),
            status="ok",
        ),
    ],
    model=_agents_model,
    tool=_agents_tool,
    wording=replace(
        GENAI,
        answered=lambda asked: {
            "role": "tool",
            "parts": [
                {
                    "type": "tool_call_response",
                    "id": asked.id,
                    "response": REDACTED if asked.call.error else asked.call.result,
                }
            ],
        },
    ),
)


def _blocks(text: str) -> list[Message]:
    return [{"block_type": "text", "text": text}]


def _llama_task(**more: object) -> dict[str, object]:
    return entity("task", "BaseWorkflowAgent.task", **more)


def _llama_step(talk: Talk) -> Piece:
    said = {
        "input": [{"role": "user", "blocks": _blocks(talk.run.task)}],
        "current_agent_name": talk.run.agent,
    }
    return Piece("BaseWorkflowAgent.task", _llama_task(**_entity_output(said)))


def _entity_output(value: object) -> dict[str, object]:
    return {"traceloop.entity.output": json.dumps(value)}


def _llama_model(_: Talk, response: Response) -> list[Piece]:
    said = chat(response, **entity("task", "Scripted.task"), **total_of(response))
    said["gen_ai.request.model"] = None
    del said["gen_ai.response.model"]
    said["traceloop.entity.input"] = '{"messages": []}'
    return [Piece("BaseWorkflowAgent.task", _llama_task()), Piece("Scripted.task", said)]


def _suite(asked: Asked) -> str:
    """Return what a run of tests printed: that some failed is told by its words alone."""
    return f"2 tests failed: {asked.error[1]}" if asked.error[1] else asked.call.result


def _llama_tool(_: Talk, asked: Asked) -> list[Piece]:
    result = {
        "tool_name": asked.name,
        "tool_kwargs": asked.arguments,
        "tool_id": asked.id,
        "tool_output": {"blocks": _blocks(_suite(asked)), "is_error": bool(asked.call.error)},
    }
    called = {"tool.name": asked.name, "tool.arguments": arguments(asked)}
    call = Piece("BaseWorkflowAgent.task", _llama_task(**called, **_entity_output(result)))
    if asked.call.error:
        return [call]
    inner = {"traceloop.entity.input": json.dumps({"kwargs": asked.arguments})}
    return [call, Piece("FunctionTool.task", entity("task", "FunctionTool.task", **inner))]


# LlamaIndex with OpenLLMetry: everything is a task, and a failure reads like any other result.
LLAMAINDEX = Shape(
    "opentelemetry.instrumentation.llamaindex",
    around=lambda _: [
        Piece("FunctionAgent.workflow", entity("workflow", "FunctionAgent.workflow"))
    ],
    beside=lambda talk, _: [
        _llama_step(talk),
        Piece("Scripted.task", entity("task", "Scripted.task", **_entity_output({"messages": []}))),
    ],
    model=_llama_model,
    tool=_llama_tool,
    wording=replace(
        GENAI,
        answered=lambda asked: {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": asked.id, "response": _suite(asked)}],
        },
    ),
)


def _crew_root(talk: Talk) -> list[Piece]:
    operation = {"gen_ai.operation.name": "invoke_agent"}
    agent = {"crewai.agent.role": talk.run.agent, "gen_ai.agent.name": talk.run.agent}
    pieces = [
        Piece("crewai.workflow", operation),
        Piece(f"{talk.run.task}.task", entity("task", **operation)),
        Piece(f"{talk.run.agent}.agent", entity("agent", **operation, **agent)),
    ]
    calls = [call for step in talk.run.steps for call in step.calls]
    if not all(call.error for call in calls):
        crew, task, last = (replace(piece, status="ok") for piece in pieces)
        done = {"traceloop.entity.output": talk.last.step.text}
        models = {"gen_ai.request.model": MODEL, "gen_ai.response.model": MODEL}
        return [
            crew,
            replace(task, attributes={**task.attributes, **done}),
            replace(last, attributes={**last.attributes, **models}),
        ]
    stopped = Asked("", replace(calls[0], error="ToolExecutionFailedError: stopped"))
    return [failing(piece, stopped, "ToolExecutionFailedError: stopped") for piece in pieces]


# CrewAI with OpenLLMetry: three spans of agents, and nothing of a tool or a model.
CREWAI = Shape("opentelemetry.instrumentation.crewai", around=_crew_root)
