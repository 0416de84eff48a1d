"""Keyed hashes of texts, which are compared where the texts themselves are not kept."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from looptrace.analyzer.fingerprint.equivalence import NOTHING
from looptrace.analyzer.fingerprint.masks import masked, masked_results
from looptrace.analyzer.text.digests import digest

_WORD_DIGEST_BYTES = 8
_EXACT_DIGEST_BYTES = 6
# Letters alone look like neither a time nor an id.
_AS_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")


def hash_of(text: str, key: bytes) -> str:
    """Return `hash:...`, which no mask changes."""
    digits = digest(text, key=key, size_bytes=_WORD_DIGEST_BYTES)
    return f"hash:{digits.translate(_AS_LETTERS)}"


def exact_of(text: str, key: bytes) -> str:
    """Return `exact:...`, which is masked wherever volatile parts of a text are."""
    return f"exact:{digest(text, key=key, size_bytes=_EXACT_DIGEST_BYTES)}"


def masked_texts(texts: Iterable[str], *, error: bool = False) -> dict[str, str]:
    """Return each text without its volatile parts."""
    given = pl.Series(list(texts), dtype=pl.String)
    parts = masked(pl.col("text"), error=True)
    without = (
        given.to_frame("text").select(parts).to_series()
        if error
        else masked_results(given, NOTHING)
    )
    return dict(zip(given, without, strict=True))
