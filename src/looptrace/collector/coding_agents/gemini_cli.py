"""Rows from the recorded chats of Gemini CLI, `~/.gemini/tmp/*/chats/session-*.json`.

Newer ones are lines (google-gemini/gemini-cli@04741d1 packages/core/src/services/
chatRecordingTypes.ts, chatRecordingService.ts). Those of 0.61 have the results of calls once more,
as messages of the user, and what the program tells the model first.
"""

from collections.abc import Collection
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.coding_agents.session_spans import Agent, Usage, Word, texts_of
from looptrace.collector.coding_agents.session_thread import Thread
from looptrace.collector.otlp.span_rows import time_ns_of

PRODUCT = "gemini-cli"
_FAILED = {"error": True, "success": False}


# How texts of the program in a person's name begin (packages/core/src/utils/sessionUtils.ts).
_OWN_TEXTS = ("<session_context>", "<hook_context>")
# Fields of a line with a message.
_MESSAGE = {"id", "timestamp", "type", "content"}
_MORE = {"displayContent", "toolCalls", "thoughts", "tokens", "model"}
_REWOUND, _CHANGED = "$rewindTo", "$set"


def is_line(names: Collection[str]) -> bool:
    """Return whether these field names are those of a line of such a chat."""
    fields = set(names)
    is_message = _MESSAGE <= fields <= _MESSAGE | _MORE
    is_first = {"sessionId", "projectHash"} <= fields and "messages" not in fields
    return is_message or is_first or not fields.isdisjoint((_REWOUND, _CHANGED))


class GeminiChat:
    """The state of reading the lines of a chat, of which a later one may change an earlier one."""

    def __init__(self) -> None:
        self._about: dict[str, Any] = {}
        self._messages: dict[str, dict[str, Any]] = {}

    def read(self, line: dict[str, Any]) -> list[SpanRow]:
        """Keep what a line tells; a message may be written again with more calls.

        Raises one of RECORD_ERRORS, as the end of the chat can report none.
        """
        if _REWOUND in line:
            self._rewind(str(line[_REWOUND]))
            return []
        told = line.get(_CHANGED, line)
        is_message = line.keys() >= _MESSAGE
        messages = [line] if is_message else told.get("messages", ())
        about = {} if is_message else {name: told[name] for name in told if name != "messages"}
        rows_of({"sessionId": "", **about, "messages": messages})
        self._about |= about
        if not is_message and "messages" in told:
            self._messages = {}
        self._messages |= {str(each["id"]): each for each in messages}
        return []

    def rest(self) -> list[SpanRow]:
        """Return the rows of the chat."""
        chat = {"sessionId": "", **self._about, "messages": list(self._messages.values())}
        return rows_of(chat) if self._messages else []

    def _rewind(self, first: str) -> None:
        """Forget a message and those after it; an unknown one means all."""
        ids = list(self._messages)
        place = ids.index(first) if first in ids else 0
        self._messages = {each: self._messages[each] for each in ids[:place]}


def rows_of(record: dict[str, Any]) -> list[SpanRow]:
    """Return the rows of a chat. Raises BadSpanError for a bad time."""
    thread = Thread(Agent(PRODUCT, str(record["sessionId"]), PRODUCT))
    last_ns = time_ns_of(record.get("startTime")) or 0
    for message in record["messages"]:
        last_ns = time_ns_of(message.get("timestamp")) or last_ns
        _read(thread, message, last_ns)
    return thread.ended()


def _read(thread: Thread, message: dict[str, Any], at_ns: int) -> None:
    key, kind = str(message.get("id")), message.get("type")
    text = texts_of(message.get("content"))
    if kind == "user":
        if not _is_own(message.get("content"), text):
            thread.hears(key, at_ns, Word(text=text))
    elif kind == "error":
        thread.fails(key, at_ns, text, None)
    elif kind == "gemini":
        model, calls = message.get("model"), message.get("toolCalls") or ()
        done_ns = [time_ns_of(call.get("timestamp")) or at_ns for call in calls]
        # A message may be recorded after its calls, but a response comes before what it asks for.
        at_ns = min(at_ns, *done_ns) if calls else at_ns
        if text:
            thread.says(key, at_ns, text, model)
        # Older chats have calls without ids.
        ids = [str(call.get("id") or f"{key}-{number}") for number, call in enumerate(calls)]
        for call_id, call in zip(ids, calls, strict=True):
            tool, arguments = str(call.get("name") or ""), call.get("args")
            thread.calls(key, at_ns, call_id, tool, arguments, model)
        tokens = message.get("tokens") or {}
        usage = Usage(
            tokens.get("input"),
            _written(tokens),
            cached_tokens=tokens.get("cached"),
            reasoning_tokens=tokens.get("thoughts"),
        )
        thread.uses(key, usage)
        for call_id, call, ended_ns in zip(ids, calls, done_ns, strict=True):
            failed = _FAILED.get(str(call.get("status")))
            thread.gets(call_id, ended_ns, _result(call.get("result")), failed, None)


def _is_own(content: object, text: str) -> bool:
    """Return whether the program wrote a message of the user, or it has only results of calls."""
    parts = content if isinstance(content, list) else ()
    has_results = any("functionResponse" in part for part in parts if isinstance(part, dict))
    return text.lstrip().startswith(_OWN_TEXTS) or (has_results and not text.strip())


def _written(tokens: dict[str, Any]) -> int | None:
    """Return the tokens that a model wrote, with its thoughts, which are counted apart."""
    counted = [tokens[name] for name in ("output", "thoughts") if tokens.get(name) is not None]
    return sum(counted) if counted else None


def _result(result: object) -> str | None:
    """Return the response of a function from a list of parts in the form of the API."""
    parts = result if isinstance(result, list) else [result]
    responses = [
        part["functionResponse"].get("response")
        for part in parts
        if isinstance(part, dict) and isinstance(part.get("functionResponse"), dict)
    ]
    said = [
        str(response.get("output") or response.get("error") or response)
        if isinstance(response, dict)
        else str(response)
        for response in responses
    ]
    return "\n".join(said) if said else None if result is None else str(result)
