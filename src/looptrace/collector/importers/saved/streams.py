"""Rows from what command lines of agents print while they run: an object a line.

Gemini CLI (google-gemini/gemini-cli@5411f113 packages/core/src/output/types.ts, `--output-format
stream-json`) and Droid (the program in @factory/cli-linux-x64 0.215.0, `droid exec --output-format
stream-json`) print a call, and its result under the same id. Cline (cline 3.0.65, `cline --json`)
prints the events of its agent, and its hooks, which name the conversation.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.coding_agents.session_spans import NO_USAGE, Agent, Usage, Word
from looptrace.collector.coding_agents.session_thread import Thread
from looptrace.collector.importers.spans import NS_PER_MS, mapping, text_of, time_ns

# A line without a time stands so long after the one before.
_STEP_NS = NS_PER_MS


@dataclass(frozen=True, slots=True)
class StreamForm:
    """The names of the fields of an agent's lines, beside those that both have."""

    product: str
    first: frozenset[str]  # line
    call: frozenset[str]  # a line
    call_id: str
    tool: str
    text: str  # of a message
    result: str
    usage: str  # of the last line


FORMS = (
    StreamForm(
        "gemini-cli",
        frozenset({"type", "timestamp", "session_id", "model"}),
        frozenset({"type", "timestamp", "tool_id", "tool_name", "parameters"}),
        "tool_id",
        "tool_name",
        "content",
        "output",
        "stats",
    ),
    StreamForm(
        "droid",
        frozenset({"type", "subtype", "session_id", "reasoning_effort"}),
        frozenset({"type", "id", "messageId", "toolId", "toolName", "parameters"}),
        "id",
        "toolName",
        "text",
        "value",
        "usage",
    ),
)
_CALLS, _RESULT = ("tool_use", "tool_call"), "tool_result"
_MESSAGE, _ERROR = "message", "error"
_WARNING = "warning"
_CLINE = "cline"


def is_line(names: Collection[str]) -> bool:
    """Return whether these field names are those of a first line, or of a call."""
    return _form_of(names) is not None


def _form_of(names: Collection[str]) -> StreamForm | None:
    fields = set(names)
    return next(
        (form for form in FORMS if form.call <= fields or _is_first(form, fields)),
        None,
    )


def _is_first(form: StreamForm, fields: set[str]) -> bool:
    # The first line of Claude Code has an id.
    return form.first <= fields and "uuid" not in fields


