"""Repetition within long texts, measured once for each distinct text."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

import polars as pl

from looptrace.analyzer.text.cut_texts import chant_at_end

# Nobody would call a repetition in a shorter text a chant.
CHANT_CHARS_MIN = 100
# A text that chants does so up to its end, so the end is enough.
_TAIL_CHARS = 8_192
# The repeated part must be at least as long, else most texts would seem to repeat.
_SEED_CHARS = 32
# Repeated words may hold a repetition, and so on: at most so many lengths are tried.
_LENGTHS_MAX = 16
_CELL = "|"  # A table may have many rows with the same figures.


class Chant(NamedTuple):
    """The repetition at the end of a text: how many times, and how many characters in all."""

    times: int
    chars: int


NONE = Chant(0, 0)


def chant_of(text: str) -> Chant:
    """Measure how often a text repeats its last words, one time right after the other.

    Only some lengths are tried: the distances back to where the last characters occur before. The
    nearest comes first. The next ones are tried because the words may hold a repetition of their
    own. The repetition with the greatest product of times and characters counts. The time is
    linear. The mark of a text that was cut has what was measured before.
    """
    if before := chant_at_end(text):
        return Chant(*before)
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
            # The signs between two repeats need not stand before the first.
            between = len(list(takewhile(lambda character: not character.isalnum(), words)))
            chant = Chant((chars + between) // length, chars + between)
            best = max(best, chant, key=lambda one: one.times * one.chars)
    return best


def _chars_of(tail: str, length: int) -> int:
    """Count the characters at the end that repeat with this length."""
    end, chars = len(tail), length
    words = tail[end - length :]
    while chars + length <= end and tail.startswith(words, end - chars - length):
        chars += length
    pairs = zip(reversed(words), reversed(tail[: end - chars]), strict=False)
    return chars + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _is_said(words: str) -> bool:
    """Return whether words hold a letter, or a digit outside a table; rulers have neither."""
    if any(character.isalpha() for character in words):
        return True
    return _CELL not in words and any(character.isdigit() for character in words)


def chant_of_turn(kind: str, text: str | None) -> Chant:
    """Measure the text of a turn; `NONE` where it is short or not a model's."""
    if kind != "model" or text is None:
        return NONE
    return chant_of(text) if len(text.encode(errors="surrogatepass")) >= CHANT_CHARS_MIN else NONE


def with_chants(turns: pl.DataFrame) -> pl.DataFrame:
    """Add `chant_times` and `chant_chars` of models' texts; 0 where a text is short or unknown."""
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
