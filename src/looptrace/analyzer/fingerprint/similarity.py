"""Near sameness: which requests say the same in other words.

A request is the text of a hand-off or the query of a search. Two requests mean the same if they go
to the same agent or tool, their figures and names are equal, and a measure says that the rest is
alike. Requests that are the same word by word always mean the same.

Each measure works on one text at a time, so no result depends on which texts come together:

- `sentences`: the cosine of sentence embeddings (`embeddings`), which needs the extra `semantic`;
- `letters`: the cosine of counts of three letters in a row within words, which finds the same words
  but not synonyms.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import ceil
from typing import Literal, NamedTuple, get_args
from zlib import crc32

import numpy as np
import numpy.typing as npt
import polars as pl

from looptrace._core import PATTERNS
from looptrace.analyzer.fingerprint import embeddings
from looptrace.analyzer.text.payloads import parsed
from looptrace.rules.contract import check_bounds, numbers, required, setting
from looptrace.rules.turns import UNKNOWN, Figures, Meanings

# What a search asks for, in its arguments.
_SEARCHED = PATTERNS["searched"]

Measure = Literal["sentences", "letters"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
SENTENCES, LETTERS = MEASURES

# Longer requests are only compared word by word. A model reads only the beginning of a long text,
# and two long texts may differ anywhere.
CHARS_MAX = 1_000
# Cached sketches of about 4 kB each.
SKETCHES_MAX = 4_096

# Embeddings are rounded to this part of their length. Processors differ in the last digits of a
# sum, and those digits should hardly ever decide.
_GRID = 4_096
_PERCENT = 100

_LETTERS = 3
_LETTER_KINDS = 1_024  # remainders of hashes

_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"\S+")
_QUOTED = re.compile(r'"([^"]+)"|“([^”]+)”|`([^`]+)`')
_ENDS = ".,;:!?…"
_AROUND = f"{_ENDS}\"'“”`()[]{{}}<>"
_CODE = re.compile(r"\d|[_/\\@=.:#$%&+*]|\w\(\)")
_APOSTROPHE = "\u2019"  # as printed text has it
_I = ("i", "i'm", "i'd", "i'll", "i've")

# Words that do not say what a request asks for.
_FILLERS = frozenset(
    {
        *("a", "again", "an", "and", "can", "could", "do", "for", "give", "have", "i", "if"),
        *("in", "is", "it", "kindly", "make", "me", "more", "my", "need", "now", "of", "on"),
        *("once", "or", "please", "s", "that", "the", "this", "to", "want", "we", "whether"),
        *("will", "would", "you", "your"),
    }
)
# Words that matter as much as a figure.
_TELLING = frozenset(
    {
        *("no", "not", "never", "none", "nothing", "without", "except", "only", "first"),
        *("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
        *("last", "previous", "next", "one", "two", "three", "four", "five", "six", "seven"),
        *("eight", "nine", "ten"),
    }
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """How to compare requests that are not the same word by word."""

    measure: Measure = required(
        "sentences: embeddings of a language model (extra `semantic`); letters: "
        "three letters in a row, for the same words in another order or form."
    )
    similar_percent: int = setting(
        85, ge=50, le=100, doc="Cosine in percent from which two requests are the same."
    )

    def __post_init__(self) -> None:
        check_bounds("meaning", numbers(self))

    @property
    def product_min(self) -> int:
        """The smallest inner product of two sketches with the same meaning."""
        return ceil(self.similar_percent * _GRID * _GRID / _PERCENT)


class Sketch(NamedTuple):
    """The compared parts of a request: those that must be equal, and those that must be alike."""

    marks: tuple[str, ...]
    vector: npt.NDArray[np.int32]


def meanings_of(table: pl.DataFrame, meaning: Meaning) -> Meanings:
    """Return the meanings of requests among ordered, coded turns.

    Searches are compared if they have the same result and it is not an external failure.
    """
    subject = np.full(table.height, UNKNOWN, dtype=np.int64)
    place = np.zeros(table.height, dtype=np.int64)
    subjects: dict[tuple[object, ...], int] = {}
    vectors: dict[str, int] = {}
    sketches: list[npt.NDArray[np.int32]] = []
    for row, text, *same in _requests(table):
        made = sketch(meaning.measure, text)
        if made is None:
            continue
        if text not in vectors:
            vectors[text] = len(sketches)
            sketches.append(made.vector)
        subject[row] = subjects.setdefault((*same, made.marks), len(subjects) + 1)
        place[row] = vectors[text]
    stacked = np.stack(sketches) if sketches else np.zeros((0, 1), dtype=np.int32)
    return Meanings(subject, place, stacked, meaning.product_min)


def _requests(table: pl.DataFrame) -> Iterator[tuple[int, str, str, str, str, int]]:
    """Yield row, text and the equal parts of each request: kind, name, the rest, result."""
    handed = pl.col("kind") == "handoff"
    search = pl.col("searches") & ~pl.col("external") & (pl.col("outcome_code") != UNKNOWN)
    plain = ~pl.col("arguments").str.starts_with("{")
    rows = (
        table.with_row_index("row")
        .filter(handed | search)
        .with_columns(
            query=pl.when(search & ~plain).then(pl.col("arguments").str.extract(_SEARCHED)),
            plain=pl.when(handed | plain).then("arguments"),
        )
        .select(
            "row",
            "query",
            "plain",
            pl.col("kind").cast(pl.String),
            "name",
            pl.when(pl.col("query").is_not_null())
            .then(pl.col("arguments").str.replace(_SEARCHED, ""))
            .otherwise(pl.lit("")),
            pl.when(search).then("outcome_code").otherwise(UNKNOWN),
        )
    )
    for row, query, plain_text, *same in rows.iter_rows():
        text = plain_text if query is None else parsed(f'"{query}"')
        if text is not None:
            yield (row, text, *same)


def sketch(measure: Measure, text: str) -> Sketch | None:
    """Return the compared parts of a text; None if it says nothing or is too long.

    Raises:
        EmbeddingsError: if sentences cannot be embedded.
    """
    return _sketch(measure, text) if len(text) <= CHARS_MAX else None


@lru_cache(SKETCHES_MAX)
def _sketch(measure: Measure, text: str) -> Sketch | None:
    words = bare(text)
    if not words:
        return None
    vector = embeddings.embedding_of(" ".join(words)) if measure == SENTENCES else _letters(words)
    if vector is None:
        return None
    return Sketch(marks(text), np.rint(vector * _GRID).astype(np.int32))


def bare(text: str) -> list[str]:
    """Return the words that say what a request asks for."""
    return [word for word in _WORD.findall(text.casefold()) if word not in _FILLERS]


def marks(text: str) -> tuple[str, ...]:
    """Return the parts that must be equal in requests with the same meaning, in order.

    These are figures, names, code, quoted text, and words that negate or count. A name is a word
    with a capital letter that is not at the beginning of a sentence.
    """
    text = text.replace(_APOSTROPHE, "'")
    words = [next(filter(None, match.groups())) for match in _QUOTED.finditer(text)]
    begins = True
    for token in _TOKEN.findall(text):
        word = token.strip(_AROUND).removesuffix("'s")
        if word.casefold().endswith("n't"):
            words.append("not")
        elif _tells(word, begins=begins) or _CODE.search(token.rstrip(_ENDS)):
            words.append(word)
        begins = token[-1] in _ENDS
    return tuple(each.casefold() for each in words)


def _tells(word: str, *, begins: bool) -> bool:
    small = word.casefold()
    if small in _I:
        return False
    if small in _TELLING or _CODE.search(word):
        return True
    return any(character.isupper() for character in islice(word, int(begins), None))


def _letters(words: list[str]) -> Figures:
    """Count sequences of three letters, including the borders of a word."""
    counts = np.zeros(_LETTER_KINDS, dtype=np.float64)
    for word, times in Counter(words).items():
        edged = f" {word} "
        for start in range(len(edged) - _LETTERS + 1):
            piece = edged[start : start + _LETTERS].encode("utf-8", "surrogatepass")
            counts[crc32(piece) % _LETTER_KINDS] += times
    length: np.float64 = np.sqrt((counts * counts).sum())
    return counts / length
