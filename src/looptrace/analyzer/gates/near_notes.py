"""Notes on loops in nearly the same words: what helped before, where no signature is the same.

The words of a loop are those of its failures, calls and arguments. Texts are compared by their runs
of letters (TF-IDF), so that `users_v2` is near `users` and a message in another order is near
itself. Which runs say much follows from the notes of the store; nothing was learned elsewhere.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from threading import Lock
from typing import Any

from looptrace.analyzer.gates.events import GateEvent

# A farther note is about something else; see docs/gates.md for the share of right notes.
DISTANCE_MAX = 0.75
# Fewer notes do not show which words say much.
TEXTS_MIN = 10
_CHARS_MAX = 4_000
_DIGESTS = re.compile(r"#[0-9a-f]{16}")
_RUNS_OF_LETTERS = (2, 5)
_DIGITS = 2


def words_of(opening: GateEvent) -> str:
    """Return the words of a loop: what it repeats, its tools, and the failures before its gate."""
    failures = [
        f"{each.label} {each.error_type or ''} {each.error or ''}" for each in opening.history
    ]
    parts = [opening.signature, *opening.tools, *opening.blockers, *dict.fromkeys(failures)]
    return _DIGESTS.sub(" ", "\n".join(parts))[:_CHARS_MAX]


def distances(text: str, others: Sequence[str]) -> dict[int, float]:
    """Return the distances of the other texts that are near enough, by their places.

    A distance is 0 for the same words and 1 for none in common. The nearest comes first. There is
    none for fewer than `TEXTS_MIN`, and where scikit-learn is not installed.
    """
    if not text.strip() or (fitted := read_texts(others)) is None:
        return {}
    vectors, neighbours = fitted
    found, places = neighbours.kneighbors(vectors.transform([text]))
    near = zip(places[0].tolist(), found[0].round(_DIGITS).tolist(), strict=True)
    return {place: abs(distance) for place, distance in near if distance <= DISTANCE_MAX}


def read_texts(texts: Sequence[str]) -> tuple[Any, Any] | None:
    """Return what compares texts, or None as for `distances`; it is kept for the next call."""
    if len(texts) < TEXTS_MIN or find_spec("sklearn") is None:
        return None
    with _READING:
        return _fitted(tuple(texts))


# Who needs the same texts meanwhile waits, and reads them not once more.
_READING = Lock()


@lru_cache(maxsize=1)
def _fitted(texts: tuple[str, ...]) -> tuple[Any, Any]:
    """Return the vectorizer and the neighbours of texts; a store's change when a note is added."""
    # An extra, whose import takes as long as all other modules together.
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415
    from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415

    vectors = TfidfVectorizer(analyzer="char_wb", ngram_range=_RUNS_OF_LETTERS, sublinear_tf=True)
    rows = vectors.fit_transform(texts)
    neighbours = NearestNeighbors(n_neighbors=len(texts), metric="cosine")
    return vectors, neighbours.fit(rows)
