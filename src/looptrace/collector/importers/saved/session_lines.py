"""Sessions of agents as lines, of which the first may name the session."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.rows.messages import ApiMessage
from looptrace.collector.importers.services.conversations import (
    conversation_rows,
    readable_messages,
)
from looptrace.collector.otlp.span_rows import DecodedSpans

# The first line of pi, and that of Droid; the others form a tree.
_FIRST = ({"type", "id", "timestamp", "cwd"}, {"type", "id", "owner", "cwd"})
_TREE = {"type", "id", "parentId", "timestamp"}
_QWEN = {"uuid", "parentUuid", "sessionId", "type", "cwd", "version"}
_CLAUDE = {"isSidechain", "userType"}


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
