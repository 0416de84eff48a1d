"""Rows from the output of `codex exec --json`: items as they are completed, without times.

Items are placed STEP_NS apart, like the lines of an old log.
"""

from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.coding_agents.codex import PRODUCT, STEP_NS, usage_of
from looptrace.collector.coding_agents.session_spans import Agent
from looptrace.collector.coding_agents.session_thread import Thread

_SESSION = "thread.started"
_DONE = "item.completed"
_TURN = "turn.completed"
_FAILED = ("turn.failed", "error")
# The fields of an item that hold its result, and not the request.
_OUTPUTS = ("aggregated_output", "result", "error")
_RESULTS = (*_OUTPUTS, "exit_code", "status")
_ABOUT = ("id", "type", "item_type")
# The names of these items' tools in a session's log.
_TEXTS = ("agent_message", "assistant_message")
_UNSEEN = ("reasoning", "todo_list", "error")


class CodexEvents:
    """The state of reading one such stream."""

    def __init__(self) -> None:
        self._thread = Thread(Agent(PRODUCT, "", PRODUCT))
        self._at_ns = 0
        self._failure = ""  # message of the last line, if it is one of a failure
        self._response = ""  # key of the last response
        self._is_over = True  # whether a call of that response has its result

    def read(self, line: dict[str, Any]) -> list[SpanRow]:
        """Return the rows that a line completes."""
        self._at_ns += STEP_NS
        kind, item = line.get("type"), line.get("item")
        before: list[SpanRow] = []
        if kind == _SESSION:
            before = self._thread.ended()  # Runs are appended to one file.
            self._thread = Thread(Agent(PRODUCT, str(line.get("thread_id")), PRODUCT))
        elif kind == _DONE and isinstance(item, dict):
            self._item(item, str(item.get("id")))
        elif kind == _TURN and isinstance(line.get("usage"), dict):
            self._thread.uses(self._response, usage_of(line["usage"]))
        elif kind in _FAILED:
            message = str((line.get("error") or line).get("message"))
            # A failure is written as `error`, and once more as the end of its turn.
            if message != self._failure:
                self._thread.fails(str(self._at_ns), self._at_ns, message, None)
            self._failure = message
        if kind not in _FAILED:
            self._failure = ""
        return before + self._thread.taken()

    def rest(self) -> list[SpanRow]:
        """Return the rows that the end of the stream completes."""
        return self._thread.ended()

    def _item(self, item: dict[str, Any], key: str) -> None:
        kind = str(item.get("type") or item.get("item_type"))
        if kind in _UNSEEN:
            return
        if self._is_over:
            self._response, self._is_over = key, False
        if kind in _TEXTS:
            self._thread.says(self._response, self._at_ns, str(item.get("text", "")), None)
            return
        asked = {name: item[name] for name in item if name not in (*_ABOUT, *_RESULTS)}
        tool = str(item.get("tool") or kind)
        self._thread.calls(
            self._response, self._at_ns, key, tool, asked.get("arguments") or asked, None
        )
        code = item.get("exit_code")
        failed = item.get("status") == "failed" or (isinstance(code, int) and code != 0)
        output = next((item[name] for name in _OUTPUTS if item.get(name)), "")
        self._at_ns += STEP_NS
        self._thread.gets(key, self._at_ns, _text(output), True if failed else None, None)
        self._is_over = True


def _text(output: object) -> str:
    if isinstance(output, dict) and "message" in output:
        return str(output["message"])
    return str(output)
