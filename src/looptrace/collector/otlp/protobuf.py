"""OTLP/protobuf export requests to rows of the span table.

The code walks the wire format down to the spans and decodes each span alone. So a bad span loses
only itself, and a file that is cut off is read up to the cut.
"""

from __future__ import annotations

from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.otlp.frames import (
    FRAME_BYTES_MAX,
    GZIP_MAGIC,
    ZSTD_MAGIC,
    DamagedError,
    Frame,
    too_long,
)
from looptrace.collector.otlp.json_documents import begins_document
from looptrace.collector.otlp.span_rows import (
    BadSpanError,
    Bounds,
    DecodedSpans,
    OverBoundsError,
    Problem,
    service_name,
    span_row,
)
from looptrace.errors import InputError

Piece = TypeVar("Piece")

# The numbers of the fields on the way to a span: in the request, in ResourceSpans, in ScopeSpans.
_RESOURCE_SPANS = 1
_RESOURCE, _SCOPE_SPANS, _RESOURCE_SCHEMA_URL = 1, 2, 3
_SCOPE, _SPANS = 1, 2

# The wire format's types, and the lengths of the fixed ones.
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_TYPE_BITS = 3
_TYPE_MASK = (1 << _TYPE_BITS) - 1
_VARINT_BITS = 7
_VARINT_MORE = 1 << _VARINT_BITS
_VARINT_BITS_MAX = 64

# The collector's file exporter writes a message's length before it, most significant byte first.
_PREFIX_BYTES = 4

_CUT_OFF = "the protobuf message is cut off"
_MEND = "export it again"
_NO_SPANS = "no spans, perhaps logs or metrics"
_UNDECODABLE = "it is not the expected protobuf, not UTF-8, or nested too deep"


@dataclass(frozen=True, slots=True)
class _Part:
    """A message within another: the place of its bytes, and whether all of them are there."""

    start: int
    stop: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Reading:
    """A message that is being read: its bytes, its source, and the result so far.

    Bytes that are not protobuf often fail in many places, so errors are gathered and reported once.
    """

    data: bytes
    where: str
    out: DecodedSpans
    wire_errors: list[str] = field(default_factory=list)


class _WireError(InputError):
    """Bytes that are not in protobuf's wire format; the text says where."""


def begins_message(head: bytes) -> bool:
    """Return whether bytes begin like an export request: with non-empty ResourceSpans."""
    try:
        tag, at = _varint(head, 0, len(head))
        size, at = _varint(head, at, len(head))
        number, kind = _field(_varint(head, at, len(head))[0]) if size else (_RESOURCE, _LENGTH)
    except _WireError:
        return False
    fields = (_RESOURCE, _SCOPE_SPANS, _RESOURCE_SCHEMA_URL)
    return _field(tag) == (_RESOURCE_SPANS, _LENGTH) and kind == _LENGTH and number in fields


def begins_prefixed(head: bytes) -> bool:
    """Return whether bytes begin like a file of messages, each after its length.

    With compression on, the collector's file exporter packs each message alone, JSON too.
    """
    body = head[_PREFIX_BYTES:]
    if not 0 < int.from_bytes(head[:_PREFIX_BYTES], "big") <= FRAME_BYTES_MAX:
        return False
    is_packed = body.startswith((GZIP_MAGIC, ZSTD_MAGIC))
    return is_packed or begins_document(body) or begins_message(body)


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


def decode_request(data: bytes, bounds: Bounds) -> DecodedSpans:
    """Return the spans of a whole request, and its problems.

    Raises OverBoundsError.
    """
    return _decode("the request", Frame(0, data), DecodedSpans.within(bounds))


@dataclass(frozen=True, slots=True)
class RequestPiece:
    """Some ResourceSpans of a request: their place in it, and the number of the first."""

    start: int
    stop: int
    first: int


