"""Keyed hashes of texts: what texts are compared by where they are not kept themselves."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import polars as pl

from looptrace.analyzer.fingerprint.masks import masked

_WORD_DIGEST_BYTES = 8
_EXACT_DIGEST_BYTES = 6
# Letters alone are taken neither for a time nor for an id.
_AS_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")


def hash_of(text: str, key: bytes) -> str:
    """Return `hash:...`, which no mask changes."""
    digits = _digest(text, key, _WORD_DIGEST_BYTES)
    return f"hash:{digits.translate(_AS_LETTERS)}"


def exact_of(text: str, key: bytes) -> str:
    """Return `exact:...`, which is masked where volatile parts of a text are."""
    return f"exact:{_digest(text, key, _EXACT_DIGEST_BYTES)}"


def masked_texts(texts: Iterable[str], *, error: bool = False) -> dict[str, str]:
    """Return each text without its volatile parts."""
    given = pl.Series(list(texts), dtype=pl.String)
    without = given.to_frame("text").select(masked(pl.col("text"), error=error)).to_series()
    return dict(zip(given, without, strict=True))


def _digest(text: str, key: bytes, size: int) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return blake2b(data, key=key, digest_size=size).hexdigest()
