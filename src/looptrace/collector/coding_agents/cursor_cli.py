"""Rows from the output of `cursor-agent -p --output-format stream-json`.

The events are those of docs.cursor.com, cli/reference/output-format. A call stands under the name
of its tool, such as `readToolCall`; a line without a time stands STEP_NS from the one before.
"""

from collections.abc import Collection
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import canonical, parsed
from looptrace.collector.coding_agents.session_spans import Agent, Usage, Word, texts_of
from looptrace.collector.coding_agents.session_thread import Thread

PRODUCT = "cursor"
STEP_NS = 1_000_000
_NS_PER_MS = 1_000_000
_SUFFIX = "ToolCall"
_FUNCTION = "function"  # the call of any other tool
_SUCCESS = "success"


def is_line(names: Collection[str]) -> bool:
    """Return whether these field names are those of the first line, or of a call."""
    fields = set(names)
    # The first line of Claude Code has also its tools.
    is_first = {"type", "subtype", "session_id", "permissionMode"} <= fields
    is_first &= fields.isdisjoint(("tools", "uuid"))
    return is_first or {"type", "call_id", "tool_call"} <= fields


class CursorStream:
    """The state of reading one such stream."""

    def __init__(self) -> None:
        self._thread = Thread(Agent(PRODUCT, "", PRODUCT))
        self._model: str | None = None
        self._at_ns = 0
        self._key = ""  # of the last response
        self._is_answered = True  # whether a call of that response has its result

    def read(self, line: dict[str, Any]) -> list[SpanRow]:
        """Return the rows that a line completes."""
        self._at_ns = max(self._at_ns + STEP_NS, int(line.get("timestamp_ms") or 0) * _NS_PER_MS)
        kind = line.get("type")
        message = line.get("message")
        text = texts_of(message.get("content")) if isinstance(message, dict) else ""
        before: list[SpanRow] = []
        if kind == "system":
            self._model = line.get("model")
            before = self._thread.ended()  # Runs are appended to one file.
            self._thread = Thread(Agent(PRODUCT, str(line.get("session_id")), PRODUCT))
        elif kind == "user":
            self._thread.hears(str(self._at_ns), self._at_ns, Word(text=text))
        elif kind == "assistant":
            self._thread.says(self._response(), self._at_ns, text, self._model)
        elif kind == "tool_call":
            self._call(line)
        elif kind == "result" and isinstance(line.get("usage"), dict):
            self._uses(line["usage"])
        return before + self._thread.taken()

    def rest(self) -> list[SpanRow]:
        """Return the rows that the end of the stream completes."""
        return self._thread.ended()

    def _response(self) -> str:
        """Return the key of the response: calls follow its text until one has its result."""
        if self._is_answered:
            self._key, self._is_answered = str(self._at_ns), False
        return self._key

    def _call(self, line: dict[str, Any]) -> None:
        call_id = str(line["call_id"])
        tool, call = _tool_of(line["tool_call"])
        if line.get("subtype") == "started":
            given = parsed(call.get("args", call.get("arguments")))
            self._thread.calls(self._response(), self._at_ns, call_id, tool, given, self._model)
            return
        result = call.get("result")
        held = result if isinstance(result, dict) else {_SUCCESS: result}
        outcome, told = next(iter(held.items()), (None, None))
        # Of a call that was rejected or failed the result stands under another name.
        failed = None if outcome is None else outcome != _SUCCESS
        text = told if isinstance(told, str) else canonical(told)
        self._thread.gets(call_id, self._at_ns, text, failed, None)
        self._is_answered = True

    def _uses(self, usage: dict[str, Any]) -> None:
        """Add the tokens of the run to its last response, as the stream has no others."""
        cached, written = usage.get("cacheReadTokens"), usage.get("cacheWriteTokens")
        given = usage.get("inputTokens")
        told = Usage(
            sum(int(count or 0) for count in (given, cached, written)),
            int(usage.get("outputTokens") or 0),
            cached_tokens=cached,
            cache_write_tokens=written,
        )
        self._thread.uses(self._key, told)


def _tool_of(call: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a call's tool, and the object with its arguments."""
    name, held = next((n, v) for n, v in call.items() if isinstance(v, dict))
    return (str(held["name"]) if name == _FUNCTION else name.removesuffix(_SUFFIX)), held
