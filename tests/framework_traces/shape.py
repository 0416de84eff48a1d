"""What a framework's trace looks like, apart from what happened in it: spans within spans.

A `Shape` says which spans a framework writes around a run, for each response of the model, and for
each tool call; `traces_of` fills it with what happened in a run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from examples.dialects import (
    GENAI,
    Asked,
    Attributes,
    Message,
    Response,
    Run,
    Wording,
    conversation,
)
from tests.otlp import INTERNAL, Event, Trace, exception

USER = "dana"
MODEL = "clerk-1"


@dataclass(frozen=True, slots=True)
class Piece:
    """One span, but for its place."""

    name: str
    attributes: Mapping[str, object]
    events: Sequence[Event] = ()
    status: Literal["ok", "error"] | None = None
    message: str = ""
    kind: int = INTERNAL


@dataclass(frozen=True, slots=True)
class Talk:
    """A run with what the model was given and answered."""

    run: Run
    responses: tuple[Response, ...]

    @property
    def first(self) -> list[Message]:
        """Return what was said before the first response."""
        return self.responses[0].messages

    @property
    def last(self) -> Response:
        """Return the last response."""
        return self.responses[-1]

    @property
    def whole(self) -> list[Message]:
        """Return all that was said."""
        return [*self.last.messages, self.last.message]

    @property
    def input_tokens(self) -> int:
        """Return the sum of all requests' tokens, as spans of agents repeat it."""
        return sum(response.input_tokens for response in self.responses)

    @property
    def output_tokens(self) -> int:
        """Return the sum of all responses' tokens."""
        return sum(response.output_tokens for response in self.responses)


def no_pieces(*_: object) -> Sequence[Piece]:
    """Return no spans: what a framework does not show."""
    return ()


@dataclass(frozen=True, slots=True)
class Shape:
    """The spans that a framework writes. Each of a sequence lies within the one before it."""

    scope: str
    around: Callable[[Talk], Sequence[Piece]]
    model: Callable[[Talk, Response], Sequence[Piece]] = no_pieces
    tool: Callable[[Talk, Asked], Sequence[Piece]] = no_pieces
    beside: Callable[[Talk, Response], Sequence[Piece]] = no_pieces  # before each response, a leaf
    step: Callable[[Talk, Response], Sequence[Piece]] = no_pieces  # around a response and its calls
    wording: Wording = GENAI
    tools_in_model: bool = False
    executed_max: int | None = None  # A framework's own guard stops before more calls are made.


def traces_of(shape: Shape, run: Run, name: str) -> list[Trace]:
    """Return the one trace of a run in a shape; its ids follow from its name."""
    trace = Trace(name, session_key=None, service=run.service, scope=shape.scope, at=run.at)
    talk = Talk(run, tuple(conversation(run, shape.wording)))
    root = _nested(trace, None, shape.around(talk))
    executed = 0
    for response in talk.responses:
        parent = _nested(trace, root, shape.step(talk, response))
        for piece in shape.beside(talk, response):
            _nested(trace, parent, [piece], 1.0)
        model = _nested(trace, parent, shape.model(talk, response), 1.0)
        for asked in response.asked:
            if shape.executed_max is None or executed < shape.executed_max:
                executed += 1
                inside = model if shape.tools_in_model else parent
                _nested(trace, inside, shape.tool(talk, asked), 1.0)
    return [trace]


def _nested(
    trace: Trace, parent: str | None, pieces: Sequence[Piece], seconds: float = 0.0
) -> str | None:
    """Add spans, each within the one before, and return the id of the innermost."""
    for piece in pieces:
        parent = trace.span(
            piece.name,
            parent,
            piece.attributes,  # type: ignore[arg-type]
            piece.events,
            kind=piece.kind,
            status=piece.status,
            message=piece.message,
            seconds=seconds if piece is pieces[-1] else 0.0,
        )
    return parent


def failing(piece: Piece, asked: Asked, message: str | None = None) -> Piece:
    """Return a tool's span with the status and the exception of a call that failed, if it did."""
    if not asked.call.error:
        return piece
    kind, said = asked.error
    events = [*piece.events, exception(kind, said)]
    text = said if message is None else message
    return replace(piece, status="error", events=events, message=text)


def seen(asked: Asked) -> str:
    """Return what came of a call, without the word that it was an error."""
    return asked.error[1] or asked.call.result


def usage(response: Response) -> Attributes:
    """Return a response's tokens under the names of OpenTelemetry."""
    return {
        "gen_ai.usage.input_tokens": response.input_tokens,
        "gen_ai.usage.output_tokens": response.output_tokens,
    }


def total_of(used: Response | Talk) -> Attributes:
    """Return the sum of tokens, which several producers write as well."""
    return {"gen_ai.usage.total_tokens": used.input_tokens + used.output_tokens}


def stop_of(response: Response) -> str:
    """Return why the model stopped, in OpenAI's word."""
    return "tool_calls" if response.asked else "stop"


def stopped(response: Response) -> Attributes:
    """Return why the model stopped, under OpenTelemetry's name."""
    return {"gen_ai.response.finish_reasons": [stop_of(response)]}


def chat(response: Response, **more: object) -> dict[str, object]:
    """Return a model's span in OpenTelemetry's names, with messages as JSON text."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": MODEL,
        "gen_ai.response.model": MODEL,
        **more,
        **usage(response),
        "gen_ai.input.messages": json.dumps(response.messages),
        "gen_ai.output.messages": json.dumps([response.message]),
    }


def executed(asked: Asked) -> dict[str, object]:
    """Return what a tool's span says in OpenTelemetry's names, without arguments and result."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": asked.name,
        "gen_ai.tool.call.id": asked.id,
    }


def arguments(asked: Asked) -> str:
    """Return a call's arguments as JSON text."""
    return json.dumps(asked.arguments)
