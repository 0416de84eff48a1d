"""Cuts a stream of JSON text into documents, and finds what is readable in a broken one.

A document is one line, as the collector's file exporter writes them, or runs over many, as a
pretty printer does. Nothing is parsed here; brackets outside of strings are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from looptrace.collector.sources import FRAME_BYTES_MAX, DamagedError, Frame, too_long

CUT_OFF = "the JSON is cut off; export it again to get the rest"
# Text that is nested deeper is read without what lies deeper; agents' spans stay below 30.
DEPTH_MAX = 200

_BLANK = b" \t\r\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ENDING_BYTES = 64  # Enough to see how a line ends without copying all of it.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'  # An open string runs to the end of the text.
_STRINGS = re.compile(_STRING, re.DOTALL)
_TOKENS = re.compile(_STRING + rb"|[{}\[\]]", re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_CLOSER = {ord("{"): b"}", ord("["): b"]"}
_SPAN_PARENTS = b"{[{[{["  # Around a span: request, resourceSpans, scopeSpans and their arrays.

_DOCUMENT = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\{\s*(?:"[A-Za-z$_]|\}|$)|\[\s*(?:[\[{\]]|$))')
# It cannot stand inside a string, where its quotes would be escaped.
_REQUEST = re.compile(rb'\{\s*"resource(?:_?[sS]pans|_?[lL]ogs|_?[mM]etrics)"\s*:')
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def begins_document(text: bytes) -> bool:
    """Say whether text begins as a JSON object or array does."""
    return _DOCUMENT.match(text) is not None


def documents(chunks: Iterable[bytes]) -> Iterator[Frame]:
    """Cut JSON text into documents, each with the number of its first line.

    A document runs on from a line that opens more brackets than it closes until they are closed,
    or until a line begins another document.
    """
    document: _Document | None = None
    for line in _lines(chunks):
        if document is not None and document.ends_before(line.data):
            yield document.frame(CUT_OFF)
            document = None
        if document is None:
            if line.problem is None and _opens(line.data):
                document = _Document(line)
            elif line.problem is not None or line.data.strip():
                yield line
            continue
        document.add(line.data)
        if line.problem is not None or document.is_closed(line.data):
            yield document.frame(line.problem)
            document = None
    if document is not None:
        yield document.frame(CUT_OFF)


def request_starts(text: bytes) -> list[int]:
    """Give where in some text an export request begins."""
    return [match.start() for match in _REQUEST.finditer(text)]


def with_whole_escapes(text: bytes) -> bytes:
    r"""Give text with U+FFFD for each half of a surrogate pair (`\ud83d`).

    JavaScript writes them where it cuts a string in the middle of an emoji; msgspec refuses them.
    """
    return _ESCAPE.sub(lambda match: b"\\ufffd" if match["half"] else match[0], text)


def readable_prefix(request: bytes, stop: int) -> bytes:
    """Give an export request up to its last whole span before `stop`, with its brackets closed.

    What is nested deeper than DEPTH_MAX is null. Empty where no span is whole.
    """
    open_brackets, open_at_last = bytearray(), b""
    parts: list[bytes] = []
    whole_parts = taken_to = 0
    for token in _TOKENS.finditer(request, 0, stop):
        bracket = request[token.start()]
        if bracket in _CLOSER:
            open_brackets.append(bracket)
            if len(open_brackets) == DEPTH_MAX + 1:
                parts.append(request[taken_to : token.start()] + b"null")
        elif bracket in b"}]" and open_brackets:
            open_brackets.pop()
            if len(open_brackets) == DEPTH_MAX:
                taken_to = token.end()
            elif not open_brackets or open_brackets == _SPAN_PARENTS:
                parts.append(request[taken_to : token.end()])
                taken_to, whole_parts = token.end(), len(parts)
                open_at_last = bytes(open_brackets)
    closers = (_CLOSER[bracket] for bracket in reversed(open_at_last))
    return b"".join([*parts[:whole_parts], *closers]) if whole_parts else b""


class _Document:
    """The lines of a document that is still open."""

    def __init__(self, line: Frame) -> None:
        self._number = line.number
        self._lines = [line.data]
        self._bytes = len(line.data)
        self._depth = _depth(line.data)
        self._is_indented = False

    def ends_before(self, text: bytes) -> bool:
        """Say whether a line begins another document, so that this one was cut off.

        In one that is not indented a value may begin in the first column, but only where a value
        is due, and no export request holds another.
        """
        if text[:1] not in (b"{", b"["):
            return False
        is_value_due = _ending(self._lines[-1]) in (b",", b"[", b":")
        is_in_request = self._lines[0][:1] == b"{" and _REQUEST.match(text) is not None
        return self._is_indented or is_in_request or not is_value_due

    def add(self, text: bytes) -> None:
        """Take the next line."""
        self._bytes += len(text)
        self._depth += _depth(text)
        self._is_indented |= text[:1] in (b" ", b"\t")
        if self._bytes > FRAME_BYTES_MAX:
            self._lines.clear()
        self._lines.append(text)

    def is_closed(self, text: bytes) -> bool:
        """Say whether the document ends with its last line, `text`."""
        return self._depth <= 0 or (self._is_indented and text[:1] in (b"}", b"]"))

    def frame(self, problem: str | None) -> Frame:
        """Give the document as one frame."""
        if self._bytes > FRAME_BYTES_MAX:
            return Frame(self._number, b"", too_long("document"))
        return Frame(self._number, b"\n".join(self._lines), problem)


def _lines(chunks: Iterable[bytes]) -> Iterator[Frame]:
    """Cut a stream into its lines, blank ones too, so that they count."""
    number, parts, size = 1, list[bytes](), 0
    try:
        for chunk in chunks:
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                yield _line(number, [*parts, end], size + len(end))
                number, parts, size = number + 1, [], 0
            size += len(rest)
            parts = [*parts, rest] if size <= FRAME_BYTES_MAX else []
    except DamagedError as damage:
        yield Frame(number, b"".join(parts), str(damage))
        return
    yield _line(number, parts, size)


def _line(number: int, parts: list[bytes], size: int) -> Frame:
    if size > FRAME_BYTES_MAX:
        return Frame(number, b"", too_long("line"))
    text = b"".join(parts)
    if number == 1:
        text = text.removeprefix(_BYTE_ORDER_MARK).lstrip(_BLANK)
    return Frame(number, text)


def _opens(text: bytes) -> bool:
    """Say whether a line begins a document that goes on in the next."""
    if text[:1] not in (b"{", b"[") or text[:1] + _ending(text) in (b"{}", b"[]"):
        return False
    return begins_document(text) and _depth(text) > 0


def _ending(line: bytes) -> bytes:
    """Give the last byte of a line that is not blank; empty if there is none."""
    return line[-_ENDING_BYTES:].rstrip(_BLANK)[-1:]


def _depth(line: bytes) -> int:
    """Count the brackets that a line opens, less those that it closes."""
    if not line.translate(None, _NO_BRACKETS):
        return 0
    bare = _STRINGS.sub(b"", line)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")
