"""Display of texts from traces: one line, no control characters, bounded length."""

import json  # a text may hold half a surrogate pair, which msgspec refuses
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from looptrace.analyzer.text.payloads import names_in

# A label fits on one line of a terminal beside the words of a sentence.
LABEL_LENGTH_MAX = 72

_ELLIPSIS = "…"
_UNKNOWN = "?"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# One long argument must not push the others out of the label.
_VALUE_LENGTH_MAX = 48

# More values would not help a reader.
_VALUES_MAX = 8

# Longer arguments are shown as text: parsing megabytes for one label would make a report slow.
_ARGUMENTS_LENGTH_MAX = 100_000
# The most arguments in a label of short texts.
_ARGUMENTS_KEPT, _KEPT_LENGTH_MAX = 1024, 4096

# White space collapses, so somewhat more than the wanted length is read, but never megabytes.
_READ_FACTOR = 8

# Characters that would make an unquoted value look like several, or like another call.
_SPECIAL = frozenset(',"()[]{}')


def plain(text: str, length_max: int) -> str:
    """Return the text on one line, without control characters, shortened in the middle.

    Unprintable characters (escapes, bidirectional overrides, lone surrogates) become U+FFFD, so
    that they can neither act on a terminal nor hide.
    """
    words = " ".join(_shortened(text, length_max * _READ_FACTOR).split())
    shown = _shortened(words, length_max)
    if shown.isprintable():
        return shown
    return "".join(character if character.isprintable() else _REPLACEMENT for character in shown)


def call_label(name: str | None, arguments: str | None, length_max: int = LABEL_LENGTH_MAX) -> str:
    """Write a call as `run_tests(tests/test_cart.py)`; unknown arguments are `run_tests(?)`."""
    return plain(f"{name or _UNKNOWN}({_arguments_text(arguments)})", length_max)


def label(row: Mapping[str, Any], length_max: int = LABEL_LENGTH_MAX) -> str:
    """Return one line for a row of the turn table: the call, the hand-off, or the words."""
    name, text = row["name"], row["text"]
    if row["kind"] == "tool":
        return call_label(name, row["arguments"], length_max)
    if row["kind"] == "handoff":
        return plain(f"→ {name or _UNKNOWN}" + (f": {text}" if text else ""), length_max)
    if row["kind"] == "attempt" and name and row["arguments"]:
        return plain(f"{name} ({', '.join(names_in(row['arguments']))})", length_max)
    return plain(text or name or row["phase"] or _UNKNOWN, length_max)


def _shortened(text: str, length_max: int) -> str:
    """Cut out the middle: the head says what a text is, the tail of a path or an error which."""
    if len(text) <= length_max:
        return text
    tail_length = (length_max - 1) // 2
    head_length = length_max - 1 - tail_length
    return text[:head_length] + _ELLIPSIS + text[len(text) - tail_length :]


def _arguments_text(arguments: str | None) -> str:
    if arguments is None:
        return _UNKNOWN
    if len(arguments) > _ARGUMENTS_LENGTH_MAX:
        return plain(arguments, _VALUE_LENGTH_MAX)
    kept = len(arguments) <= _KEPT_LENGTH_MAX
    return (_values_kept if kept else _values_text)(arguments)


def _values_text(arguments: str) -> str:
    try:
        parsed = json.loads(arguments)
        values = list(parsed.values()) if isinstance(parsed, dict) else [parsed]
        shown = [_value_text(value) for value in islice(values, _VALUES_MAX)]
    except (ValueError, RecursionError):
        return plain(arguments, _VALUE_LENGTH_MAX)
    if len(values) > _VALUES_MAX:
        shown.append(_ELLIPSIS)
    return ", ".join(shown)


# A loop's calls are named in its finding, its events and its reports.
_values_kept = lru_cache(maxsize=_ARGUMENTS_KEPT)(_values_text)


def _value_text(value: object) -> str:
    if isinstance(value, str) and _is_simple(value):
        return plain(value, _VALUE_LENGTH_MAX)
    return plain(json.dumps(value, ensure_ascii=False), _VALUE_LENGTH_MAX)


def _is_simple(text: str) -> bool:
    """Return whether a text reads as one value without quotes, and not as a number or `null`."""
    if not text or text != " ".join(text.split()) or not _SPECIAL.isdisjoint(text):
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    return False