def request_pieces(data: bytes, bytes_min: int) -> list[RequestPiece]:
    """Cut a request between its ResourceSpans into pieces of about `bytes_min` bytes.

    Each piece is a request of its own. Raises InputError if the bytes are no request.
    """
    pieces: list[RequestPiece] = []
    start = count = first = 0
    whole = _Part(0, len(data), is_whole=True)
    for number, part in _walk(_Reading(data, "", DecodedSpans()), whole):
        count += number == _RESOURCE_SPANS
        if part.stop - start >= bytes_min or part.stop == len(data):
            pieces.append(RequestPiece(start, part.stop, first))
            start, first = part.stop, count
    return pieces


def check_request(data: bytes, bounds: Bounds) -> None:
    """Refuse a request of any signal that is over the bounds, before it is decoded.

    All signals have resources, scopes and items under spans' numbers. Raises OverBoundsError.
    """
    reading = _Reading(data, "", DecodedSpans.within(bounds))
    items = 0
    for resource in _parts(reading, _Part(0, len(data), is_whole=True), "")[_RESOURCE_SPANS]:
        shared = _parts(reading, resource, "")
        for scope in shared[_SCOPE_SPANS]:
            shared[_RESOURCE] += (spans := _parts(reading, scope, "")[_SPANS])
            items += len(spans)
        largest = max((part.stop - part.start for part in shared[_RESOURCE]), default=0)
        if items > bounds.spans_max or largest > bounds.span_bytes_max:
            raise OverBoundsError(
                f"a request may have {bounds.spans_max:,} records of {bounds.span_bytes_max:,} "
                "bytes; send smaller batches"
            )


def decode_message(name: str, message: Frame, piece: RequestPiece | None = None) -> DecodedSpans:
    """Return the spans of a message, or of a piece of it, and its problems.

    `name` is the source's. Bad data raises nothing: the readable part is read.
    """
    out = _decode(name, message, DecodedSpans(), piece)
    if not out.rows and len(out.problems) > 1:  # Garbage and logs fail in every part.
        last = out.problems[-1]
        out.problems[:] = [Problem(last.where, f"{_NO_SPANS}: {last.why}", foreign=True)]
    return out


def _decode(
    name: str, message: Frame, out: DecodedSpans, piece: RequestPiece | None = None
) -> DecodedSpans:
    where = f"{name} message {message.number}" if message.number else name
    reading = _Reading(message.data, where, out)
    piece = piece or RequestPiece(0, len(message.data), 0)
    request = _Part(piece.start, piece.stop, message.problem is None)
    resource_spans = _parts(reading, request, "the request")[_RESOURCE_SPANS]
    for index, part in enumerate(resource_spans, piece.first):
        _read_resource_spans(reading, part, f"resourceSpans[{index}]")
    problems = reading.out.problems
    if message.problem is not None:
        problems.append(Problem(where, message.problem))
    elif reading.wire_errors:
        problems.append(Problem(where, f"{reading.wire_errors[0]}; {_MEND}"))
    return reading.out


def _read_resource_spans(reading: _Reading, resource_spans: _Part, at: str) -> None:
    parts = _parts(reading, resource_spans, at)
    services = [_piece(reading, part, _service, f"{at}.resource") for part in parts[_RESOURCE]]
    service = _last_known(services)
    for index, part in enumerate(parts[_SCOPE_SPANS]):
        _read_scope_spans(reading, part, service, f"{at}.scopeSpans[{index}]")


def _read_scope_spans(reading: _Reading, scope_spans: _Part, service: str | None, at: str) -> None:
    parts = _parts(reading, scope_spans, at)
    scopes = [_piece(reading, part, _scope_name, f"{at}.scope") for part in parts[_SCOPE]]
    read_row = partial(_row, reading.out, service, _last_known(scopes))
    for index, part in enumerate(parts[_SPANS]):
        row = _piece(reading, part, read_row, f"{at}.spans[{index}]", is_span=True)
        if row is not None:
            reading.out.rows.append(row)


def _last_known(values: Sequence[Piece | None]) -> Piece | None:
    """Return the last known value of a message in parts; in protobuf the last one counts."""
    return next((value for value in reversed(values) if value is not None), None)


