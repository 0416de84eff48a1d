"""People's notes on resolved gates, for later gates of similar loops."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from looptrace.analyzer.fingerprint.similarity import Meaning, sketch
from looptrace.analyzer.gates.near_notes import distances

# The likeness of the loops of two gates, from the most to the least alike.
Likeness = Literal["same", "type", "meaning", "words"]
LIKENESSES: tuple[Likeness, ...] = get_args(Likeness)

# More notes that are only near would hide those that are known to fit.
NEAR_MAX = 3

# The parts of a signature that are not words: digests, and punctuation.
_NO_WORDS = re.compile(r"#[0-9a-f]{16}|[^\w.]+|_")


class Signs(NamedTuple):
    """The values by which the loops of two gates are compared; "" if unknown."""

    signature: str
    coarse: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class ResolutionNote:
    """A person's note on an earlier gate, and the likeness of its loop."""

    gate: str
    task: str
    decision: str | None
    note: str
    resolved_ns: int
    likeness: Likeness = "same"
    distance: float | None = None  # of the words, from 0 to 1, if the signature differs


def distinct(notes: Iterable[ResolutionNote]) -> list[ResolutionNote]:
    """Return the notes in their order, of those with equal words and decision the first."""
    first: dict[tuple[str | None, str], ResolutionNote] = {}
    for note in notes:
        first.setdefault((note.decision, note.note), note)
    return list(first.values())


def notes_like(
    signs: Signs,
    notes: Iterable[tuple[ResolutionNote, Signs]],
    meaning: Meaning | None,
    gate: str = "",
) -> list[ResolutionNote]:
    """Return the notes on loops similar to that of a gate, the most similar first.

    A note on the gate itself is left out; its words count for what is near, as for every gate.

    After those of the same signature come those in the nearest words, whatever else they share.
    """
    every = [(note, theirs, likeness(signs, theirs, meaning)) for note, theirs in notes]
    near = distances(signs.words, [theirs.words for _, theirs, _ in every])
    others = {place for place, (note, *_) in enumerate(every) if note.gate != gate}
    only_near = [place for place in near if place in others and every[place][2] is None][:NEAR_MAX]
    found = [
        replace(
            note, likeness=like or "words", distance=None if like == "same" else near.get(place)
        )
        for place, (note, _, like) in enumerate(every)
        if place in others and (like or place in only_near)
    ]
    return sorted(found, key=_rank)


def _rank(note: ResolutionNote) -> tuple[bool, float, int]:
    distance = 1.0 if note.distance is None else note.distance
    return note.likeness != "same", distance, LIKENESSES.index(note.likeness)


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
