"""Names near a mistyped one; this module stands on the standard library alone."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

# A mistyped name is not longer, and looking for near ones takes the square of the length.
_WORD_LENGTH_MAX = 60


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """Return what somebody may have meant by a name that there is not, and which there are."""
    shown = list(names)
    word = name[:_WORD_LENGTH_MAX] if isinstance(name, str) else ""
    close = get_close_matches(word, shown, n=1)
    meant = f"Did you mean {close[0]}? " if close else ""
    return f"{meant}Known: {', '.join(shown)}." if shown else "There is none."
