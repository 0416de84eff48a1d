"""What the agents of the examples do: a loop of six equal failing calls, and other work."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tests.otlp import Trace

SESSION, AGENT = "depot-4", "packer"
MODEL = "model-s"
SYSTEM = "You pack orders."
TASK = "Get order A17 ready."
DONE = "Order A17 can go."
TOKENS = (120, 30)
# What was read from a cache or put into one is a part of the input, what was thought of the output.
CACHED, CACHE_WRITTEN, THOUGHT = 80, 20, 10


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool with what the model said before it, and how it ended."""

    text: str
    tool: str
    arguments: Mapping[str, Any]
    result: str = ""
    error: str = ""

    @property
    def json(self) -> str:
        """The arguments as JSON."""
        return json.dumps(self.arguments)

    @property
    def status(self) -> Literal["ok", "error"]:
        """The status of the span."""
        return "error" if self.error else "ok"

    @property
    def told(self) -> str:
        """What the agent hears of the call."""
        return self.error or self.result


_CHECK = Call(
    "I check the labels.",
    "check_labels",
    {"order": "A17"},
    error="LabelError: 2 labels are missing",
)
LOOP = (_CHECK,) * 6
OTHER = (
    Call("I read the order.", "read_order", {"order": "A17"}, "crates A and B"),
    Call("I count the labels.", "check_labels", {"order": "A17"}, "2 labels are missing"),
    Call("Crate A first.", "print_label", {"order": "A17", "crate": "A"}, "printed for A"),
    Call("Now crate B.", "print_label", {"order": "A17", "crate": "B"}, "printed for B"),
)


# Writes what a producer would write of these calls.
Writer: TypeAlias = "Callable[[Sequence[Call]], Trace]"


def blank_trace(name: str, scope: str) -> Trace:
    """Return a trace of a producer, with its session only where the producer writes it."""
    return Trace(SESSION, name=name, session_key=None, service=name, scope=scope)


def call_id(number: int) -> str:
    """Return the id of the call with this number."""
    return f"call-{number}"


def parts_history(calls: Sequence[Call]) -> list[dict[str, Any]]:
    """Return the conversation so far in the form of the GenAI conventions."""
    history: list[dict[str, Any]] = [
        {"role": "system", "parts": [{"type": "text", "content": SYSTEM}]},
        {"role": "user", "parts": [{"type": "text", "content": TASK}]},
    ]
    for number, call in enumerate(calls):
        answered = {"type": "tool_call_response", "id": call_id(number), "response": call.told}
        history += [parts_answer(call, number), {"role": "tool", "parts": [answered]}]
    return history


def parts_answer(call: Call | None, number: int) -> dict[str, Any]:
    """Return an answer in the form of the GenAI conventions; without a call it is the last."""
    if call is None:
        return {"role": "assistant", "parts": [{"type": "text", "content": DONE}]}
    asked = {
        "type": "tool_call",
        "id": call_id(number),
        "name": call.tool,
        "arguments": dict(call.arguments),
    }
    return {"role": "assistant", "parts": [{"type": "text", "content": call.text}, asked]}


def rounds(calls: Sequence[Call]) -> list[tuple[int, Call | None]]:
    """Return the calls with their numbers; other work than the loop ends with an answer."""
    end: list[tuple[int, Call | None]] = [] if calls == LOOP else [(len(calls), None)]
    return [*enumerate(calls), *end]
