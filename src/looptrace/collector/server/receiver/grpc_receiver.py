"""OTLP over gRPC: the export services of traces, logs and metrics, for `grpc.aio`.

The transport hands over messages as they were sent, so that the pipeline unpacks them within the
same limits as for HTTP.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from io import BytesIO

import grpc  # type: ignore[import-untyped]

from looptrace.analyzer.settings.server_limits import Limits
from looptrace.collector.server.receiver.decoding import (
    DecodedRequest,
    RefusalError,
    Signal,
    WireFormat,
)
from looptrace.collector.server.receiver.otlp_responses import response, retry_info, status, written
from looptrace.collector.server.receiver.pipeline import Claim, Pipeline, no_room
from looptrace.collector.server.receiver.receiver_metrics import Reason

_SERVICES = {
    Signal.TRACES: "opentelemetry.proto.collector.trace.v1.TraceService",
    Signal.LOGS: "opentelemetry.proto.collector.logs.v1.LogsService",
    Signal.METRICS: "opentelemetry.proto.collector.metrics.v1.MetricsService",
}
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_MS_PER_S = 1_000
# Requests at once on one connection; exporters have one.
_STREAMS_MAX = 100
# The bytes of a message that a client may send before it is read; with 200 messages at once, the
# 64 KiB of the default are another body.
_UNREAD_BYTES = 16 * 1024
# The transport has a message up to three times while it hands it over.
_COPIES = 3
# A message above this share of the largest one is decoded before the next one is read.
_LARGE_SHARE = 16
# The seconds for which others wait for a slow message.
_ALONE_S = 5
# The interval at which a waiting message looks for room.
_LOOK_S = 0.01
# A packed message begins like this. The transport does not report it; no OTLP request begins so.
_GZIP_HEAD, _ZLIB_HEAD = b"\x1f\x8b", b"\x78"


def grpc_server(
    pipeline: Pipeline, interceptors: Sequence[grpc.aio.ServerInterceptor] = ()
) -> grpc.aio.Server:
    """Return a server of the three services, to which the caller adds its ports.

    It must be made in the event loop that it runs in, and stopped before the pipeline is closed.
    """
    limits = pipeline.limits
    server = grpc.aio.server(
        interceptors=list(interceptors),
        options=_options(limits),
        maximum_concurrent_rpcs=limits.connections_max,
    )
    # A message is read when a handler asks, so that no more than these are in memory at once.
    most = limits.in_flight_bytes_max // limits.body_bytes_max // _COPIES
    reads = asyncio.Semaphore(max(1, most))
    for signal, service in _SERVICES.items():
        # On the wire, one message is a stream of one; a stream is not read beforehand.
        export = grpc.stream_unary_rpc_method_handler(partial(_export, pipeline, reads, signal))
        handlers = grpc.method_handlers_generic_handler(service, {"Export": export})
        server.add_generic_rpc_handlers((handlers,))
    return server


def _options(limits: Limits) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", limits.body_bytes_max),
        # The transport would unpack every message before a handler may refuse it.
        ("grpc.per_message_decompression", 0),
        ("grpc.max_metadata_size", limits.header_bytes_max),
        ("grpc.absolute_max_metadata_size", limits.header_bytes_max),
        ("grpc.max_concurrent_streams", _STREAMS_MAX),
        # The probe raises what a client may send before it is read, to some 10 MiB a message.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", _UNREAD_BYTES),
        ("grpc.max_connection_idle_ms", limits.idle_s * _MS_PER_S),
        # Otherwise a second server on the same port would silently take half of the requests.
        ("grpc.so_reuseport", 0),
    ]


async def _export(
    pipeline: Pipeline,
    reads: asyncio.Semaphore,
    signal: Signal,
    _: AsyncIterator[bytes],
    context: grpc.aio.ServicerContext[bytes, bytes],
) -> bytes:
    """Process one request; end the call with a status where it is refused."""
    try:
        decoded = await _decoded(pipeline, reads, signal, context)
    except RefusalError as refusal:
        pipeline.counts.add_refused(refusal.reason)
        _refuse(context, refusal)
        return b""  # The transport does not send it.
    return written(response(signal, decoded), WireFormat.PROTO)


async def _decoded(
    pipeline: Pipeline,
    reads: asyncio.Semaphore,
    signal: Signal,
    context: grpc.aio.ServicerContext[bytes, bytes],
) -> DecodedRequest:
    """Read and commit a request; raises RefusalError."""
    limits = pipeline.limits
    with pipeline.in_flight.claim() as claim:
        async with _slot(reads, limits, claim) as most:
            message = await _message(context, limits)
            claim.give_back(most)
            claim.add(len(message))
            claim.body, packing = BytesIO(message), _packing(message)
            is_large = len(message) > limits.body_bytes_max // _LARGE_SHARE
            del message
            if is_large:
                return await pipeline.take(signal, WireFormat.PROTO, packing, claim)
        return await pipeline.take(signal, WireFormat.PROTO, packing, claim)


@asynccontextmanager
async def _slot(reads: asyncio.Semaphore, limits: Limits, claim: Claim) -> AsyncIterator[int]:
    """Wait for one of the messages that may be read at once; raises RefusalError.

    The size of a message is known after reading it, so that the maximum is claimed and yielded.
    """
    most = min(limits.body_bytes_max, limits.in_flight_bytes_max)
    try:
        async with asyncio.timeout(limits.body_s):
            await reads.acquire()
    except TimeoutError as error:
        raise no_room(limits) from error
    loop = asyncio.get_running_loop()
    letting_go = loop.call_later(_ALONE_S, reads.release)
    try:
        await _claim(claim, most, limits)
        yield most
    finally:
        if letting_go.when() > loop.time():
            letting_go.cancel()
            reads.release()


async def _claim(claim: Claim, size: int, limits: Limits) -> None:
    """Wait until there is room for so many bytes, and claim it; raises RefusalError."""
    deadline_s = time.monotonic() + limits.body_s
    while True:
        try:
            return claim.add(size)
        except RefusalError as refusal:
            if refusal.reason is not Reason.IN_FLIGHT or time.monotonic() > deadline_s:
                raise
        await asyncio.sleep(_LOOK_S)


async def _message(context: grpc.aio.ServicerContext[bytes, bytes], limits: Limits) -> bytes:
    """Read the message of a request; raises RefusalError."""
    try:
        async with asyncio.timeout(limits.body_s):
            message = await context.read()
    except TimeoutError as error:
        raise RefusalError(Reason.SLOW, f"the message took over {limits.body_s} s") from error
    # Without one, or with one that is too large, the call has ended.
    if not isinstance(message, bytes):
        raise RefusalError(Reason.CLIENT_GONE, "the request has no message")
    return message


def _packing(message: bytes) -> str:
    """Return how a message is packed, empty where it is not."""
    if message.startswith(_GZIP_HEAD):
        return "gzip"
    return "deflate" if message.startswith(_ZLIB_HEAD) else ""


def _refuse(context: grpc.aio.ServicerContext[bytes, bytes], refusal: RefusalError) -> None:
    """Set the status of a refusal; `abort` would raise an exception that the call keeps."""
    details = [("grpc-status-details-bin", status(refusal).SerializeToString())]
    if refusal.retry_after_s is not None:
        info = retry_info(refusal.retry_after_s).SerializeToString()
        details.append(("google.rpc.retryinfo-bin", info))
    context.set_code(_CODES[refusal.reason.code])
    context.set_details(str(refusal))
    context.set_trailing_metadata(tuple(details))
