"""JSON of a type, decoded on any thread."""

from threading import Lock
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

# msgspec 0.22 keeps what it finds out of a class at the class, before it has found out all. A
# thread that decodes the class meanwhile reads a null pointer, which ends the process.
_finding_out = Lock()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoded(body: bytes | str, kind: type[T]) -> T:
    """Return the value of this type that a body has.

    Raises:
        msgspec.DecodeError: if it is no JSON, or of another type.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        with _finding_out:
            decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    value: T = decoder.decode(body)
    return value
