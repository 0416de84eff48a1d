"""Values in spans: JSON in strings, and one text for equal values."""

import json  # canonical text: keys sorted, numbers as written, half surrogate pairs kept
from typing import Any

import msgspec

from looptrace import _core

# The first characters of JSON: of values that may have white space inside, and of those without.
_JSON_BRACKETS = frozenset('{["')
_JSON_WORDS = frozenset("-0123456789tfn")
_decode = msgspec.json.Decoder().decode
_encode = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str
).encode
_encode_flat = msgspec.json.Encoder(order="sorted").encode
_FLAT_KEYS = frozenset({str})
_FLAT_VALUES = frozenset({str, int, bool, type(None)})


def parsed(value: object) -> Any:
    """Return the value of a string that is JSON, and any other value as it is."""
    if not isinstance(value, str) or not (text := value.lstrip()):
        return value
    try:
        # Prose that begins with a number is told apart faster than by an error of the decoder.
        if text[0] in _JSON_BRACKETS or (text[0] in _JSON_WORDS and len(text.split(None, 1)) == 1):
            return _decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        pass  # It is text, or has escapes that no reader accepts.
    if "\\u" in value:
        data = value.encode("utf-8", "surrogatepass")
        whole = _core.with_whole_escapes(data).decode("utf-8", "surrogatepass")
        return value if whole == value else parsed(whole)
    return value


def is_redacted(value: object) -> bool:
    """Return whether a value is the placeholder of a removed one."""
    return isinstance(value, str) and _core.is_redacted(value)


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in a text, which is a JSON list or one name."""
    names = parsed(text)
    return tuple(str(parsed(name)) for name in (names if isinstance(names, list) else [names]))


def canonical(value: object) -> str:
    """Return the same text for equal values: sorted keys, no spacing, 1.0 written as 1.

    A string only loses its outer white space.
    """
    if isinstance(value, str):
        return value.strip()
    if type(value) is dict and _is_flat(value):
        try:
            return _encode_flat(value).decode()
        except UnicodeEncodeError:
            pass  # Half surrogate pairs are kept below.
    return _encode(_plain_numbers(value))


def _is_flat(value: dict[Any, Any]) -> bool:
    """Return whether a value is an object that any encoder writes alike, as most arguments are."""
    return _FLAT_KEYS.issuperset(map(type, value)) and _FLAT_VALUES.issuperset(
        map(type, value.values())
    )


def _plain_numbers(value: object) -> object:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {str(key): _plain_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_numbers(item) for item in value]
    return value
