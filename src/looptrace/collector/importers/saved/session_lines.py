"""Sessions of agents as lines, of which the first may name the session.

VS Code keeps its chats as changes of one object (microsoft/vscode@047238f src/vs/workbench/contrib/
chat/common/model/objectMutationLog.ts, `chatSessions/*.jsonl`).
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.records import RECORD_ERRORS
from looptrace.collector.importers.rows.messages import ApiMessage
from looptrace.collector.importers.saved.conversations import (
    conversation_rows,
    readable_messages,
)
from looptrace.collector.otlp.span_rows import DecodedSpans

# The first line of pi, and that of Droid; the others form a tree.
_FIRST = ({"type", "id", "timestamp", "cwd"}, {"type", "id", "owner", "cwd"})
_TREE = {"type", "id", "parentId", "timestamp"}
_QWEN = {"uuid", "parentUuid", "sessionId", "type", "cwd", "version"}
_CLAUDE = {"isSidechain", "userType"}
_CHANGE = {"kind", "k", "v", "i"}
_INITIAL, _PUSH = 0, 2  # Other kinds of a change set a value, or delete it.
_REQUESTS = "requests"


def is_pi_line(names: Collection[str]) -> bool:
    """Return whether these field names are those of a line of a session of pi or Droid."""
    fields = set(names)
    # An event of Copilot has data, and so has a line that an extension of pi adds.
    is_tree = fields >= _TREE and ("data" not in fields or "customType" in fields)
    return is_tree or any(each <= fields for each in _FIRST)


def is_qwen_line(names: Collection[str]) -> bool:
    """Return whether these field names are those of a line of a chat of Qwen Code."""
    fields = set(names)
    return fields >= _QWEN and fields.isdisjoint(_CLAUDE)


def is_change(names: Collection[str]) -> bool:
    """Return whether these field names are those of a change of a chat of VS Code."""
    fields = set(names)
    return {"kind"} < fields <= _CHANGE


class SessionLines:
    """The reader of such lines, of which those without a message are not read."""

    def __init__(self, messages_of: Callable[[dict[str, Any]], Iterable[ApiMessage]]) -> None:
        self._messages_of = messages_of
        self._session: object = None
        self._messages: list[ApiMessage] = []

    def read(self, record: dict[str, Any], _where: str) -> DecodedSpans:
        """Keep the messages of a line. Raises one of RECORD_ERRORS."""
        if any(each <= record.keys() for each in _FIRST):
            self._session = record["id"]
        self._session = record.get("sessionId", self._session)
        self._messages += readable_messages(list(self._messages_of(record)))
        return DecodedSpans()

    def rest(self) -> list[SpanRow]:
        """Return the rows of the session."""
        return list(conversation_rows(self._messages, session=self._session))


class ChatChanges:
    """The reader of a chat of VS Code, which is what all of its changes lead to."""

    def __init__(self, messages_of: Callable[[dict[str, Any]], Iterable[ApiMessage]]) -> None:
        self._messages_of = messages_of
        self._chat: dict[str, Any] = {_REQUESTS: []}

    def read(self, record: dict[str, Any], _where: str) -> DecodedSpans:
        """Make a change. Raises one of RECORD_ERRORS."""
        if record["kind"] == _INITIAL:
            readable_messages(list(self._messages_of(record["v"])))
            self._chat = record["v"]
            return DecodedSpans()
        *path, last = record["k"]
        held: Any = self._chat
        for name in path:
            held = held[name]
        known = held[last] if isinstance(held, list) else held.get(last)
        value = record.get("v")
        if record["kind"] == _PUSH:
            value = [*(known or [])[: record.get("i")], *(value or ())]
        held[last] = value
        try:
            self._check(record["k"])
        except RECORD_ERRORS:
            held[last] = known
            raise
        return DecodedSpans()

    def _check(self, path: list[Any]) -> None:
        """Read what was changed, because the end of the chat can report no error."""
        if path[0] == _REQUESTS:
            changed = self._chat[_REQUESTS]
            changed = changed[path[1] :][:1] if len(path) > 1 else changed
            readable_messages(list(self._messages_of({_REQUESTS: changed})))

    def rest(self) -> list[SpanRow]:
        """Return the rows of the chat."""
        messages = readable_messages(list(self._messages_of(self._chat)))
        return list(conversation_rows(messages, session=self._chat.get("sessionId")))
