"""Frames: the pieces of bytes that hold one OTLP message each."""

from dataclasses import dataclass

from looptrace.errors import InputError

# A longer line, document or message is not kept in memory but reported.
FRAME_BYTES_MAX = 512 << 20


GZIP_MAGIC = b"\x1f\x8b"


ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Frame:
    """The bytes of one document or message, and its line or number in the source, from 1.

    The number is 0 where the source is one message. `problem` says why the bytes are incomplete;
    None where they seem complete.
    """

    number: int
    data: bytes
    problem: str | None = None


class DamagedError(InputError):
    """The bytes of a source end early; the text says why."""


def too_long(what: str) -> str:
    """Return the problem of a line, document or message longer than FRAME_BYTES_MAX."""
    return f"this {what} is longer than {FRAME_BYTES_MAX:,} bytes; export in smaller requests"
