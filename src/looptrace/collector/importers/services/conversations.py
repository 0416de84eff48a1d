"""Conversations as the APIs of models have them: lists of messages, or objects with `messages`.

OpenAI's chat completions and responses, Anthropic's, Google's and the AI SDK's forms are read as
they are by the core; so are the files that agents keep of them, such as Cline's and Roo's
`api_conversation_history.json` (cline/cline@21cb8d2 apps/vscode/src/shared/messages/content.ts) and
Goose's sessions (block/goose@6416fe7 crates/goose/src/conversation/message.rs).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from looptrace import semconv
from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.payloads import canonical
from looptrace.collector.coding_agents.session_spans import times_in_order
from looptrace.collector.importers.spans import (
    NS_PER_MS,
    foreign_row,
    mapping,
    session_attributes,
    text_of,
    time_ns,
)
from looptrace.collector.otlp.span_rows import DecodedSpans

_ASSISTANT = frozenset({"assistant", "model"})
# Items of OpenAI's responses: those of one response follow each other.
_ASKED, _THOUGHT = "function_call", "reasoning"
_ITEMS = frozenset({_ASKED, _THOUGHT, "message"})
# A message without a time stands so long after the one before.
_STEP_NS = NS_PER_MS
_TIMES = ("ts", "timestamp", "created_at", "created")
_SAID = frozenset({"content", "tool_calls", _ASKED, "parts"})
# Where an object has its messages; `traj` is that of tau-bench.
_HOLDERS = ("messages", "traj")

ApiMessage = dict[str, Any]


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a message, or of an object with some."""
    fields = set(names)
    is_item = {"type", "call_id"} <= fields and not fields.isdisjoint({"arguments", "output"})
    is_message = "role" in fields and not fields.isdisjoint(_SAID)
    return is_item or is_message or not fields.isdisjoint(_HOLDERS)


def _checked(messages: object) -> list[ApiMessage]:
    """Return messages, or items of other types between them. Raises ValueError."""
    items = [mapping(each) for each in messages] if isinstance(messages, list) else [{}]
    if all(not {"role", "type"}.isdisjoint(each) for each in items):
        return items
    raise ValueError("its messages are not those of a model's API")


class ConversationReader:
    """The reader of conversations; messages that stand alone in a source are one."""

    def __init__(self) -> None:
        self._messages: list[ApiMessage] = []

    def read(self, record: dict[str, Any], _where: str) -> DecodedSpans:
        """Return the rows of an object with messages. Raises one of RECORD_ERRORS."""
        held = next((record[name] for name in _HOLDERS if name in record), None)
        if held is None:
            self._messages += _checked([record])
            return DecodedSpans()
        rows = conversation_rows(_checked(held), model=record.get("model"))
        return DecodedSpans(list(rows))

    def rest(self) -> list[SpanRow]:
        """Return the rows of the messages that stood alone."""
        return list(conversation_rows(self._messages))


def conversation_rows(
    messages: list[ApiMessage], *, model: object = None, session: object = None
) -> Iterator[SpanRow]:
    """Yield a row for each response: what came since the one before, and what it says."""
    trace = digest(canonical(messages), size_bytes=16)
    times = times_in_order([_time_ns(message) for message in messages], _STEP_NS)
    plain = list(map(_Numbers().numbered, messages))
    responses = list(_responses(messages))
    first = 0
    for number, (start, end) in enumerate(responses):
        said = messages[start:end]
        named = next((name for name in map(_model, said) if name), model)
        # No later response was given what came after the last one.
        stop = len(plain) if number == len(responses) - 1 else end
        tokens = mapping(mapping(said[-1].get("metrics")).get("tokens"))
        yield foreign_row(
            trace=trace,
            span=f"{trace} {number}",
            parent=None,
            name="chat",
            start_ns=times[first],
            end_ns=times[end - 1],
            scope="conversation",
            service="conversation",
            attributes={
                semconv.GEN_AI_OPERATION_NAME: "chat",
                semconv.GEN_AI_REQUEST_MODEL: named if isinstance(named, str) else None,
                semconv.GEN_AI_INPUT_MESSAGES: text_of(plain[first:start]),
                semconv.GEN_AI_OUTPUT_MESSAGES: text_of(plain[start:stop]),
                semconv.GEN_AI_USAGE_INPUT_TOKENS: tokens.get("prompt"),
                semconv.GEN_AI_USAGE_OUTPUT_TOKENS: tokens.get("completion"),
                semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: tokens.get("cached"),
                **session_attributes(session),
            },
        )
        first = end


