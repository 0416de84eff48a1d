"""Shapes of Strands, which writes what was said into span events, and of AutoGen's many traces."""

from __future__ import annotations

import json
from dataclasses import replace

from examples.dialects import GENAI, STRANDS, Asked, Message, Response, Run
from tests.framework_traces.genai import invoke
from tests.framework_traces.shape import (
    Piece,
    Shape,
    Talk,
    arguments,
    executed,
    failing,
    total_of,
    usage,
)
from tests.otlp import CLIENT, CONSUMER, PRODUCER, Event, Trace, exception

DETAILS = "gen_ai.client.inference.operation.details"


def _strands_messages(messages: list[Message]) -> list[Event]:
    return [
        (f"gen_ai.{message['role']}.message", {"content": json.dumps(message["content"])})
        for message in messages
    ]


def _strands_choice(response: Response, *, called: bool = False) -> Event:
    """Return the event of a response; a cycle's has what came of the calls as well."""
    said = {"message": json.dumps(response.message["content"])}
    results = json.dumps([_strands_told(asked) for asked in response.asked])
    return "gen_ai.choice", said | (
        {"tool.result": results} if called else {"finish_reason": "tool_use"}
    )


def _strands_root(talk: Talk, *events: Event, **more: object) -> list[Piece]:
    sums = {
        "session.id": talk.run.session,
        "gen_ai.usage.prompt_tokens": talk.input_tokens,
        "gen_ai.usage.completion_tokens": talk.output_tokens,
        "gen_ai.usage.input_tokens": talk.input_tokens,
        "gen_ai.usage.output_tokens": talk.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        **total_of(talk),
        **more,
    }
    return [replace(invoke(talk, **sums), events=events, status="ok")]


def _strands_cycle(talk: Talk, *events: Event) -> list[Piece]:
    name = "execute_event_loop_cycle"
    said = {"gen_ai.operation.name": name, "session.id": talk.run.session}
    return [Piece(name, said, events, "ok")]


def _strands_model(talk: Talk, response: Response, *events: Event) -> list[Piece]:
    said = {
        "gen_ai.operation.name": "chat",
        "session.id": talk.run.session,
        **usage(response),
        **total_of(response),
        "gen_ai.usage.prompt_tokens": response.input_tokens,
        "gen_ai.usage.completion_tokens": response.output_tokens,
    }
    return [Piece("chat", said, events, "ok")]


def _strands_tool(talk: Talk, asked: Asked, events: list[Event], **more: str) -> list[Piece]:
    status = "error" if asked.call.error else "success"
    said = {**executed(asked), "session.id": talk.run.session, "gen_ai.tool.status": status}
    piece = Piece(f"execute_tool {asked.name}", said | more, events, "ok")
    return [failing(piece, asked)]


def _strands_told(asked: Asked) -> Message:
    status = "error" if asked.call.error else "success"
    result = {"toolUseId": asked.id, "status": status, "content": _strands_result(asked)}
    return {"toolResult": result}


def _strands_result(asked: Asked) -> list[Message]:
    kind, message = asked.error
    return [{"text": f"Error: {kind} - {message}" if kind else asked.call.result}]


# Strands, first form: all content is in events named after the roles of the messages.
STRANDS_OLD = Shape(
    "strands.telemetry.tracer",
    around=lambda talk: _strands_root(
        talk,
        *_strands_messages(talk.first),
        ("gen_ai.choice", {"message": talk.last.step.text, "finish_reason": "end_turn"}),
        **{"gen_ai.usage.cache_read_input_tokens": 0, "gen_ai.usage.cache_write_input_tokens": 0},
    ),
    step=lambda talk, response: _strands_cycle(
        talk, *_strands_messages(response.messages[1:]), _strands_choice(response, called=True)
    ),
    model=lambda talk, response: _strands_model(
        talk, response, *_strands_messages(response.messages), _strands_choice(response)
    ),
    tool=lambda talk, asked: _strands_tool(
        talk,
        asked,
        [
            ("gen_ai.tool.message", {"role": "tool", "content": arguments(asked), "id": asked.id}),
            ("gen_ai.choice", {"message": json.dumps(_strands_result(asked)), "id": asked.id}),
        ],
    ),
    wording=replace(
        STRANDS,
        answered=lambda asked: {"role": "tool", "content": [_strands_told(asked)]},
    ),
)


