"""People's notes on resolved gates, for later gates of similar loops."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from looptrace.analyzer.fingerprint.similarity import Meaning, sketch

# The likeness of the loops of two gates, from the most to the least alike.
Likeness = Literal["same", "type", "meaning"]
LIKENESSES: tuple[Likeness, ...] = get_args(Likeness)

# The parts of a signature that are not words: digests, and punctuation.
_NO_WORDS = re.compile(r"#[0-9a-f]{16}|[^\w.]+|_")


class Signs(NamedTuple):
    """The values by which the loops of two gates are compared; "" if unknown."""

    signature: str
    coarse: str


@dataclass(frozen=True, slots=True)
class ResolutionNote:
    """A person's note on an earlier gate, and the likeness of its loop."""

    gate: str
    task: str
    decision: str | None
    note: str
    resolved_ns: int
    likeness: Likeness = "same"


def notes_like(
    signs: Signs, notes: Iterable[tuple[ResolutionNote, Signs]], meaning: Meaning | None
) -> list[ResolutionNote]:
    """Return the notes on loops similar to one, the most similar first."""
    like = [
        replace(note, likeness=found)
        for note, others in notes
        if (found := likeness(signs, others, meaning))
    ]
    return sorted(like, key=lambda note: LIKENESSES.index(note.likeness))


def likeness(first: Signs, second: Signs, meaning: Meaning | None) -> Likeness | None:
    """Return the likeness of two loops; None if they are not alike.

    If a meaning is given, signatures are compared by meaning, like requests.
    """
    if not first.signature or not second.signature:
        return None
    if first.signature == second.signature:
        return "same"
    if first.coarse and first.coarse == second.coarse:
        return "type"
    return "meaning" if meaning and _mean_same(first, second, meaning) else None


def _mean_same(first: Signs, second: Signs, meaning: Meaning) -> bool:
    texts = (_NO_WORDS.sub(" ", signs.signature) for signs in (first, second))
    one, other = (sketch(meaning.measure, text) for text in texts)
    if one is None or other is None or one.marks != other.marks:
        return False
    return int(one.vector @ other.vector) >= meaning.product_min
