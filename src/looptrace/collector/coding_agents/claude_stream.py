"""Rows from the output of `claude -p --output-format stream-json`.

Its lines are those of the log under other names. Some versions stamp only the lines of some kinds;
a line without a time stands where it stands in the file, STEP_NS from the one before.

Qwen Code prints the same (@qwen-code/qwen-code 0.15.10), but each part of a response as a message
of its own, of which only the last has tokens, and counts cached tokens within the input.
"""

from collections import deque
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.times import utc_us
from looptrace.collector.coding_agents.claude_code import ClaudeCodeLog
from looptrace.collector.otlp.span_rows import time_ns_of

STEP_NS = 1_000_000
# So many lines are held for a time; a stream of which none has one begins in 1970.
WAITING_MAX = 10_000

_RESULT = "result"  # the line with the usage of all responses
_QWEN, _QWEN_VERSION = "qwen-code", "qwen_code_version"
_INPUT, _CACHED = "input_tokens", "cache_read_input_tokens"


class ClaudeStream:
    """The state of reading one such stream; its first lines wait for the first time."""

    def __init__(self) -> None:
        self._log = ClaudeCodeLog()
        self._last_ns = 0
        self._waiting: deque[dict[str, Any]] = deque()
        self._rows: list[SpanRow] = []
        self._is_qwen = False
        self._open: str | None = None  # id of a response of Qwen Code that has more parts

    def read(self, line: dict[str, Any]) -> list[SpanRow]:
        """Return the rows that a line completes. Raises BadSpanError for a bad time."""
        if _QWEN_VERSION in line and not self._is_qwen:
            self._is_qwen, self._log = True, ClaudeCodeLog(_QWEN)
        self._waiting.append(self._of_claude(line) if self._is_qwen else line)
        at_ns = time_ns_of(line.get("timestamp"))
        if not self._last_ns and at_ns is None and len(self._waiting) < WAITING_MAX:
            return []
        return self._read_waiting(at_ns)

    def rest(self) -> list[SpanRow]:
        """Return the rows that the end of the stream completes."""
        return self._read_waiting(None) + self._log.rest()

    def _read_waiting(self, at_ns: int | None) -> list[SpanRow]:
        """Read the lines that waited, the last of which has this time; a bad one costs itself."""
        if at_ns is not None and not self._last_ns:
            self._last_ns = at_ns - len(self._waiting) * STEP_NS
        while self._waiting:
            line = self._waiting.popleft()
            own_ns = time_ns_of(line.get("timestamp")) or 0
            self._last_ns = max(self._last_ns + STEP_NS, own_ns)
            within = line.get("parent_tool_use_id")
            named = {
                **line,
                "timestamp": utc_us(self._last_ns),
                "sessionId": line.get("session_id"),
                "isSidechain": bool(within),
                "agentId": within,
            }
            self._rows += self._log.read(named)
            if line.get("type") == _RESULT:
                self._rows += self._log.end_run(named)
        rows, self._rows = self._rows, []
        return rows

    def _of_claude(self, line: dict[str, Any]) -> dict[str, Any]:
        """Return a line of Qwen Code as Claude Code writes it."""
        if line.get("type") == _RESULT:
            return {**line, "usage": _apart(line.get("usage"))}
        message = line.get("message")
        if line.get("type") != "assistant" or not isinstance(message, dict):
            return line
        key, usage = self._open or message.get("id"), message.get("usage")
        self._open = None if isinstance(usage, dict) and usage.get(_INPUT) else key
        return {**line, "message": {**message, "id": key, "usage": _apart(usage)}}


def _apart(usage: object) -> dict[str, Any]:
    """Return usage with what was cached beside the rest of the input."""
    told = usage if isinstance(usage, dict) else {}
    return {**told, _INPUT: int(told.get(_INPUT) or 0) - int(told.get(_CACHED) or 0)}
