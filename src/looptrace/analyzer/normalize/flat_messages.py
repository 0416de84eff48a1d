"""Messages in flat keys such as `llm.input_messages.1.message.role`: OpenInference's way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from looptrace.bounded_dict import BoundedDict

# Keys that are kept split, none of them long.
KEYS_KEPT = 1 << 14
KEY_CHARS_KEPT = 200
# Shapes of messages that are kept, none of them with many keys or long ones.
SHAPES_KEPT = 1024
SHAPE_CHARS_KEPT = 2_000
# A number in a key with more digits is no number of a message, and a key with more parts no key.
_INDEX_DIGITS_MAX = 9
_KEY_PARTS_MAX = 50

# The ends of the keys of a message (`.message.role`) and their values.
FlatItem: TypeAlias = list[tuple[str, object]]
_Name: TypeAlias = tuple[int, str, str]  # number, as it is written, and prefix
_Place: TypeAlias = tuple[_Name | None, str]  # the message that a key is of, and the key's end


class FlatMessages(NamedTuple):
    """The messages under one prefix, in the order of their numbers."""

    items: list[FlatItem]

    def values(self, first: int = 0) -> list[object]:
        """Build the messages from the `first` on out of their keys."""
        return [_message(item) for item in self.items[first:]]

    def chars(self, first: int = 0) -> float:
        """Return how many characters those from the `first` on have; infinite if not all texts."""
        values = (value for item in self.items[first:] for _, value in item)
        return sum(len(value) if isinstance(value, str) else inf for value in values)


class FlatKeys:
    """The prefixes under which messages lie in flat keys; keys are split once."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = prefixes
        self._places: BoundedDict[str, _Place] = BoundedDict(KEYS_KEPT)

    def gather(
        self, attributes: dict[str, Any], keys: Iterable[str]
    ) -> tuple[dict[str, FlatMessages], list[str]]:
        """Gather the messages in these keys by prefix; also returned are the keys that are of none.

        Their numbers have gaps, so they only give the order.
        """
        numbered: dict[_Name, FlatItem] = defaultdict(list)
        others: list[str] = []
        for key in keys:
            name, end = self._places.get(key) or self._place(key)
            if name is None:
                others.append(key)
            else:
                numbered[name].append((end, attributes[key]))
        messages: dict[str, FlatMessages] = {}
        for name in sorted(numbered, key=itemgetter(0)):
            messages.setdefault(name[2], FlatMessages([])).items.append(numbered[name])
        return messages, others

    def _place(self, key: str) -> _Place:
        """Split a key into prefix and number, and the rest."""
        place: _Place = (None, "")
        if key.startswith(self._prefixes):
            prefix = next(prefix for prefix in self._prefixes if key.startswith(prefix))
            number, dot, rest = key.removeprefix(prefix).partition(".")
            if _is_index(number):
                place = ((int(number), number, prefix), dot + rest)
        if len(key) <= KEY_CHARS_KEPT:
            self._places[key] = place
        return place


def _message(item: FlatItem) -> object:
    """Build a message out of the ends of its keys; what has the same keys is built alike."""
    ends, values = zip(*item, strict=True)
    if dict in map(type, values) or sum(map(len, ends)) > SHAPE_CHARS_KEPT:
        return _nested(item)
    return _filled(_shape(ends), values)


@lru_cache(maxsize=SHAPES_KEPT)
def _shape(ends: tuple[str, ...]) -> object:
    """Build a message that has the places of the values instead of these."""
    return _nested([(end, place) for place, end in enumerate(ends)])


def _filled(shape: Any, values: tuple[object, ...]) -> object:
    """Put the values into the places of a shape."""
    if type(shape) is int:
        return values[shape]
    if type(shape) is dict:
        return {key: _filled(part, values) for key, part in shape.items()}
    return [_filled(part, values) for part in shape]


def _nested(item: FlatItem) -> object:
    """Build a message out of the ends of its keys, which may number parts in turn.

    Of a value and of keys below it at one place the keys count, whichever comes first.
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
