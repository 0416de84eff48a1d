"""Cuts a stream of JSON text into documents.

A document is one line, as the collector's file exporter writes it, or many, as a pretty printer
writes it. Nothing is parsed here; brackets outside of strings are counted.
"""

import re
from collections.abc import Iterable, Iterator

from looptrace._core import CUT_OFF
from looptrace.collector.otlp.frames import FRAME_BYTES_MAX, DamagedError, Frame, too_long

# Deeper values are not read. Agents' spans stay below 30.
DEPTH_MAX = 200

_BLANK = b" \t\r\n"
_NOTHING = b" \t\r\n,]}"  # The rest of a document that was already reported.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ENDING_BYTES = 64  # Enough to see how a block ends without copying all of it.
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'  # An open string runs to the end of the text.
_STRINGS = re.compile(_STRING, re.DOTALL)
_UNINDENTED = re.compile(rb"\n(?=[^ \t\r\n])")
_INDENTED = re.compile(rb"\n[ \t]")
_OPENING = re.compile(rb'\{\s*(?:"|$)|\[\s*(?:[\[{]|$)')
# It cannot be inside a string, where its quotes would be escaped.
_REQUEST = re.compile(rb'\{\s*"resource(?:_?[sS]pans|_?[lL]ogs|_?[mM]etrics)"\s*:')


def documents(chunks: Iterable[bytes]) -> Iterator[Frame]:
    """Cut JSON text into documents, each with the number of its first line.

    A document continues from a line that opens more brackets than it closes until they are closed,
    or until a line begins another document.
    """
    document: _Document | None = None
    for block in _blocks(chunks):
        if document is not None and document.ends_before(block.data):
            yield document.frame(CUT_OFF)
            document = None
        if document is None:
            if block.problem is None and _opens(block.data):
                document = _Document(block)
            elif block.problem is not None or block.data.strip(_NOTHING):
                yield block
            continue
        document.add(block.data)
        if block.problem is not None or document.is_closed(block.data):
            yield document.frame(block.problem)
            document = None
    if document is not None:
        yield document.frame(CUT_OFF)


class _Document:
    """The blocks of a document that is still open."""

    def __init__(self, block: Frame) -> None:
        self._number = block.number
        self._blocks = [block.data]
        self._bytes = len(block.data)
        self._depth = _depth(block.data)
        self._is_indented = _INDENTED.search(block.data) is not None

    def ends_before(self, text: bytes) -> bool:
        """Return whether a block begins another document, so that this one was cut off.

        In a document without indentation a value may begin in the first column, but only where a
        value is due, and no export request holds another.
        """
        if text[:1] not in (b"{", b"["):
            return False
        is_value_due = _ending(self._blocks[-1]) in (b",", b"[", b":")
        is_in_request = self._blocks[0][:1] == b"{" and _REQUEST.match(text) is not None
        return self._is_indented or is_in_request or not is_value_due

    def add(self, text: bytes) -> None:
        self._bytes += len(text)
        self._depth += _depth(text)
        self._is_indented = self._is_indented or _INDENTED.search(text) is not None
        if self._bytes > FRAME_BYTES_MAX:
            self._blocks.clear()
        self._blocks.append(text)

    def is_closed(self, text: bytes) -> bool:
        """Return whether the document ends with its last block, `text`."""
        return self._depth <= 0 or (self._is_indented and text[:1] in (b"}", b"]"))

    def frame(self, problem: str | None) -> Frame:
        if self._bytes > FRAME_BYTES_MAX:
            return Frame(self._number, b"", too_long("document"))
        return Frame(self._number, b"\n".join(self._blocks), problem)


def _blocks(chunks: Iterable[bytes]) -> Iterator[Frame]:
    """Cut text before each line that is not indented, so that indented lines stay with it."""
    number, parts, size, line_feeds, held = 1, list[bytes](), 0, 0, b""
    try:
        for chunk in chunks:
            text = held + chunk
            # The next chunk shows whether the last line feed ends a block.
            held = b"\n" if text.endswith(b"\n") else b""
            *ends, rest = _UNINDENTED.split(text.removesuffix(held))
            for end in ends:
                yield _block(number, [*parts, end], size + len(end))
                number += line_feeds + end.count(b"\n") + 1
                parts, size, line_feeds = [], 0, 0
            parts, size, line_feeds = (
                [*parts, rest],
                size + len(rest),
                line_feeds + rest.count(b"\n"),
            )
            if size > FRAME_BYTES_MAX:
                parts = []
    except DamagedError as damage:
        yield Frame(number, b"".join(parts), str(damage))
        return
    yield _block(number, parts, size)


def _block(number: int, parts: list[bytes], size: int) -> Frame:
    if size > FRAME_BYTES_MAX:
        return Frame(number, b"", too_long("line"))
    text = b"".join(parts)
    if number == 1:
        text = text.removeprefix(_BYTE_ORDER_MARK).lstrip(_BLANK)
    return Frame(number, text)


def _opens(text: bytes) -> bool:
    """Return whether a block begins a document that goes on in the next."""
    if text[:1] not in (b"{", b"["):
        return False
    if b"\n" not in text and text[:1] + _ending(text) in (b"{}", b"[]"):
        return False  # Most documents are one line, whose brackets need not be counted.
    return _OPENING.match(text) is not None and _depth(text) > 0


def _ending(text: bytes) -> bytes:
    """Return the last byte that is not blank; empty if there is none."""
    return text[-_ENDING_BYTES:].rstrip(_BLANK)[-1:]


def _depth(text: bytes) -> int:
    """Count the brackets that text opens, less those that it closes."""
    if not text.translate(None, _NO_BRACKETS):
        return 0
    bare = _STRINGS.sub(b"", text)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")
