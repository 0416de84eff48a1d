"""Bodies of OTLP requests to spans: unpacked and decoded within limits."""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from io import BytesIO
from typing import Any

from looptrace._core import OverBoundsError, UndecodableError
from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.settings.server_limits import KIB, MIB, Limits
from looptrace.collector.coding_agents import otlp_logs
from looptrace.collector.otlp import json as otlp_json
from looptrace.collector.otlp import protobuf as otlp_proto
from looptrace.collector.otlp.span_rows import DecodedSpans, DecodingBounds, Problem
from looptrace.collector.otlp.span_table import Block
from looptrace.collector.server.receiver.receiver_metrics import Reason
from looptrace.errors import LooptraceError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PACKINGS = ("gzip", "deflate", "zstd")

# How much is unpacked at once, and from how much: a decompressor copies what it does not use yet.
CHUNK_BYTES = MIB
_PIECE_BYTES = 64 * KIB
# Below this size a high ratio of unpacked to packed bytes means nothing.
TRUSTED_BYTES = MIB
# A body is one stream; a few after each other are allowed, as in files.
STREAMS_MAX = 64
# A zstd stream declares how much memory it needs; all decoders must support 8 MiB.
_ZSTD_OPTIONS = {int(zstd.DecompressionParameter.window_log_max): 23}
_GZIP_WBITS, _ZLIB_WBITS, _DEFLATE_WBITS = 31, 15, -15
_ZLIB_METHOD, _ZLIB_CHECK = 8, 31  # The low bits of its first byte, and what divides the first two.

# The most bytes of an error message: over gRPC it is a header, and some clients accept 8 KiB.
SHOWN_MAX = 3
SHOWN_CHARS_MAX = 300

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_NO_BRACKETS = re.compile(r"[^\[\]{}]+")


class WireFormat(Enum):
    """The encoding of the messages of a request, by their media type."""

    PROTO = "application/x-protobuf"
    JSON = "application/json"


class Signal(Enum):
    """The contents of a request, by the name in its path."""

    TRACES = "traces"
    LOGS = "logs"
    METRICS = "metrics"


class RefusalError(LooptraceError):
    """A refused request: the reason in a sentence, and when another try may help."""

    def __init__(self, reason: Reason, why: str, retry_after_s: int | None = None) -> None:
        super().__init__(why)
        self.reason = reason
        self.retry_after_s = retry_after_s

    def bare(self) -> RefusalError:
        """Return the same refusal without the frames that it came through, which hold the body."""
        return RefusalError(self.reason, str(self), self.retry_after_s)


@dataclass(frozen=True, slots=True)
class DecodedRequest:
    """The accepted part of a request: spans, how many are rejected and why, unpacked bytes."""

    spans: Block = ()
    rejected: int = 0
    message: str = ""
    size: int = 0
    cut: Sequence[int] = ()  # attributes lost by each span that lost any
    placeless: Sequence[int] = ()  # 1 for each event that names no span


def decompress(body: bytes, packing: str, limits: Limits, on_bytes: Callable[[int], None]) -> bytes:
    """Return an unpacked body; `packing` is one of PACKINGS, or empty.

    `on_bytes` gets the number of held bytes before there are more. Raises RefusalError.
    """
    most = min(limits.unpacked_bytes_max, max(limits.unpacked_ratio_max * len(body), TRUSTED_BYTES))
    size, unpacked = 0, BytesIO(b"" if packing else body)  # What it returns is no copy.
    for part in _unpacked(body, packing) if packing else (body,):
        size += len(part)
        if size > most:
            why = f"the body unpacks to more than {most:,} bytes; send smaller batches"
            raise RefusalError(Reason.UNPACKED_TOO_LARGE, why)
        if packing:
            on_bytes(len(part))
            unpacked.write(part)
    return unpacked.getvalue()


def decode_traces(body: bytes, form: WireFormat, limits: Limits) -> DecodedRequest:
    """Decode a request of traces.

    A bad span costs only itself, unless there are no good ones. Raises RefusalError.
    """
    decode = otlp_proto.decode_request if form is WireFormat.PROTO else otlp_json.decode_request
    try:
        decoded = decode(body, _bounds(limits))
    except OverBoundsError as error:
        raise RefusalError(Reason.TOO_MANY_SPANS, str(error)) from error
    except UndecodableError as error:
        raise RefusalError(Reason.UNDECODABLE, str(error)) from error
    return _taken(_without_deep(decoded, limits.depth_max), len(body))