def _piece(
    reading: _Reading,
    part: _Part,
    read: Callable[[bytes], Piece],
    at: str,
    *,
    is_span: bool = False,
) -> Piece | None:
    """Read one part of a request; if it is bad, report it alone and return None.

    A part that is cut off is not reported, because the message around it was.
    """
    if not part.is_whole:
        return None
    reading.out.count_piece()
    try:
        reading.out.check_size(part.stop - part.start)
        return read(reading.data[part.start : part.stop])
    except (DecodeError, BadSpanError) as error:
        why = str(error) if isinstance(error, BadSpanError) else _UNDECODABLE
        why = f"{at} was left out: {why}; correct what wrote it"
        reading.out.problems.append(Problem(reading.where, why, is_span=is_span))
        return None


def _service(data: bytes) -> str | None:
    return service_name(plain_map(Resource.FromString(data).attributes))


def _scope_name(data: bytes) -> str | None:
    return InstrumentationScope.FromString(data).name or None


def _row(out: DecodedSpans, service: str | None, scope: str | None, data: bytes) -> SpanRow:
    span = Span.FromString(data)
    row = span_row(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex(),
        name=span.name,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        status=span.status.code,
        status_message=span.status.message,
        service=service,
        scope=scope,
        attributes=plain_map(span.attributes),
        events=map(event_of, span.events),
        links=map(link_of, span.links),
    )
    if span.dropped_attributes_count:
        out.cut.append(span.dropped_attributes_count)
    return row


def event_of(event: Span.Event) -> tuple[str, int, dict[str, Any]]:
    """Return the name, time and attributes of an event."""
    return event.name, event.time_unix_nano, plain_map(event.attributes)


def link_of(link: Span.Link) -> tuple[str, str]:
    """Return the trace id and span id of a link, in hex."""
    return link.trace_id.hex(), link.span_id.hex()


def plain_map(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    """Return attributes as a plain dict; if two have one key, the last wins."""
    # Most values are texts, so their kind need not be looked up.
    return {
        attribute.key: attribute.value.string_value or plain(attribute.value)
        for attribute in attributes
    }


def plain(value: AnyValue) -> Any:
    """Return an any-value as a Python value; the empty value is None, bytes are base64."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [plain(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return plain_map(value.kvlist_value.values)
    if kind == "bytes_value":
        return b64encode(value.bytes_value).decode()
    return getattr(value, kind)


def _parts(reading: _Reading, within: _Part, at: str) -> Mapping[int, list[_Part]]:
    """Return the messages within a message, by their field numbers, in order.

    Bytes that are not protobuf are reported, unless the message is known to be cut off.
    """
    parts = defaultdict[int, list[_Part]](list)
    try:
        for number, part in _walk(reading, within):
            parts[number].append(part)
    except _WireError as error:
        if within.is_whole:
            reading.wire_errors.append(f"{at}: {error}")
    return parts


def _walk(reading: _Reading, within: _Part) -> Iterator[tuple[int, _Part]]:
    """Yield the fields of a message that have a length; raises _WireError after the last one."""
    data, at = reading.data, within.start
    while at < within.stop:
        reading.out.count_piece()
        tag, at = _varint(data, at, within.stop)
        number, kind = _field(tag)
        if kind == _LENGTH:
            size, at = _varint(data, at, within.stop)
            yield number, _Part(at, min(at + size, within.stop), at + size <= within.stop)
            at += size
        elif kind == _VARINT:
            _, at = _varint(data, at, within.stop)
        elif kind in _FIXED_BYTES:
            at += _FIXED_BYTES[kind]
        else:
            raise _WireError(f"not protobuf at byte {at}")
    if at > within.stop:
        raise _WireError(_CUT_OFF)


def _field(tag: int) -> tuple[int, int]:
    """Return the number and the type of a field from its tag."""
    return tag >> _TYPE_BITS, tag & _TYPE_MASK


def _varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """Read a number that ends with the first byte below 128; returns it and the next position."""
    value = 0
    for shift in range(0, _VARINT_BITS_MAX, _VARINT_BITS):
        if at >= stop:
            raise _WireError(_CUT_OFF)
        byte = data[at]
        at += 1
        value |= (byte & ~_VARINT_MORE) << shift
        if byte < _VARINT_MORE:
            return value, at
    raise _WireError(f"not protobuf at byte {at}")
