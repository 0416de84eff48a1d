"""Ids of calls that a conversation uses again: the second call of an id gets a number, `id#2`.

Some servers number the calls of each response alike. A request shows the conversation so far, so
each of its calls and results can be told from the others of the same id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec.structs import replace

from looptrace.analyzer.schema.message import Message, ToolCall, ToolResult

_NUMBER = "#"
# The number of the last call of an id, the call if it is shown, and whether it is over.
_Last: TypeAlias = "tuple[int, ToolCall | None, bool]"
_Column: TypeAlias = "list[tuple[Message, ...] | None]"


def written_id(call_id: str) -> str:
    """Return the id that a call has in its trace, without its number."""
    before, _, number = call_id.rpartition(_NUMBER)
    return before if before and number.isdigit() else call_id


def id_before(call_id: str) -> str | None:
    """Return the id of the call before, with its number; None if it is the first of its id."""
    written = written_id(call_id)
    number = int(call_id.removeprefix(written).removeprefix(_NUMBER) or 1)
    return _numbered(written, number - 1) if number > 1 else None


def number_calls(given: _Column, answers: _Column) -> tuple[_Column, _Column]:
    """Return what models were given and their answers, with numbers at ids that come again."""
    for place, (before, answer) in enumerate(zip(given, answers, strict=True)):
        if _repeats((*(before or ()), *(answer or ()))):
            numbers = _Numbers()
            given[place] = before and tuple(map(numbers.message, before))
            answers[place] = answer and tuple(map(numbers.message, answer))
    return given, answers


def _repeats(messages: Sequence[Message]) -> bool:
    """Return whether an id names several calls, or several results."""
    calls = [call.call_id for message in messages if message.calls for call in message.calls]
    results = [each.call_id for message in messages if message.results for each in message.results]
    return any(len(set(ids)) < len(ids) for ids in (calls, results))


class _Numbers:
    """The calls of a conversation so far, by their ids."""

    def __init__(self) -> None:
        self._last: dict[str, _Last] = {}
        self._open: dict[str, list[int]] = {}  # numbers of calls without a result, by id

    def message(self, message: Message) -> Message:
        """Return the next message with its numbers."""
        if message.calls:
            message = replace(message, calls=tuple(map(self._call, message.calls)))
        if message.results:
            message = replace(message, results=tuple(map(self._result, message.results)))
        if message.role != "assistant":
            # What follows a call ends it, even where a result does not name it.
            self._last = {key: (*last[:2], True) for key, last in self._last.items()}
        return message

    def _call(self, call: ToolCall) -> ToolCall:
        if not call.call_id:
            return call
        number, before, is_over = self._last.get(call.call_id, (0, None, True))
        if is_over or call != before:
            number += 1
            self._open[call.call_id] = [*(() if is_over else self._open[call.call_id]), number]
        self._last[call.call_id] = number, call, False
        return replace(call, call_id=_numbered(call.call_id, number))

    def _result(self, result: ToolResult) -> ToolResult:
        if not result.call_id:
            return result
        number, call, is_over = self._last.get(result.call_id, (0, None, True))
        if waiting := self._open.get(result.call_id):
            number = waiting.pop(0)
        elif call is None:
            number += 1
            self._last[result.call_id] = number, None, is_over
        return replace(result, call_id=_numbered(result.call_id, number))


def _numbered(call_id: str, number: int) -> str:
    return call_id if number == 1 else f"{call_id}{_NUMBER}{number}"