def decode_logs(body: bytes, form: WireFormat, limits: Limits) -> DecodedRequest:
    """Decode a request of logs to the spans that agents report in them, and to events of spans.

    A bad record costs only itself, unless there are no good ones. Raises RefusalError.
    """
    decode = otlp_logs.decode_proto if form is WireFormat.PROTO else otlp_logs.decode_json
    try:
        decoded = decode(body, bounds=_bounds(limits))
    except OverBoundsError as error:
        raise RefusalError(Reason.TOO_MANY_SPANS, str(error)) from error
    if len(decoded.rows) + len(decoded.problems) > limits.spans_max:
        why = f"a request may have {limits.spans_max:,} spans; send smaller batches"
        raise RefusalError(Reason.TOO_MANY_SPANS, why)
    return _taken(_without_deep(decoded, limits.depth_max), len(body))


def _bounds(limits: Limits) -> DecodingBounds:
    return DecodingBounds(limits.spans_max, limits.span_bytes_max, limits.depth_max)


def _taken(decoded: DecodedSpans, size: int) -> DecodedRequest:
    """Distinguish rejected spans from a request that is not valid."""
    bad = [problem for problem in decoded.problems if problem.is_span]
    worse = [problem for problem in decoded.problems if not (problem.is_span or problem.foreign)]
    unread = [problem for problem in decoded.problems if problem.foreign]
    why = "; ".join(problem.why for problem in (worse or bad or unread)[:SHOWN_MAX])
    why = why[:SHOWN_CHARS_MAX]
    spans = decoded.spans or decoded.rows
    if worse or (bad and not spans):
        raise RefusalError(Reason.UNDECODABLE, why)
    return DecodedRequest(spans, len(bad), why, size, decoded.cut, decoded.placeless)


def _without_deep(decoded: DecodedSpans, depth_max: int) -> DecodedSpans:
    """Reject the spans whose attributes are nested too deep."""
    rows, problems = list[SpanRow](), list(decoded.problems)
    for row in decoded.rows:
        attributes, events, _ = row[-3:]
        if max(_depth(attributes, depth_max), _depth(events, depth_max)) > depth_max:
            why = f"span {row[1]} was left out: nested more than {depth_max} deep"
            problems.append(Problem("the request", why, is_span=True))
        else:
            rows.append(row)
    return replace(decoded, rows=rows, problems=problems)


def _depth(text: str, depth_max: int) -> int:
    """Return the depth of JSON; 0 if it has too few brackets to be too deep."""
    if text.count("[") + text.count("{") <= depth_max:
        return 0
    depth = deepest = 0
    for bracket in _NO_BRACKETS.sub("", _STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _unpacked(body: bytes, packing: str) -> Iterator[bytes]:
    """Yield the unpacked bytes of a body in parts; raises RefusalError."""
    rest = memoryview(body)
    try:
        for _ in range(STREAMS_MAX):
            stream = _stream(rest, packing)
            rest = rest[(yield from _parts(stream, rest)) :]
            if not stream.eof:
                raise RefusalError(Reason.UNDECODABLE, f"the {packing} data is cut off")
            if not rest:
                return
    except (zlib.error, zstd.ZstdError) as error:
        raise RefusalError(Reason.UNDECODABLE, f"the {packing} data is damaged") from error
    why = f"the body is more than {STREAMS_MAX} {packing} streams"
    raise RefusalError(Reason.UNDECODABLE, why)


def _stream(data: memoryview, packing: str) -> Any:
    """Return the decompressor of the next stream of some data, one of zlib's or of zstd's."""
    if packing == "zstd":
        return zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
    if packing == "gzip":
        return zlib.decompressobj(_GZIP_WBITS)
    # The standard form is zlib's; some clients omit its header.
    head = int.from_bytes(data[:2], "big")
    has_head = len(data) > 0 and data[0] & 0xF == _ZLIB_METHOD and head % _ZLIB_CHECK == 0
    return zlib.decompressobj(_ZLIB_WBITS if has_head else _DEFLATE_WBITS)


def _parts(stream: Any, data: memoryview) -> Generator[bytes, None, int]:
    """Yield the unpacked parts of a stream, which may be cut off; return its packed bytes."""

    def unpack(piece: bytes | memoryview) -> bytes:
        # zlib hands back what it has not used yet, and zstd keeps it.
        unused: bytes = getattr(stream, "unconsumed_tail", b"")
        part: bytes = stream.decompress(unused + piece if unused else piece, CHUNK_BYTES)
        return part

    given = 0
    while given < len(data) and not stream.eof:
        piece = data[given : given + _PIECE_BYTES]
        given += len(piece)
        part = unpack(piece)
        while part:
            yield part
            part = b"" if stream.eof else unpack(b"")
    return given - len(stream.unused_data)
