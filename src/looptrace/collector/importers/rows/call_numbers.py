"""Calls without an id, and calls and results as some agents keep them, in a form the core reads."""

from typing import Any

from looptrace.collector.importers.rows.messages import ApiMessage
from looptrace.collector.importers.spans import mapping, text_of

# A call of OpenAI's API before it had parallel ones, and an item of its responses.
ASKED = "function_call"


class CallNumbers:
    """Gives numbers to calls without an id, and their results, whose order is that of the calls."""

    def __init__(self) -> None:
        self._open: list[tuple[str, str]] = []  # the tools and ids of calls without a result
        self._count = 0

    def numbered(self, message: ApiMessage) -> ApiMessage:
        """Return a message in a form that the core reads, with ids."""
        for name in ("content", "parts"):
            if isinstance(message.get(name), list):
                message = {**message, name: list(map(self._part, message[name]))}
        asked = mapping(message.get(ASKED))
        if asked:  # OpenAI before it had parallel calls.
            rest = {name: value for name, value in message.items() if name != ASKED}
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
        if kind == "tool_result" and "toolUseID" in part:
            return _amp_result(part)
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


def _amp_result(part: dict[str, Any]) -> dict[str, Any]:
    run = mapping(part.get("run")) or part
    error = run.get("error")
    return {
        "type": "tool_result",
        "tool_use_id": part["toolUseID"],
        "content": text_of(run.get("result", run.get("output")) if error is None else error),
        "is_error": error is not None or run.get("status") == "error",
    }


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
