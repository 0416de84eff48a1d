"""The mark in a text that was cut: what rules need to know about the whole text.

The content policy keeps the two ends of a long text, and writes this mark between them. Rules read
the mark, so that they find the same as in the whole text: whether two texts are equal, how often a
response repeats its last words, and the figures and names of failed tests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from looptrace._core import PATTERNS

# Every mark begins so, and few other texts have it.
MARK_BEGINNING = "[cut hash:"
# Each end of a text has at most this many bytes.
END_BYTES = 900

_MARK = re.compile(PATTERNS["cut_mark"])


@dataclass(frozen=True, slots=True)
class CutMark:
    """What is known about a whole text: hashes of its forms, and what its parts no longer show."""

    result: str
    error: str
    prompt: str
    exact: str
    chant: tuple[int, int] | None  # times and characters
    figures: tuple[int | None, int | None, float | None] | None  # failed, total, percent
    names: str | None  # of the failed tests, hashed, where the ends do not name them all

    def __str__(self) -> str:
        """Return the mark as it stands in the text."""
        parts = [f"[cut {self.result} placeless:{self.error} words:{self.prompt} {self.exact}"]
        if self.chant:
            parts.append("chant:{}x{}".format(*self.chant))
        if self.figures:
            known = ("-" if figure is None else str(figure) for figure in self.figures)
            parts.append(f"figures:{':'.join(known)}")
        if self.names:
            parts.append(f"names:{self.names}")
        return f"{' '.join(parts)}]"


def chant_at_end(text: str) -> tuple[int, int] | None:
    """Return times and characters of the chant of a text that is cut at its end.

    The count is 0 if the whole text has no chant, and None is returned if no text is cut there.
    """
    at = text.rfind(MARK_BEGINNING)
    mark = _MARK.match(text, at) if at >= 0 else None
    if mark is None or len(text) - mark.end() > END_BYTES + 2:
        return None
    return int(mark[4] or 0), int(mark[5] or 0)
