"""Names near a mistyped one; this module needs only the standard library."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

# Mistyped names are shorter, and the search for near ones takes the square of the length.
_WORD_LENGTH_MAX = 60


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """Return the hint for an unknown name: a near one, and the known ones."""
    shown = list(names)
    word = name[:_WORD_LENGTH_MAX] if isinstance(name, str) else ""
    close = get_close_matches(word, shown, n=1)
    meant = f"Did you mean {close[0]}? " if close else ""
    return f"{meant}Known: {', '.join(shown)}." if shown else "Known: none."
