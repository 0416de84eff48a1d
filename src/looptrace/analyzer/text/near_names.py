"""Names near a mistyped one; this module needs only the standard library."""

from collections.abc import Iterable
from difflib import get_close_matches

# Mistyped names are shorter, and the search for near ones takes the square of the length.
_WORD_LENGTH_MAX = 60


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """Return the hint for an unknown name: the nearest one, else all known ones."""
    known = list(names)
    word = name[:_WORD_LENGTH_MAX] if isinstance(name, str) else ""
    close = get_close_matches(word, known, n=1)
    if close:
        return f"Did you mean {close[0]}?"
    return f"Known: {', '.join(known) or 'none'}."
