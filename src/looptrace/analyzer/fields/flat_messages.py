"""Messages in flat keys, as OpenInference writes them: `llm.input_messages.1.message.role`."""

from __future__ import annotations

from functools import lru_cache
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, TypeGuard

from looptrace.bounded_dict import BoundedDict

# Split keys that are cached. None of them is long.
KEYS_KEPT = 1 << 14
KEY_CHARS_KEPT = 200
# Shapes of messages that are cached. None of them has many keys or long ones.
SHAPES_KEPT = 1024
SHAPE_CHARS_KEPT = 2_000
# Conversation histories that are kept to see what was added. None of them is long.
HISTORIES_KEPT = 256
HISTORY_CHARS_MAX = 1 << 18
# Conversations are told apart by this many values before they are compared.
HEAD_KEYS = 4
# A number with more digits is not the number of a message. A key is split at most this often.
_INDEX_DIGITS_MAX = 9
_KEY_PARTS_MAX = 50

# The ends of the keys of a message (`.message.role`) and their values.
FlatItem: TypeAlias = list[tuple[str, object]]
_Name: TypeAlias = tuple[int, str, str]  # number, the number as written, prefix
_Place: TypeAlias = tuple[_Name | None, str]  # the key's message, and the key's end


class FlatMessages(NamedTuple):
    """The messages under one prefix, in the order of their numbers."""

    items: list[FlatItem]

    def values(self) -> list[object]:
        """Build the messages from their keys."""
        return list(map(built, self.items))

    def chars(self, first: int = 0) -> float:
        """Return the characters of the messages from `first` on; infinite if not all are text."""
        values = (value for item in self.items[first:] for _, value in item)
        return sum(len(value) if isinstance(value, str) else inf for value in values)


class _History(NamedTuple):
    """A conversation so far: its keys, its values (all of them text) and its messages."""

    keys: tuple[str, ...]
    values: tuple[str, ...]
    messages: dict[_Name, FlatItem]
    chars: int  # of keys and values


_NO_HISTORY = _History((), (), {}, 0)


class FlatKeys:
    """The prefixes of flat keys that hold messages; each key is split once.

    Each request of a conversation repeats the keys and values of the one before. Only what comes
    after them is split.
    """

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = prefixes
        self._places: BoundedDict[str, _Place] = BoundedDict(KEYS_KEPT)
        # The last history of conversations that begin alike.
        self._histories: BoundedDict[tuple[object, ...], _History] = BoundedDict(HISTORIES_KEPT)

    def gather(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes; messages in flat keys become `FlatMessages` by prefix.

        The numbers of messages have gaps, so they only give the order.
        """
        keys, values = tuple(attributes), tuple(attributes.values())
        flat = (n for n, key in enumerate(keys) if (self._places.get(key) or self._place(key))[0])
        first = next(flat, None)
        if first is None:
            return attributes
        others: dict[str, Any] = dict(zip(keys[:first], values[:first], strict=True))
        numbered = self._gather_messages(keys[first:], values[first:], others)
        items: dict[str, list[FlatItem]] = {}
        for name in sorted(numbered, key=itemgetter(0)):
            items.setdefault(name[2], []).append(numbered[name])
        return others | {prefix: FlatMessages(found) for prefix, found in items.items()}

    def _gather_messages(
        self, keys: tuple[str, ...], values: tuple[object, ...], others: dict[str, Any]
    ) -> dict[_Name, FlatItem]:
        """Return the messages in these keys, the first of them flat; add the rest to `others`."""
        head = (keys[0], *values[:HEAD_KEYS])
        history = self._history(head, keys, values)
        # Messages that are also in a history are copied before anything is added to them.
        kept, numbered = history.messages, dict(history.messages)
        prefix, begin = self._prefix(keys[0]), len(history.keys)
        end, goes_on = begin, True
        for key, value in zip(keys[begin:], values[begin:], strict=True):
            name, rest = self._places.get(key) or self._place(key)
            if goes_on and (name is None or name[2] != prefix):
                goes_on, kept = False, dict(numbered)
            end += goes_on
            if name is None:
                others[key] = value
                continue
            item = numbered.get(name)
            if item is None or item is kept.get(name):
                numbered[name] = item = [*(item or ())]
            item.append((rest, value))
        added = values[begin:end]
        # Only texts are cached, because 1 and true compare equal.
        if _are_texts(head) and _are_texts(added):
            chars = history.chars + sum(map(len, keys[begin:end])) + len("".join(added))
            if chars <= HISTORY_CHARS_MAX:
                messages = dict(numbered) if goes_on else kept
                self._histories[head] = _History(
                    keys[:end], (*history.values, *added), messages, chars
                )
        return numbered

    def _history(
        self, head: tuple[object, ...], keys: tuple[str, ...], values: tuple[object, ...]
    ) -> _History:
        """Return the known history at the beginning of these keys and values."""
        known = self._histories.get(head, _NO_HISTORY) if _are_texts(head) else _NO_HISTORY
        count = len(known.keys)
        repeats = keys[:count] == known.keys and values[:count] == known.values
        return known if repeats else _NO_HISTORY

    def _prefix(self, key: str) -> str | None:
        name, _ = self._place(key)
        return name[2] if name else None

    def _place(self, key: str) -> _Place:
        """Split a key into prefix, number and the rest."""
        place: _Place = (None, "")
        if key.startswith(self._prefixes):
            prefix = next(prefix for prefix in self._prefixes if key.startswith(prefix))
            number, dot, rest = key.removeprefix(prefix).partition(".")
            if _is_index(number):
                place = ((int(number), number, prefix), dot + rest)
        if len(key) <= KEY_CHARS_KEPT:
            self._places[key] = place
        return place


def _are_texts(values: tuple[object, ...]) -> TypeGuard[tuple[str, ...]]:
    return {str}.issuperset(map(type, values))


def built(item: FlatItem) -> object:
    """Build a message from the ends of its keys; messages with the same keys share a shape."""
    ends, values = zip(*item, strict=True)
    if dict in map(type, values) or sum(map(len, ends)) > SHAPE_CHARS_KEPT:
        return _nested(item)
    return _filled(_shape(ends), values)


@lru_cache(maxsize=SHAPES_KEPT)
def _shape(ends: tuple[str, ...]) -> object:
    """Build a message with the places of the values instead of the values."""
    return _nested([(end, place) for place, end in enumerate(ends)])


def _filled(shape: Any, values: tuple[object, ...]) -> object:
    """Put the values into the places of a shape."""
    if type(shape) is int:
        return values[shape]
    if type(shape) is dict:
        return {key: _filled(part, values) for key, part in shape.items()}
    return [_filled(part, values) for part in shape]


def _nested(item: FlatItem) -> object:
    """Build a message from the ends of its keys, which may number parts of it.

    If one place has both a value and keys below it, the keys count, in whatever order they come.
    """
    root: dict[str, Any] = {}
    for end, value in item:
        *parents, last = end.split(".", _KEY_PARTS_MAX)
        node = root
        for part in parents:
            if not isinstance(node.get(part), dict):
                node[part] = {}
            node = node[part]
        if not isinstance(node.get(last), dict):
            node[last] = value
    return _numbers_to_lists(root[""])


def _is_index(key: str) -> bool:
    return key.isdecimal() and len(key) <= _INDEX_DIGITS_MAX


def _numbers_to_lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if all(map(_is_index, node)):
        return [_numbers_to_lists(node[key]) for key in sorted(node, key=int)]
    return {key: _numbers_to_lists(value) for key, value in node.items()}
