"""Frames: the pieces of bytes that hold one OTLP message each."""

from __future__ import annotations

from dataclasses import dataclass

from looptrace.errors import InputError

# A single line, document or message that is longer is not held in memory but reported.
FRAME_BYTES_MAX = 512 << 20


GZIP_MAGIC = b"\x1f\x8b"


ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Frame:
    """The bytes of one document or message, and its line or its number in the source, from 1.

    The number is 0 where the source is one message. `problem` says why the bytes are not whole;
    None where they seem to be.
    """

    number: int
    data: bytes
    problem: str | None = None


class DamagedError(InputError):
    """The bytes of a source end here, sooner than they should; the text says why."""


def too_long(what: str) -> str:
    """Return the problem of a line, document or message longer than FRAME_BYTES_MAX."""
    return f"this {what} is longer than {FRAME_BYTES_MAX:,} bytes; export in smaller requests"
