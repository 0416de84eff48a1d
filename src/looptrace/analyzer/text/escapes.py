"""Escapes in JSON text that no reader accepts."""

from __future__ import annotations

import re

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_HALVES = re.compile(
    rb"\\u[dD](?:"
    rb"[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|[c-fC-F][0-9a-fA-F]{2}(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
)
# This byte replaces an escaped backslash meanwhile; it does not occur in UTF-8.
_BACKSLASH = b"\xff\xfe"


def with_whole_escapes(text: bytes) -> bytes:
    r"""Return JSON with U+FFFD for each half of a surrogate pair (`\ud83d`).

    JavaScript writes them where it cuts a string in the middle of an emoji; msgspec refuses them.
    """
    if _BACKSLASH in text or not _SURROGATE.search(text):
        return text
    # A function for each match would be slow, and a running regex blocks all threads.
    text = _HALVES.sub(rb"\\ufffd", text.replace(b"\\\\", _BACKSLASH))
    return text.replace(_BACKSLASH, b"\\\\")
