"""Objects as Node.js prints them: `util.inspect` of JavaScript, which is no JSON.

Keys have no quotes, strings have single ones, `+` joins the lines of a string, and what is too deep
or too long is left out.
"""

import re
import sys
from collections.abc import Iterator
from typing import Any

from looptrace.collector.otlp.span_rows import BadSpanError

# Values within each other; spans are printed to a depth of 3.
DEPTH_MAX = 50

_WORDS = {"undefined": None, "null": None, "true": True, "false": False, "NaN": None}
_BEGIN = re.compile(rb"\{\s*(?:resource|traceId|instrumentationScope|instrumentationLibrary): ")
_STRING = r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|`(?:[^`\\]|\\.)*+`"""
_TOKEN = re.compile(
    rf"""\s+
    | (?P<string>{_STRING})
    | (?P<left_out>\.\.\.\s[\d]+\smore\s\w+|<ref\s\*\d+>|\[Object:\snull\sprototype\](?=\s*\{{))
    | (?P<more>\[(?:Object|Array|Circular|Function|Getter|Symbol|[A-Z]\w*)[^\[\]\{{\}},]*\])
    | (?P<mark>[\{{\}}\[\],:+])
    | (?P<word>[^\s,:\{{\}}\[\]'"`]+)""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_Token = tuple[str, str]


def begins_span(text: bytes) -> bool:
    """Return whether a text begins as a span that Node.js printed."""
    return _BEGIN.match(text) is not None


def inspected(text: str) -> Any:
    """Return the value of an object that was printed. Raises BadSpanError if it is cut off."""
    tokens = list(_tokens(text))
    if not tokens:
        raise BadSpanError("the printed object is empty")
    return _Reader(tokens).value(0)


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind is not None and kind != "left_out":
            yield kind, match[0]


class _Reader:
    """The reader of tokens, from the first to the last."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def value(self, depth: int) -> Any:
        """Return the value that begins here."""
        kind, text = self._next()
        if depth > DEPTH_MAX:
            raise BadSpanError("the printed object is nested too deep")
        if kind == "string":
            return self._joined(text)
        if kind == "more":
            return None
        if text == "{":
            return self._object(depth)
        if text == "[":
            return self._array(depth)
        # The name of a class stands before its fields.
        if self._peek() == "{":
            return self.value(depth)
        if text in _WORDS:
            return _WORDS[text]
        if _NUMBER.fullmatch(text.removesuffix("n")):
            number = text.removesuffix("n")
            return int(number) if number.lstrip("-").isdecimal() else float(number)
        return text

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._peek() != "}":
            kind, key = self._next()
            if key == ",":
                continue
            if self._peek() != ":":  # What was left out.
                continue
            self._next()
            found[_unquoted(key) if kind == "string" else key] = self.value(depth + 1)
        self._next()
        return found

    def _array(self, depth: int) -> list[Any]:
        found: list[Any] = []
        while self._peek() != "]":
            if self._peek() == ",":
                self._next()
            else:
                found.append(self.value(depth + 1))
        self._next()
        return found

    def _joined(self, text: str) -> str:
        parts = [_unquoted(text)]
        while self._peek() == "+":
            self._next()
            parts.append(_unquoted(self._next()[1]))
        return "".join(parts)

    def _peek(self) -> str:
        if self._at >= len(self._tokens):
            raise BadSpanError("the printed object is cut off")
        kind, text = self._tokens[self._at]
        return text if kind == "mark" else ""

    def _next(self) -> _Token:
        if self._at >= len(self._tokens):
            raise BadSpanError("the printed object is cut off")
        self._at += 1
        return self._tokens[self._at - 1]


_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL
)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}


def _unquoted(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if not code:
        return _ESCAPED.get(match[4], match[4])
    # Half of a character is printed as an escape, and no text can hold it.
    number = int(code, 16)
    is_whole = number <= sys.maxunicode and not 0xD800 <= number <= 0xDFFF
    return chr(number) if is_whole else "?"
