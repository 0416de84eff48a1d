"""One digest for ids and hashes that must be the same on every machine and in every version.

It imports only the standard library, because the SDK uses it in an agent's process.
"""

from hashlib import blake2b

DIGEST_BYTES = 8


def digest(data: str | bytes, *, key: bytes = b"", size_bytes: int = DIGEST_BYTES) -> str:
    """Return two hex digits for each of `size_bytes`; with a key, only its owner can compute it."""
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    return blake2b(data, key=key, digest_size=size_bytes).hexdigest()
