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
# Words that hold a repetition, which holds another, and so on: deeper than this nobody looks.
_LENGTHS_MAX = 16
_CELL = "|"  # A table may well have many rows with the same figures.


class Chant(NamedTuple):
    """The words with which a text ends again and again: how often, and how many characters."""

    times: int
    chars: int


NONE = Chant(0, 0)


def chant_of(text: str) -> Chant:
    """Measure how often a text says its last words, one right after the other.

    The distances to where its last characters stand once more are the only lengths that are tried:
    the first, and where the words hold a repetition of their own, the next that lie before it. Of
    those that come again, the one counts with the most times and characters. The time is linear.
    """
    tail = text.rstrip()[-_TAIL_CHARS:]
    seed, end = tail[-_SEED_CHARS:], len(tail)
    best, chars = NONE, _SEED_CHARS
    for _ in range(_LENGTHS_MAX):
        again = tail.rfind(seed, 0, end - chars + _SEED_CHARS - 1)
        if again < 0:
            break
        length = end - _SEED_CHARS - again
        chars = _chars_of(tail, length)
        words = tail[end - length :]
        if _is_said(words):
            # What stands between two of them need not stand before the first.
            between = len(list(takewhile(lambda character: not character.isalnum(), words)))
            chant = Chant((chars + between) // length, chars + between)
            best = max(best, chant, key=lambda one: one.times * one.chars)
    return best


def _chars_of(tail: str, length: int) -> int:
    """Count the characters at the end that go round in this length."""
    end, chars = len(tail), length
    words = tail[end - length :]
    while chars + length <= end and tail.startswith(words, end - chars - length):
        chars += length
    pairs = zip(reversed(words), reversed(tail[: end - chars]), strict=False)
    return chars + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _is_said(words: str) -> bool:
    """Return whether there is a letter, or a digit outside of a table; rulers have neither."""
    if any(character.isalpha() for character in words):
        return True
    return _CELL not in words and any(character.isdigit() for character in words)


def chant_of_turn(kind: str, text: str | None) -> Chant:
    """Measure the text of a turn, none where it is no model's or short."""
    if kind != "model" or text is None:
        return NONE
    return chant_of(text) if len(text.encode(errors="surrogatepass")) >= CHANT_CHARS_MIN else NONE


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
