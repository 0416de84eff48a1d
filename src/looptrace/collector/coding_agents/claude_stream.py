"""Rows from the output of `claude -p --output-format stream-json`.

Its lines are those of the log under other names. Lines without times are placed STEP_NS apart.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.times import utc_us
from looptrace.collector.coding_agents.claude_code import ClaudeCodeLog

STEP_NS = 1_000_000


def is_line(names: Collection[str]) -> bool:
    """Return whether these field names are those of such a line."""
    fields = set(names)
    return {"type", "session_id"} <= fields and bool(fields & {"message", "subtype"})


class ClaudeStream:
    """The state of reading one such stream."""

    def __init__(self) -> None:
        self._log = ClaudeCodeLog()
        self._last_ns = 0

    def read(self, line: dict[str, Any]) -> list[SpanRow]:
        """Return the rows that a line completes. Raises BadSpanError for a bad time."""
        self._last_ns += STEP_NS
        within = line.get("parent_tool_use_id")
        named = {
            "timestamp": utc_us(self._last_ns),
            **line,
            "sessionId": line.get("session_id"),
            "isSidechain": bool(within),
            "agentId": within,
        }
        return self._log.read(named)

    def rest(self) -> list[SpanRow]:
        """Return the rows that the end of the stream completes."""
        return self._log.rest()