def _details(key: str, *messages: Message) -> Event:
    return DETAILS, {f"gen_ai.{key}": json.dumps(messages)}


def _strands_details_tool(talk: Talk, asked: Asked) -> list[Piece]:
    call = {"type": "tool_call", "name": asked.name, "id": asked.id, "arguments": asked.arguments}
    told = {"type": "tool_call_response", "id": asked.id, "response": _strands_result(asked)}
    events = [
        _details("input.messages", {"role": "tool", "parts": [call]}),
        _details("output.messages", {"role": "tool", "parts": [told]}),
    ]
    result = {} if asked.call.error else {"result": json.dumps(_strands_result(asked))}
    more = {f"gen_ai.tool.call.{key}": text for key, text in result.items()}
    given = {"gen_ai.tool.call.arguments": arguments(asked)}
    return _strands_tool(talk, asked, events, **given, **more)


# Strands, newer form: content is in events that carry the attributes of the convention.
STRANDS_DETAILS = Shape(
    "strands.telemetry.tracer",
    around=lambda talk: _strands_root(
        talk,
        _details("input.messages", *talk.first[1:]),
        _details("output.messages", talk.last.message),
    ),
    step=lambda talk, response: _strands_cycle(
        talk, _details("input.messages", *response.messages[1:])
    ),
    model=lambda talk, response: _strands_model(
        talk,
        response,
        _details("system_instructions", {"type": "text", "content": talk.run.instructions}),
        _details("input.messages", *response.messages[1:]),
        _details("output.messages", response.message),
    ),
    tool=_strands_details_tool,
    wording=replace(
        GENAI,
        answered=lambda asked: {
            "role": "user",
            "parts": [
                {"type": "tool_call_response", "id": asked.id, "response": _strands_result(asked)}
            ],
        },
    ),
)


def autogen(run: Run, name: str) -> list[Trace]:
    """Return AutoGen's traces: one for each message sent, held together by links alone."""
    made = Trace(name, name="made", session_key=None, service=run.service, at=run.at)
    named = {"gen_ai.agent.name": run.agent}
    made.span(
        f"create_agent {run.agent}",
        None,
        {"gen_ai.operation.name": "create_agent", **named},
        kind=CLIENT,
    )
    sender = Trace(name, name="sender", session_key=None, service=run.service, at=run.at)
    sent = sender.span("autogen create manager", None, _messaging("create"), kind=PRODUCER)
    work = Trace(name, name="work", session_key=None, service=run.service, at=run.at)
    link = [(sender.trace_id, sent)]
    publish = _messaging("publish")
    outer = work.span("autogen publish", None, publish, links=link, kind=PRODUCER, seconds=0)
    receive = _messaging("process")
    inner = work.span("autogen process", outer, receive, links=link, kind=CONSUMER, seconds=0)
    around = {"gen_ai.operation.name": "invoke_agent", **named}
    agent = work.span(f"invoke_agent {run.agent}", inner, around, kind=CLIENT, seconds=0)
    traces = [made, sender, work]
    for number, call in enumerate(call for step in run.steps for call in step.calls):
        asked = Asked(f"call_{number}", call)
        _autogen_tool(work, agent, asked)
        topic = work.span("autogen create topic", agent, _messaging("create"), kind=PRODUCER)
        told = Trace(name, name=f"told {number}", session_key=None, service=run.service, at=run.at)
        told.span(
            "autogen publish topic",
            None,
            _messaging("publish"),
            links=[(work.trace_id, topic)],
            kind=PRODUCER,
            start_s=work.now_s,
        )
        traces.append(told)
    return traces


def _messaging(operation: str) -> dict[str, str]:
    return {"messaging.operation": operation, "messaging.destination": "packer"}


def _autogen_tool(trace: Trace, parent: str, asked: Asked) -> None:
    """Add a tool's span: it has the exception twice, and no arguments and no result."""
    kind, message = asked.error
    failed = {"error.type": kind} if kind else {}
    trace.span(
        f"execute_tool {asked.name}",
        parent,
        {**executed(asked), **failed},  # type: ignore[dict-item]
        [exception(kind, message)] * 2 if kind else (),
        status="error" if kind else None,
        message=f"{kind}: {message}" if kind else "",
    )
