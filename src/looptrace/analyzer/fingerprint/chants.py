"""What long texts look like from within, worked out once for each distinct text."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

import polars as pl

# A shorter text holds no chant that anybody would call one.
CHANT_CHARS_MIN = 100
# A text that chants goes on to its end, so that its end tells.
_TAIL_CHARS = 8_192
# What comes again must be at least as long, else most texts would look as if they did.
_SEED_CHARS = 32


class Chant(NamedTuple):
    """The words with which a text ends again and again: how often, and how many characters."""

    times: int
    chars: int


NONE = Chant(0, 0)


def chant_of(text: str) -> Chant:
    """Measure how often a text says its last words, one right after the other.

    The distance to where its last characters stand once more is the only length that is tried, and
    rows without a letter (lines of tables, rulers) are none; so the time is linear in the text.
    """
    tail = text.rstrip()[-_TAIL_CHARS:]
    end = len(tail)
    again = tail.rfind(tail[-_SEED_CHARS:], 0, end - 1)
    length = end - _SEED_CHARS - again
    words = tail[end - length :]
    if again < 0 or not any(character.isalpha() for character in words):
        return NONE
    chars = length
    while chars + length <= end and tail.startswith(words, end - chars - length):
        chars += length
    pairs = zip(reversed(words), reversed(tail[: end - chars]), strict=False)
    chars += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    gap = length > 1  # The blank after the last words is gone.
    return Chant((chars + gap) // length, chars)


def with_chants(turns: pl.DataFrame) -> pl.DataFrame:
    """Add `chant_times` and `chant_chars` of models' texts, 0 where they are short or unknown."""
    long = (pl.col("kind") == "model") & (pl.col("text").str.len_bytes() >= CHANT_CHARS_MIN)
    texts = turns.select(pl.when(long).then("text")).to_series()
    distinct = texts.drop_nulls().unique()
    chants = [chant_of(text) for text in distinct]
    return turns.with_columns(
        texts.replace_strict(
            distinct, [getattr(chant, part) for chant in chants], default=0, return_dtype=pl.Int64
        ).alias(f"chant_{part}")
        for part in Chant._fields
    )
