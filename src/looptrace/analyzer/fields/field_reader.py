"""The fields of spans, by the keys of the dialects that they speak (`dialect_table`).

One dialect is chosen per span, so a span that carries two conventions counts once. A field is read
from the first key that is present. The chosen dialect's keys come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import msgspec
import polars as pl

from looptrace import semconv
from looptrace.analyzer.fields.dialect_table import (
    FIELDS,
    SHIPPED,
    DialectTable,
    joined_key,
    split,
)
from looptrace.analyzer.fields.flat_messages import FlatKeys, FlatMessages
from looptrace.analyzer.schema.spans import NO_ITEMS, SPAN_SCHEMA, SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.analyzer.text.session_names import bounded_name

# Messages were span events before GenAI 1.37. Some frameworks still put them into an event.
MESSAGE_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
# A key of the table that stands for flat keys of messages ends so: `llm.input_messages.*`.
_MESSAGES = "*"
# Attribute sets whose fields are cached. Spans of one framework have about ten.
KEY_SETS_KEPT = 1024
# A larger number brings no gain, and decoded spans take memory.
SPANS_READ_TOGETHER = 512

_ROW = (
    *("trace_id", "span_id", "parent_span_id", "name", "start_ns", "end_ns"),
    *("status", "status_message", "service", "scope", "events", "links"),
)

DETAILS_EVENT = "gen_ai.client.inference.operation.details"
EVENT_CONTENT = "gen_ai.event.content"
CHOICE_EVENT = "gen_ai.choice"
# The parts of a message in an event; `parts` are those of newer conventions.
_MESSAGE_PARTS = ("content", "parts", "tool_calls")
# AgentCore's log records have what a span was given and what it answered in one body, under the
# name of the span's scope. The keys of each: of messages, and of a tool.
_DIRECTION_KEYS = {
    "input": (semconv.GEN_AI_INPUT_MESSAGES, semconv.GEN_AI_TOOL_CALL_ARGUMENTS),
    "output": (semconv.GEN_AI_OUTPUT_MESSAGES, semconv.GEN_AI_TOOL_CALL_RESULT),
}
_DIRECTIONS = _DIRECTION_KEYS.keys()


# The sources of a field: attributes or prefixes of flat keys, each with the part of its value.
_Keys: TypeAlias = list[tuple[str, str | None]]


class FieldReader:
    """Reads the fields of spans by the keys of a table of dialects."""

    def __init__(self, table: DialectTable) -> None:
        """Read by the keys of this table."""
        self.table = table
        self._keys = {name: list(map(split, table.keys_of(name))) for name in FIELDS}
        every = list(chain.from_iterable(self._keys.values()))
        # Attributes and prefixes of flat keys that fields are read from.
        self.present = {key for key, _ in every}
        self._flat_keys = FlatKeys(tuple({key for key, part in every if part == _MESSAGES}))
        self.keys_by_field = lru_cache(maxsize=KEY_SETS_KEPT)(self._keys_by_field)

    def columns(
        self, dialect: str, columns: Mapping[str, Sequence[Any]], count: int
    ) -> FieldColumns:
        """Return the fields of spans that have the same attributes, read in one dialect."""
        present = tuple(filter(self.present.__contains__, columns))
        others = {name: column for name, column in columns.items() if name not in self.present}
        return FieldColumns(self.keys_by_field(dialect, present), columns, count, others)

    def with_events(
        self, attributes: dict[str, Any], events: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Return the attributes of a span together with what its events say.

        The attributes of a details event count as the span's. Each other event that the table or
        GenAI knows becomes `@name`, with its attributes. Messages become `@gen_ai.messages`, a
        list of messages.
        """
        if not events:
            return attributes
        found = dict(attributes)
        messages: list[dict[str, Any]] = []
        for event in events:
            said = _told(event["attributes"])
            name = said.get("event.name", event["name"])
            if name == DETAILS_EVENT:
                found = {**said, **found}
            elif name in self.table.events or name in MESSAGE_EVENTS:
                found.setdefault(f"@{name}", said)
            elif _DIRECTIONS & said.keys():
                found = {**_told_both(said), **found}
            role = MESSAGE_EVENTS.get(name)
            if role and (message := _message_in(said, role)):
                messages.append(message)
        if messages:
            found["@gen_ai.messages"] = messages
        return found

    def with_flat_messages(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes; messages in flat keys are gathered under their prefix."""
        return self._flat_keys.gather(attributes)

    def _keys_by_field(self, dialect: str, present: tuple[str, ...]) -> dict[str, _Keys]:
        """Return the keys of each field that these attributes have, the preferred key first."""
        found = {}
        for name in FIELDS:
            in_order = map(split, self.table.keys_for(name, dialect))
            if keys := [key for key in in_order if key[0] in present]:
                found[name] = keys
        return found


@lru_cache(maxsize=16)
def reader_by(table: DialectTable) -> FieldReader:
    """Return the reader by a table of dialects."""
    return FieldReader(table)


READER = reader_by(SHIPPED)


class FieldColumns:
    """The canonical fields of spans that have the same attributes, read in one dialect.

    The attributes have passed through `with_events` and `with_flat_messages`. A column has one
    value per span, None where no key of the field is present. `others` are the attributes that
    belong to no field, by name.
    """

    __slots__ = ("_columns", "_count", "_keys", "others")

    def __init__(
        self,
        keys: Mapping[str, _Keys],
        columns: Mapping[str, Sequence[Any]],
        count: int,
        others: Mapping[str, Sequence[Any]],
    ) -> None:
        self._columns = columns
        self._count = count
        self._keys = keys
        self.others = others

    def __len__(self) -> int:
        """Return how many spans there are."""
        return self._count

    def __contains__(self, name: str) -> bool:
        """Return whether a key of the field is present."""
        return name in self._keys

    def values(self, name: str) -> Sequence[Any]:
        """Return the values of a canonical field."""
        column: Sequence[Any] | None = None
        for key, part in self._keys.get(name, ()):
            if column is None:
                column = self._column(key, part)
            elif None in column:
                others = self._column(key, part)
                column = [b if a is None else a for a, b in zip(column, others, strict=True)]
        return [None] * self._count if column is None else column

    def key_of(self, name: str, place: int = 0) -> str:
        """Return the key that a span's value of a field is read from, as the table has it."""
        for key, part in self._keys.get(name, ()):
            if self._column(key, part)[place] is not None:
                return joined_key(key, part)
        return ""

    def texts(self, name: str) -> Sequence[str | None]:
        """Return the values of a canonical field as texts, None where one is absent or empty."""
        values = self.values(name)
        return [None if value is None or value == "" else str(value) for value in values]

    def names(self, name: str) -> Sequence[str | None]:
        """Return the values of a canonical field that names something, at most so long."""
        return [None if text is None else bounded_name(text) for text in self.texts(name)]

    def _column(self, key: str, part: str | None) -> Sequence[Any]:
        column = self._columns[key]
        if part is None:
            return column
        if part == _MESSAGES:  # An attribute may have the same name as a prefix.
            return [value if isinstance(value, FlatMessages) else None for value in column]
        return [_part_of(value, part) for value in column]


def _told(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return what an event says; Semantic Kernel and Azure write it as JSON in one attribute."""
    body = parsed(attributes.get(EVENT_CONTENT))
    return {**attributes, **body} if isinstance(body, dict) else attributes


def _message_in(said: dict[str, Any], role: str) -> dict[str, Any] | None:
    """Return the message in an event; None where its content was not captured."""
    message = {name: parsed(said[name]) for name in _MESSAGE_PARTS if said.get(name) is not None}
    if role == "tool" and said.get("id"):
        message["tool_call_id"] = said["id"]
    return {"content": None, **message, "role": role} if message else None


def _told_both(said: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes that `input` and `output` of one event stand for.

    Each has messages. That of a tool is what it was called with, or what it returned.
    """
    found: dict[str, Any] = {}
    for direction, (key, tool_key) in _DIRECTION_KEYS.items():
        held = parsed(said.get(direction))
        messages = held.get("messages") if isinstance(held, dict) else None
        if isinstance(messages, list) and messages:
            found[key] = [inner for each in messages for inner in _unwrapped(each)]
            if len(messages) == 1 and isinstance(messages[0], dict):
                found[tool_key] = messages[0].get("content")
    return found


def _unwrapped(message: Any) -> list[Any]:
    """Return the messages in the content of one, which may be a list of them or another one."""
    content = parsed(message.get("content")) if isinstance(message, dict) else None
    if isinstance(content, list) and all(isinstance(m, dict) and "role" in m for m in content):
        return content
    if isinstance(content, dict) and "content" in content:
        return [{**message, **content}]
    return [message]


def _part_of(value: Any, path: str) -> Any:
    """Return a part of a JSON object or list, None if there is none.

    `a.b` is a key or leads deeper, `0` is an item of a list, `a=b` or `a!=b` are the items of a
    list whose `a` is or is not `b`, and `a*|b*` is the sum of the counts with such names.
    """
    holder = parsed(value)
    if isinstance(holder, list):
        return _items_of(holder, path)
    if not isinstance(holder, dict):
        return None
    if "*" in path:
        return _sum_of(holder, path.split("|"))
    if path in holder or "." not in path:
        return holder.get(path)
    first, _, rest = path.partition(".")
    return _part_of(holder.get(first), rest)


def _sum_of(holder: dict[str, Any], patterns: list[str]) -> int | None:
    counts = [
        value
        for name, value in holder.items()
        if type(value) is int and any(fnmatchcase(name, pattern) for pattern in patterns)
    ]
    return sum(counts) if counts else None


def _items_of(items: list[Any], path: str) -> Any:
    name, chosen, word = path.partition("=")
    if chosen:
        is_wanted = not name.endswith("!")
        name = name.removesuffix("!")
        found = [i for i in items if isinstance(i, dict) and (i.get(name) == word) is is_wanted]
        return found or None
    first, _, rest = path.partition(".")
    item = items[int(first)] if first.isdecimal() and int(first) < len(items) else None
    return _part_of(item, rest) if rest else item


class SpansAlike(NamedTuple):
    """Spans with the same attributes, by columns, and their places in the table."""

    places: Sequence[int]
    row: Mapping[str, Sequence[Any]]  # by column of the span table; events are decoded
    attributes: Mapping[str, Sequence[Any]]

    def take(self, chosen: Sequence[int]) -> SpansAlike:
        """Return some of the spans, in their order."""
        if len(chosen) == len(self.places):
            return self
        return SpansAlike(
            [self.places[i] for i in chosen],
            {name: [column[i] for i in chosen] for name, column in self.row.items()},
            {name: [column[i] for i in chosen] for name, column in self.attributes.items()},
        )


# Columns of a span table by name, and the attributes of each span.
SpanColumns: TypeAlias = tuple[Mapping[str, Sequence[Any]], Iterable[dict[str, Any]]]


def parts_of(spans: pl.DataFrame) -> Iterator[SpanColumns]:
    """Yield parts of a span table, of as many spans as are read at once."""
    for start in range(0, spans.height, SPANS_READ_TOGETHER):
        rows = spans.slice(start, SPANS_READ_TOGETHER).rows()
        columns = dict(zip(spans.columns, zip(*rows, strict=True), strict=True))
        yield columns, map(msgspec.json.decode, columns["attributes"])


def parts_of_rows(rows: Sequence[SpanRow]) -> Iterator[SpanColumns]:
    """Yield parts of spans as `parts_of` does for a table."""
    for start in range(0, len(rows), SPANS_READ_TOGETHER):
        part = zip(*rows[start : start + SPANS_READ_TOGETHER], strict=True)
        columns = dict(zip(SPAN_SCHEMA, part, strict=True))
        yield columns, map(msgspec.json.decode, columns["attributes"])


def spans_alike(
    columns: Mapping[str, Sequence[Any]],
    attributes: Iterable[dict[str, Any]],
    reader: FieldReader,
) -> Iterator[SpansAlike]:
    """Yield the spans of a part in groups that have the same attributes.

    What events say belongs to the attributes, and so do messages in flat keys.
    """
    row: dict[str, Sequence[Any]] = {name: columns[name] for name in _ROW}
    row["events"] = [
        msgspec.json.decode(text) if text != NO_ITEMS else [] for text in row["events"]
    ]
    every = SpansAlike(range(len(row["trace_id"])), row, {})
    alike: dict[tuple[str, ...], list[tuple[int, dict[str, Any]]]] = {}
    for place, given in enumerate(attributes):
        found = reader.with_events(given, row["events"][place])
        members = alike.get(tuple(found))
        if members is None:  # Spans are grouped without their flat keys of messages.
            found = reader.with_flat_messages(found)
            members = alike.setdefault(tuple(found), [])
        members.append((place, found))
    for names, members in alike.items():
        values = zip(*(found.values() for _, found in members), strict=True)
        chosen = every.take([place for place, _ in members])
        yield chosen._replace(attributes=dict(zip(names, values, strict=True)))
