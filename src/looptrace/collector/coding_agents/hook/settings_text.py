"""Changes to a JSON file of settings that leave the rest of its text as it is.

Comments and trailing commas are allowed, because some programs allow them. Functions raise
`ValueError` where the settings are not an object of JSON with lists of entries.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

_SKIPPED = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_PLAIN = re.compile(r"[-+.\w]+")
_INDENT = re.compile(r'\n([ \t]+)"')
_CLOSERS = {"{": "}", "[": "]"}


class _Item(NamedTuple):
    """A part of an object or an array: where it begins, where its value does, and its end."""

    key: str
    start: int
    value: int
    end: int


def with_entries(text: str, entries: dict[str, Any]) -> str:
    """Return settings with an entry added to the list of each event below `hooks`."""
    if not text.strip():
        text = "{}\n"
    unit = found[1] if (found := _INDENT.search(text)) else "  "
    for event, entry in entries.items():
        top = _begin(text)
        hooks = _at(text, top, "hooks")
        if hooks is None:
            text = _added(text, top, "hooks", {event: [entry]}, unit, 1)
        elif (listed := _at(text, hooks, event)) is None:
            text = _added(text, hooks, event, [entry], unit, 2)
        else:
            text = _added(text, listed, "", entry, unit, 3)
    return text


def without_entries(text: str, is_own: Callable[[str], bool]) -> str:
    """Return settings without the entries whose text is one's own; what is then empty goes, too."""
    while (path := _own(text, is_own)) is not None:
        for container, place in reversed(path):
            items, close = _items(text, container)
            text = _cut(text, container, items, close, place)
            if len(items) > 1:
                break
    return text


def own_entries(text: str, is_own: Callable[[str], bool]) -> dict[str, list[str]]:
    """Return the texts of one's own entries, by event."""
    found: dict[str, list[str]] = {}
    hooks = _at(text, _begin(text), "hooks") if text.strip() else None
    for event in _items(text, hooks)[0] if hooks is not None else ():
        if text[event.value] == "[":
            texts = (text[item.value : item.end] for item in _items(text, event.value)[0])
            found[event.key] = [each for each in texts if is_own(each)]
    return {event: texts for event, texts in found.items() if texts}


def _own(text: str, is_own: Callable[[str], bool]) -> list[tuple[int, int]] | None:
    """Return where the first entry of one's own is: containers and places in them, outer first."""
    top = _begin(text) if text.strip() else None
    items = [] if top is None else _items(text, top)[0]
    for hooks in items:
        if top is None or hooks.key != "hooks" or text[hooks.value] != "{":
            continue
        for event in _items(text, hooks.value)[0]:
            if text[event.value] != "[":
                continue
            for item in _items(text, event.value)[0]:
                if is_own(text[item.value : item.end]):
                    places = (hooks.start, event.start, item.start)
                    return list(zip((top, hooks.value, event.value), places, strict=True))
    return None


def _begin(text: str) -> int:
    """Return where the object begins that is the whole text."""
    begin = _skip(text, 1 if text.startswith("\ufeff") else 0)
    if text[begin : begin + 1] != "{":
        raise ValueError("it is not an object of JSON")
    _, close = _items(text, begin)
    if _skip(text, close + 1) != len(text):
        raise ValueError("something follows its object")
    return begin


def _at(text: str, container: int, key: str) -> int | None:
    """Return where the object or list of a key begins, None where there is no such key."""
    value = next((item.value for item in _items(text, container)[0] if item.key == key), None)
    if value is not None and text[value] != ("{" if key == "hooks" else "["):
        raise ValueError(f"its {key!r} has another form than the program documents")
    return value


def _added(text: str, container: int, key: str, value: Any, unit: str, depth: int) -> str:
    """Return a text with a last item in a container that stands at a depth."""
    items, close = _items(text, container)
    end = "\r\n" if "\r\n" in text else "\n"
    pad = end + unit * depth
    written = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", pad)
    written = f"{json.dumps(key)}: {written}" if key else written
    if items:
        return f"{text[: items[-1].end]},{pad}{written}{text[items[-1].end :]}"
    inside = text[container + 1 : close].rstrip()
    return f"{text[: container + 1]}{inside}{pad}{written}{end}{unit * (depth - 1)}{text[close:]}"


def _cut(text: str, container: int, items: list[_Item], close: int, place: int) -> str:
    """Return a text without the item that begins at a place of a container."""
    number = next(i for i, item in enumerate(items) if item.start == place)
    if number:
        return text[: items[number - 1].end] + text[items[number].end :]
    if len(items) > 1:
        return text[: items[0].start] + text[items[1].start :]
    return text[: container + 1] + text[close:]


def _items(text: str, begin: int) -> tuple[list[_Item], int]:
    """Return the items of the object or array that begins at a place, and where it closes."""
    closer, items = _CLOSERS[text[begin]], list[_Item]()
    at = _skip(text, begin + 1)
    while text[at : at + 1] != closer:
        start, key = at, ""
        if closer == "}":
            end = _match(_STRING, text, at)
            key, at = str(json.loads(text[at:end])), _skip(text, end)
            if text[at : at + 1] != ":":
                raise ValueError(f"a colon is missing at character {at}")
            at = _skip(text, at + 1)
        end = _end(text, at)
        items.append(_Item(key, start, at, end))
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != closer:
            raise ValueError(f"a comma is missing at character {at}")
    return items, at


def _end(text: str, at: int) -> int:
    first = text[at : at + 1]
    if first in ("{", "["):
        return _items(text, at)[1] + 1
    return _match(_STRING if first == '"' else _PLAIN, text, at)


def _skip(text: str, at: int) -> int:
    found = _SKIPPED.match(text, at)
    return found.end() if found else at


def _match(form: re.Pattern[str], text: str, at: int) -> int:
    if (found := form.match(text, at)) is None:
        raise ValueError(f"it is not JSON at character {at}")
    return found.end()
