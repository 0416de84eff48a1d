"""Rows from the events of a session of GitHub Copilot CLI, `events.jsonl` of its session's folder.

The fields are those of github/copilot-sdk@cc0438d nodejs/src/generated/session-events.ts. Usage is
in events that are not kept on disk; a message has the tokens of its own output. With
`--output-format json` the command line (1.0.102) prints the same events, of which only the last
line, `result`, names the session.
"""

from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.coding_agents.session_spans import INTERRUPTED, Agent, Usage, Word
from looptrace.collector.coding_agents.session_thread import Thread
from looptrace.collector.otlp.span_rows import time_ns_of

PRODUCT = "copilot-cli"

_STARTS, _ENDS = "session.start", "result"
_ABORTED_BY_LIMIT = "autopilot_credit_limit"
# In the order of `Usage`.
_COUNTS = (
    *("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens"),
    "finishReason",
)


class CopilotSession:
    """The state of reading one such file, with a thread for each agent."""

    def __init__(self, session: str = "") -> None:
        self._session, self._at_ns = session, 0
        self._unnamed: list[dict[str, Any]] = []  # events whose session is not known yet
        self._threads: dict[str, Thread] = {}
        self._responses: dict[str, str] = {}  # by thread: the key of its last response

    def read(self, line: dict[str, Any]) -> list[SpanRow]:
        """Return the rows that an event completes. Raises one of RECORD_ERRORS."""
        if line["type"] == _ENDS:
            self._session = self._session or str(line["sessionId"])
            rows = self.rest()
            self._session, self._threads, self._responses = "", {}, {}
            return rows
        if line["type"] == _STARTS:
            self._session = str(line["data"].get("sessionId") or "")
        if self._session:
            return self._completed(line)
        CopilotSession(PRODUCT).read(line)  # The end of the file can report no error.
        self._unnamed.append(line)
        return []

    def rest(self) -> list[SpanRow]:
        """Return the rows that the end of the file completes."""
        lines, self._unnamed = self._unnamed, []
        rows = [row for line in lines for row in self._completed(line)]
        return rows + [row for thread in self._threads.values() for row in thread.ended()]

    def _completed(self, line: dict[str, Any]) -> list[SpanRow]:
        data, kind = line["data"], line["type"]
        at_ns = self._at_ns = time_ns_of(line["timestamp"]) or self._at_ns
        name = str(line.get("agentId") or PRODUCT)
        thread = self._threads.get(name)
        if thread is None:
            thread = self._threads[name] = Thread(Agent(PRODUCT, self._session, name))
        self._take(thread, str(kind), str(line["id"]), at_ns, data)
        return [row for each in self._threads.values() for row in each.taken()]

    def _take(self, thread: Thread, kind: str, key: str, at_ns: int, data: dict[str, Any]) -> None:
        if kind == "assistant.message":
            self._message(thread, at_ns, data)
        elif kind == "assistant.usage":
            thread.uses(self._response(thread), Usage(*map(data.get, _COUNTS)))
        elif kind == "tool.execution_start":
            call_id = str(data["toolCallId"])
            if thread.tool_of(call_id) is None:  # A person may ask for a call.
                tool, arguments = str(data.get("toolName") or ""), data.get("arguments")
                thread.calls(self._response(thread) or key, at_ns, call_id, tool, arguments, None)
        elif kind == "tool.execution_complete":
            self._result(thread, at_ns, data)
        elif kind == "user.message":
            self._prompt(thread, key, at_ns, data)
        elif kind == "abort" and data.get("reason") != _ABORTED_BY_LIMIT:
            thread.hears(key, at_ns, Word(INTERRUPTED))
        elif kind == "session.error":
            thread.fails(key, at_ns, str(data.get("message") or ""), None)

    def _response(self, thread: Thread) -> str:
        return self._responses.get(thread.agent.name, "")

    def _message(self, thread: Thread, at_ns: int, data: dict[str, Any]) -> None:
        key, model = str(data["messageId"]), data.get("model")
        self._responses[thread.agent.name] = key
        asked = data.get("toolRequests") or ()
        if data.get("content") or not asked:
            thread.says(key, at_ns, str(data.get("content") or ""), model)
        for call in asked:
            told = str(call.get("name") or ""), call.get("arguments")
            thread.calls(key, at_ns, str(call["toolCallId"]), *told, model)
        if data.get("outputTokens") is not None:
            thread.uses(key, Usage(output_tokens=data["outputTokens"]))

    def _result(self, thread: Thread, at_ns: int, data: dict[str, Any]) -> None:
        error, result = data.get("error") or {}, data.get("result") or {}
        text = error.get("message") or result.get("content")
        failed = None if data.get("success") is None else not data["success"]
        thread.gets(str(data["toolCallId"]), at_ns, text, failed, None)

    def _prompt(self, thread: Thread, key: str, at_ns: int, data: dict[str, Any]) -> None:
        text = str(data.get("content") or "")
        if data.get("isAutopilotContinuation") or data.get("source"):
            thread.sees(text)
        else:
            thread.hears(key, at_ns, Word(text=text))