class AgentStream:
    """The state of reading one such stream."""

    def __init__(self) -> None:
        self._form = FORMS[0]
        self._thread = Thread(Agent(self._form.product, "", self._form.product))
        self._model: str | None = None
        self._at_ns = 0
        self._text = ""  # A message may come in pieces.
        self._key = ""  # of the last response
        self._is_answered = True  # whether a call of that response has its result

    def read(self, line: dict[str, Any]) -> list[SpanRow]:
        """Return the rows that a line completes. Raises BadSpanError for a bad time."""
        given = line.get("timestamp")
        self._at_ns = max(self._at_ns + _STEP_NS, time_ns(given) if given else 0)
        before, kind = [], line.get("type")
        form = _form_of(line)
        self._form = form or self._form
        if form is not None and _is_first(form, set(line)):
            before = self.rest()  # Runs are appended to one file.
            self._model = line.get("model")
            self._thread = Thread(Agent(form.product, str(line["session_id"]), form.product))
        elif kind == _MESSAGE and line.get("role") == "assistant":
            self._text += str(line.get(self._form.text) or "")
        else:
            self._say()
            self._take(str(kind), line)
        return before + self._thread.taken()

    def rest(self) -> list[SpanRow]:
        """Return the rows that the end of the stream completes."""
        self._say()
        return self._thread.ended()

    def _take(self, kind: str, line: dict[str, Any]) -> None:
        form, call_id = self._form, str(line.get(self._form.call_id))
        if kind == _MESSAGE:
            self._thread.hears(
                str(self._at_ns), self._at_ns, Word(text=str(line.get(form.text) or ""))
            )
        elif kind in _CALLS:
            tool, given = str(line.get(form.tool) or ""), line.get("parameters")
            self._thread.calls(self._response(), self._at_ns, call_id, tool, given, self._model)
        elif kind == _RESULT:
            error = mapping(line.get("error"))
            failed = bool(error) or line.get("status") == "error" or line.get("isError") is True
            shown = error.get("message") or line.get(form.result)
            self._thread.gets(call_id, self._at_ns, text_of(shown), failed, None)
            self._is_answered = True
        elif kind == _ERROR and line.get("severity") != _WARNING:
            told = line.get("message") or mapping(line.get("error")).get("message")
            self._thread.fails(str(self._at_ns), self._at_ns, str(told or ""), self._model)
        elif form.usage in line:
            self._uses(mapping(line[form.usage]))

    def _response(self) -> str:
        """Return the key of the response: calls follow its text until one has its result."""
        if self._is_answered:
            self._key, self._is_answered = str(self._at_ns), False
        return self._key

    def _say(self) -> None:
        text, self._text = self._text, ""
        if text:
            self._thread.says(self._response(), self._at_ns, text, self._model)

    def _uses(self, usage: dict[str, Any]) -> None:
        """Add the tokens of the run to its last response, as the stream has no others."""
        self._thread.uses(
            self._key,
            Usage(
                usage.get("input_tokens"),
                usage.get("output_tokens"),
                cached_tokens=usage.get("cached", usage.get("cache_read_input_tokens")),
            ),
        )


class ClineStream:
    """The state of reading what Cline prints."""

    def __init__(self) -> None:
        self._thread = Thread(Agent(_CLINE, "", _CLINE))
        self._session = ""
        self._at_ns = 0
        self._key = ""  # of the response of an iteration
        self._usage = NO_USAGE  # may come before the parts of the response

    def read(self, line: dict[str, Any]) -> list[SpanRow]:
        """Return the rows that a line completes. Raises BadSpanError for a bad time."""
        self._at_ns = time_ns(line.get("ts")) or self._at_ns
        before: list[SpanRow] = []
        if line["type"] == "hook_event":
            session = str(line.get("taskId") or self._session)
            # A sub-agent has a conversation of its own, and events that name none.
            if session != self._session and not line.get("parentAgentId"):
                before, self._session = self.rest(), session
                self._thread = Thread(Agent(_CLINE, session, _CLINE))
        elif line["type"] == "agent_event":
            self._take(line["event"])
        return before + self._thread.taken()

    def rest(self) -> list[SpanRow]:
        """Return the rows that the end of the stream completes."""
        return self._thread.ended()

    def _take(self, event: dict[str, Any]) -> None:
        kind, call_id = event.get("type"), str(event.get("toolCallId"))
        is_tool = event.get("contentType") == "tool"
        if kind == "iteration_start":
            self._key, self._usage = str(self._at_ns), NO_USAGE
        elif kind == "content_start" and is_tool:
            told = str(event.get("toolName") or ""), event.get("input")
            self._thread.calls(self._key, self._at_ns, call_id, *told, None)
        elif kind == "content_end" and is_tool:
            shown = event.get("error") or event.get("output")
            failed = True if event.get("error") else None
            self._thread.gets(call_id, self._at_ns, text_of(shown), failed, None)
        elif kind == "content_end" and event.get("contentType") == "text" and event.get("text"):
            self._thread.says(self._key, self._at_ns, str(event["text"]), None)
        elif kind == "usage":
            given, cached = event.get("inputTokens"), event.get("cacheReadTokens")
            usage = Usage(given, event.get("outputTokens"), cached_tokens=cached)
            self._usage = usage.checked()  # It stays that of the events after this one.
        self._thread.uses(self._key, self._usage)