def _responses(messages: list[ApiMessage]) -> Iterator[tuple[int, int]]:
    """Yield where each response begins and ends: a message, or items that follow each other."""
    start: int | None = None
    for place, message in enumerate(messages):
        is_item = message.get("type") in _ITEMS
        if start is not None and not (is_item and _is_answer(message)):
            yield start, place
            start = None
        if start is None and _is_answer(message):
            start = place
    if start is not None:
        yield start, len(messages)


def _is_answer(message: ApiMessage) -> bool:
    return message.get("role") in _ASSISTANT or message.get("type") in (_ASKED, _THOUGHT)


def _model(message: ApiMessage) -> object:
    return message.get("model") or mapping(message.get("modelInfo")).get("modelId")


def _time_ns(message: ApiMessage) -> int | None:
    return next((time_ns(message[name]) for name in _TIMES if message.get(name)), None)


class _Numbers:
    """Gives numbers to calls without an id, and their results, whose order is that of the calls."""

    def __init__(self) -> None:
        self._open: list[tuple[str, str]] = []  # the tools and ids of calls without a result
        self._count = 0

    def numbered(self, message: ApiMessage) -> ApiMessage:
        """Return a message in a form that the core reads, with ids."""
        for name in ("content", "parts"):
            if isinstance(message.get(name), list):
                message = {**message, name: list(map(self._part, message[name]))}
        asked = mapping(message.get(_ASKED))
        if asked:  # OpenAI before it had parallel calls.
            rest = {name: value for name, value in message.items() if name != _ASKED}
            call = {"id": self._ask(asked), "type": "function", "function": asked}
            return {**rest, "tool_calls": [call]}
        if message.get("role") in ("function", "tool") and isinstance(message.get("content"), str):
            call_id = message.get("tool_call_id") or self._answer(message)
            return {**message, "tool_call_id": call_id}
        return message

    def _part(self, part: Any) -> Any:
        is_object = isinstance(part, dict)
        return self._object(mapping(part)) if is_object else part

    def _object(self, part: dict[str, Any]) -> dict[str, Any]:
        kind = part.get("type")
        if kind == "toolRequest":
            call = mapping(mapping(part.get("toolCall")).get("value"))
            return {"type": "tool_call", "id": part.get("id"), **call}
        if kind == "toolResponse":
            return _goose_result(part)
        for name, number in (("functionCall", self._ask), ("functionResponse", self._answer)):
            told = mapping(part.get(name))
            if told and not told.get("id"):
                return {**part, name: {**told, "id": number(told)}}
        return part

    def _ask(self, call: dict[str, Any]) -> str:
        self._count += 1
        self._open.append((str(call.get("name")), f"call-{self._count}"))
        return self._open[-1][1]

    def _answer(self, result: dict[str, Any]) -> str | None:
        named = [each for each in self._open if each[0] == str(result.get("name"))]
        found = next(iter(named or self._open), None)
        if found is None:
            return None
        self._open.remove(found)
        return found[1]


def _goose_result(part: dict[str, Any]) -> dict[str, Any]:
    told = mapping(part.get("toolResult"))
    value = told.get("value")
    failed = told.get("status") == "error" or mapping(value).get("isError") is True
    return {
        "type": "tool_result",
        "tool_use_id": part.get("id"),
        "content": told.get("error") if value is None else mapping(value).get("content", value),
        "is_error": failed,
    }
