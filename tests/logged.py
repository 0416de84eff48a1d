"""Builds sessions whose spans have no content, and the log records that have it.

Each form of the records is one that producers write: messages as events with bodies (conventions
before 1.37), one event with all of it (since then), and AgentCore's bodies under the scope's name.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tests.otlp import Attributes, any_value, key_values

Record: TypeAlias = dict[str, Any]
Request: TypeAlias = dict[str, Any]
Form = Literal["messages", "messages_text", "named", "details", "details_text", "agentcore"]
FORMS: tuple[Form, ...] = (
    "messages",
    "messages_text",
    "named",
    "details",
    "details_text",
    "agentcore",
)

START_S, NS = 1_790_000_000, 1_000_000_000
SCOPE = "opentelemetry.instrumentation.openai_v2"
DETAILS = "gen_ai.client.inference.operation.details"


@dataclass(frozen=True)
class Step:
    """One response that asks for a call, and the result of the call before it."""

    path: str
    result: str | None


LOOP = [Step("a", "1 failed")] * 6
OK = [Step(path, f"{number} failed") for number, path in enumerate("abcdef")]


def trace_id(session: str) -> str:
    """Return the id of the trace of a session."""
    return session.encode().hex().rjust(32, "a")


def span(session: str, number: int, operation: str = "chat", **attributes: str) -> dict[str, Any]:
    """Return a span without content: a response, or with another operation a call."""
    at_ns = (START_S + 2 * number) * NS
    said = {
        "gen_ai.operation.name": operation,
        "gen_ai.conversation.id": session,
        "gen_ai.request.model": "m",
        **attributes,
    }
    return {
        "traceId": trace_id(session),
        "spanId": f"{number + 1:016x}",
        "name": f"{operation} m",
        "startTimeUnixNano": str(at_ns),
        "endTimeUnixNano": str(at_ns + NS),
        "attributes": key_values(said),
    }


def spans(*each: Mapping[str, Any]) -> Request:
    """Return a request of spans."""
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": SCOPE}, "spans": list(each)}]}]}


def logs(*each: Record) -> Request:
    """Return a request of log records."""
    scope = {"scope": {"name": SCOPE}, "logRecords": list(each)}
    return {"resourceLogs": [{"scopeLogs": [scope]}]}


def record(
    session: str,
    number: int,
    name: str,
    body: Any = None,
    attributes: Attributes | None = None,
    *,
    named: bool = False,
) -> Record:
    """Return an event of a span; with `named` an attribute has its name, as it was before 1.27."""
    given = {**(attributes or {}), **({"event.name": name} if named else {})}
    return {
        "observedTimeUnixNano": str((START_S + 2 * number) * NS + NS // 2),
        "traceId": trace_id(session),
        "spanId": f"{number + 1:016x}",
        **({} if named else {"eventName": name}),
        **({} if body is None else {"body": any_value(body)}),
        "attributes": key_values(given),
    }


def call(number: int, path: str) -> dict[str, Any]:
    """Return a call that a response asks for."""
    function = {"name": "run_tests", "arguments": json.dumps({"path": path})}
    return {"id": f"c{number}", "type": "function", "function": function}


def records(session: str, number: int, steps: Sequence[Step], form: Form) -> list[Record]:
    """Return the log records of one response: the history that it was given, and its answer."""
    before, step = steps[:number], steps[number]
    if form in ("details", "details_text"):
        return [_details(session, number, before, step, is_text=form == "details_text")]
    if form == "agentcore":
        return [_agentcore(session, number, before, step)]

    def event(name: str, body: dict[str, Any]) -> Record:
        content = json.dumps(body) if form == "messages_text" else body
        system = {"gen_ai.system": "openai"}
        return record(session, number, name, content, system, named=form == "named")

    history = [event("gen_ai.user.message", {"content": "Mend the tests."})]
    for i, earlier in enumerate(before):
        history.append(event("gen_ai.assistant.message", {"tool_calls": [call(i, earlier.path)]}))
        history.append(event("gen_ai.tool.message", {"id": f"c{i}", "content": earlier.result}))
    message = {"role": "assistant", "tool_calls": [call(number, step.path)]}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    return [*history, event("gen_ai.choice", choice)]


def _parts(before: Sequence[Step]) -> list[dict[str, Any]]:
    """Return a history in the messages of the conventions since 1.37."""
    asked = {"role": "user", "parts": [{"type": "text", "content": "Mend the tests."}]}
    messages = [asked]
    for i, earlier in enumerate(before):
        response = {"type": "tool_call_response", "id": f"c{i}", "response": earlier.result}
        messages += [_answer(i, earlier.path), {"role": "tool", "parts": [response]}]
    return messages


def _answer(number: int, path: str) -> dict[str, Any]:
    asked = {"type": "tool_call", "id": f"c{number}", "name": "run_tests"}
    return {"role": "assistant", "parts": [{**asked, "arguments": {"path": path}}]}


def _details(
    session: str, number: int, before: Sequence[Step], step: Step, *, is_text: bool
) -> Record:
    write: Callable[[Any], Any] = json.dumps if is_text else list
    content = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": write(_parts(before)),
        "gen_ai.output.messages": write([_answer(number, step.path)]),
    }
    return record(session, number, DETAILS, attributes=content)


def _agentcore(session: str, number: int, before: Sequence[Step], step: Step) -> Record:
    """Return a record whose messages have the values of the attributes that the span had."""
    given = {"role": "user", "content": json.dumps(_parts(before))}
    gave = {"role": "assistant", "content": json.dumps([_answer(number, step.path)])}
    body = {"input": {"messages": [given]}, "output": {"messages": [gave]}}
    return record(session, number, SCOPE, body, {"session.id": session}, named=True)


def session(
    name: str = "s", steps: Sequence[Step] = LOOP, form: Form = "messages"
) -> tuple[list[dict[str, Any]], list[Record]]:
    """Return the spans of a session's responses, and their log records."""
    numbers = range(len(steps))
    written = [each for number in numbers for each in records(name, number, steps, form)]
    return [span(name, number) for number in numbers], written
