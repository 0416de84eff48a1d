"""Notes that people wrote when they resolved gates, for gates of loops like theirs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from looptrace.analyzer.fingerprint.similarity import Meaning, sketch

# How like the loop of a gate is to that of another, from the most to the least.
Likeness = Literal["same", "type", "meaning"]
LIKENESSES: tuple[Likeness, ...] = get_args(Likeness)

# What of a signature is no word: digests, and all signs between words.
_NO_WORDS = re.compile(r"#[0-9a-f]{16}|[^\w.]+|_")


class Signs(NamedTuple):
    """By what the loops of two gates are compared; each is "" where it is unknown."""

    signature: str
    coarse: str


@dataclass(frozen=True, slots=True)
class ResolutionNote:
    """What a person wrote when resolving an earlier gate, and how like its loop was."""

    gate: str
    task: str
    decision: str | None
    note: str
    resolved_ns: int
    likeness: Likeness = "same"


def notes_like(
    signs: Signs, notes: Iterable[tuple[ResolutionNote, Signs]], meaning: Meaning | None
) -> list[ResolutionNote]:
    """Return the notes on loops like one, in their order, but by how like they are."""
    like = [
        replace(note, likeness=found)
        for note, others in notes
        if (found := likeness(signs, others, meaning))
    ]
    return sorted(like, key=lambda note: LIKENESSES.index(note.likeness))


def likeness(first: Signs, second: Signs, meaning: Meaning | None) -> Likeness | None:
    """Return how like two loops are; None where they are not.

    Signatures are compared by meaning, as requests are, where a meaning is given.
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
