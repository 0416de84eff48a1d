"""The mark in a text that was cut: what rules need to know about the whole text.

The content policy keeps the two ends of a long text, and writes this mark between them. Rules read
the mark, so that they find the same as in the whole text: whether two texts are equal, how often a
response repeats its last words, and the figures and names of failed tests.
"""

from dataclasses import dataclass

# Each end of a text has at most this many bytes.
END_BYTES = 900


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
