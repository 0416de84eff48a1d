"""Messages in flat keys such as `llm.input_messages.1.message.role`: OpenInference's way."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple, TypeAlias

# Keys that are kept split, none of them long.
KEYS_KEPT = 1 << 14
KEY_CHARS_KEPT = 200
# A number in a key with more digits is no number of a message, and a key with more parts no key.
_INDEX_DIGITS_MAX = 9
_KEY_PARTS_MAX = 50

# The ends of the keys of a message (`.message.role`) and their values.
FlatItem: TypeAlias = list[tuple[str, object]]
_Name: TypeAlias = tuple[str, str]  # prefix and number


class FlatMessages(NamedTuple):
    """The messages under one prefix, in the order of their numbers."""

    items: list[FlatItem]

    def values(self, first: int = 0) -> list[object]:
        """Build the messages from the `first` on out of their keys."""
        return [_nested(item) for item in self.items[first:]]

    def chars(self, first: int = 0) -> float:
        """Return how many characters those from the `first` on have; infinite if not all texts."""
        values = (value for item in self.items[first:] for _, value in item)
        return sum(len(value) if isinstance(value, str) else inf for value in values)


def flat_messages(attributes: dict[str, Any], prefixes: tuple[str, ...]) -> dict[str, FlatMessages]:
    """Gather the messages in flat keys by the prefix of these, in one pass over all keys.

    Their numbers have gaps, so they only give the order.
    """
    numbered: dict[_Name, FlatItem] = defaultdict(list)
    for key, value in attributes.items():
        if key.startswith(prefixes):
            name, end = (_split_kept if len(key) <= KEY_CHARS_KEPT else _split)(key, prefixes)
            numbered[name].append((end, value))
    messages: dict[str, FlatMessages] = {}
    names = [name for name in numbered if _is_index(name[1])]
    for name in sorted(names, key=lambda name: int(name[1])):
        messages.setdefault(name[0], FlatMessages([])).items.append(numbered[name])
    return messages


def _split(key: str, prefixes: tuple[str, ...]) -> tuple[_Name, str]:
    """Split a key into prefix and number, and the rest."""
    prefix = next(prefix for prefix in prefixes if key.startswith(prefix))
    number, dot, rest = key.removeprefix(prefix).partition(".")
    return (prefix, number), dot + rest


_split_kept = lru_cache(maxsize=KEYS_KEPT)(_split)


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
