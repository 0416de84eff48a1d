"""Files and requests of OTLP/protobuf: cut into messages here, which the core decodes.

A bad span loses only itself, and a message that is cut off is read up to the cut.
"""

from collections.abc import Iterable, Iterator

from looptrace import _core
from looptrace.collector.otlp.frames import (
    FRAME_BYTES_MAX,
    GZIP_MAGIC,
    ZSTD_MAGIC,
    DamagedError,
    Frame,
    too_long,
)
from looptrace.collector.otlp.span_rows import DecodedSpans, DecodingBounds, Problem

# Larger messages are decoded piece by piece.
PIECE_BYTES = 4 << 20

# The collector's file exporter writes a message's length before it, most significant byte first.
_PREFIX_BYTES = 4

_CUT_OFF = "the protobuf message is cut off"
_MEND = "export it again"
_NO_SPANS = "no spans, perhaps logs or metrics"


def begins_prefixed(head: bytes) -> bool:
    """Return whether bytes begin like a file of messages, each after its length.

    With compression on, the collector's file exporter packs each message alone, JSON too.
    """
    body = head[_PREFIX_BYTES:]
    if not 0 < int.from_bytes(head[:_PREFIX_BYTES], "big") <= FRAME_BYTES_MAX:
        return False
    is_packed = body.startswith((GZIP_MAGIC, ZSTD_MAGIC))
    return is_packed or _core.begins_json(body) or _core.begins_protobuf(body)


def whole_message(chunks: Iterable[bytes]) -> Frame:
    """Return a stream that is one message as a frame; its number is 0."""
    parts, size = list[bytes](), 0
    try:
        for chunk in chunks:
            size += len(chunk)
            if size > FRAME_BYTES_MAX:
                return Frame(0, b"", too_long("message"))
            parts.append(chunk)
    except DamagedError as damage:
        return Frame(0, b"".join(parts), str(damage))
    return Frame(0, b"".join(parts))


def prefixed_messages(chunks: Iterable[bytes]) -> Iterator[Frame]:
    """Cut a stream into messages; each stands after its length."""
    rest, number, problem = bytearray(), 1, None
    try:
        for chunk in chunks:
            rest += chunk
            while len(rest) >= _PREFIX_BYTES:
                stop = _PREFIX_BYTES + int.from_bytes(rest[:_PREFIX_BYTES], "big")
                if stop - _PREFIX_BYTES > FRAME_BYTES_MAX:
                    yield Frame(number, b"", too_long("message"))
                    return
                if stop > len(rest):
                    break
                yield Frame(number, bytes(rest[_PREFIX_BYTES:stop]))
                del rest[:stop]
                number += 1
    except DamagedError as damage:
        problem = str(damage)
    if rest or problem is not None:
        problem = problem or f"{_CUT_OFF}; {_MEND}"
        yield Frame(number, bytes(rest[_PREFIX_BYTES:]), problem)


def decode_request(data: bytes, bounds: DecodingBounds) -> DecodedSpans:
    """Return the spans of a whole request, and its problems.

    Raises OverBoundsError.
    """
    return DecodedSpans.of_core(_core.decode_protobuf(data, "the request", limits=bounds.limits))


def message_pieces(message: Frame) -> list[tuple[int, int, int]]:
    """Cut a large message into pieces that are decoded one after the other."""
    return _core.protobuf_pieces(message.data, PIECE_BYTES)


def decode_message(
    name: str, message: Frame, piece: tuple[int, int, int] | None = None
) -> DecodedSpans:
    """Return the spans of a message, or of a piece of it, and its problems.

    `name` is the source's. Bad data raises nothing: the readable part is read.
    """
    where = f"{name} message {message.number}" if message.number else name
    is_whole = message.problem is None
    read = _core.decode_protobuf(message.data, where, piece=piece, is_whole=is_whole)
    out = DecodedSpans.of_core(read)
    if message.problem is not None:
        out.problems.append(Problem(where, message.problem))
    if out.spans is None and len(out.problems) > 1:  # Garbage and logs fail in every part.
        last = out.problems[-1]
        out.problems[:] = [Problem(last.where, f"{_NO_SPANS}: {last.why}", foreign=True)]
    return out
