"""Keyed hashes of texts, which are compared where the texts themselves are not kept."""

from collections.abc import Iterable

from looptrace.analyzer.fingerprint.equivalence import NOTHING
from looptrace.analyzer.fingerprint.fingerprints import policy_of
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
    policy = policy_of(NOTHING)
    return {
        text: policy.masked(text, error=True) if error else policy.answer(text) for text in texts
    }
