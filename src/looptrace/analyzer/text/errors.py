"""The type and the message of an error's text."""

from __future__ import annotations

import re

_TYPED = re.compile(
    r"([A-Za-z_][\w.]*(?:Error|Exception|Failure|Timeout|Interrupt)):\s*(.*)", re.DOTALL
)


_REPR = re.compile(r"([A-Za-z_][\w.]*)\((['\"])(.*)\2,?\)", re.DOTALL)


_TRACEBACK = "Traceback (most recent call last)"


def error_of(text: str) -> tuple[str | None, str]:
    """Split an error into its type and its message, without the surrounding stack trace."""
    head, _, trace = text.partition(_TRACEBACK)
    last = trace.strip().rpartition("\n")[2].strip()
    # The text before a stack trace may be only the command.
    text = last if _TYPED.fullmatch(last) else head.strip() or last or text.strip()
    if match := _REPR.fullmatch(text) or _TYPED.fullmatch(text):
        return match[1].rsplit(".", 1)[-1], match[match.lastindex or 0].strip()
    return None, text
