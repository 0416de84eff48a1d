"""The path of spans from the body of a request to the sink, for HTTP and gRPC."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from threading import Lock

import polars as pl

from looptrace.analyzer.settings.server_limits import Limits
from looptrace.analyzer.text.display import plain
from looptrace.collector.otlp.span_rows import cut_text, placeless_text
from looptrace.collector.otlp.span_table import Block, joined_table, logged_count
from looptrace.collector.server.receiver.decoding import (
    SHOWN_CHARS_MAX,
    DecodedRequest,
    RefusalError,
    Signal,
    WireFormat,
    decode_logs,
    decode_traces,
    decompress,
)
from looptrace.collector.server.receiver.gatherer import Gatherer
from looptrace.collector.server.receiver.receiver_metrics import Reason, ReceiverCounts
from looptrace.collector.server.receiver.sink import Sink, SinkFull
from looptrace.collector.store.locks import StoreError

_logger = logging.getLogger(__name__)


class InFlight:
    """The memory of all requests until they are answered, in bytes.

    A claim alone refers to the body of a request, and lets go of it when the request is answered.
    So no body outlives its request, whatever still refers to the exception that ended it.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.lock = Lock()  # Bodies are read on the event loop, and unpacked on threads.
        self.bytes_held = 0

    @contextmanager
    def claim(self) -> Iterator[Claim]:
        """Yield the claim of one request; its bytes are given back when the request is answered."""
        claim = Claim(self)
        try:
            yield claim
        finally:
            with self.lock:
                self.bytes_held -= claim.bytes_held
                claim.is_over = True
                claim.body = BytesIO()


class Claim:
    """The bytes that one request holds in memory, and its body as sent."""

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self.bytes_held = 0
        self.is_over = False
        self.body = BytesIO()

    def add(self, size: int) -> None:
        """Reserve more; raises RefusalError where all requests together hold too much."""
        every = self._in_flight
        with every.lock:
            if self.is_over:  # The client went away while a thread unpacks.
                raise RefusalError(Reason.CLIENT_GONE, "the client went away")
            if every.bytes_held + size > every.limits.in_flight_bytes_max:
                raise no_room(every.limits)
            every.bytes_held += size
            self.bytes_held += size

    def give_back(self, size: int) -> None:
        """Give back reserved bytes that are not needed."""
        with self._in_flight.lock:
            self._in_flight.bytes_held -= size
            self.bytes_held -= size


def no_room(limits: Limits) -> RefusalError:
    """Return the refusal of a request while others hold too much."""
    why = "too much is being received at once; try again later"
    return RefusalError(Reason.IN_FLIGHT, why, limits.retry_after_s)


class Pipeline:
    """Accepts requests, from HTTP and gRPC, until it is closed."""

    def __init__(
        self,
        sink: Sink,
        limits: Limits,
        counts: ReceiverCounts,
        reduce_content: Callable[[pl.DataFrame], pl.DataFrame] = lambda spans: spans,
    ) -> None:
        """Send spans to `sink`, with the content that `reduce_content` leaves."""
        self.limits = limits
        self.counts = counts
        self.in_flight = InFlight(limits)
        self._decoders = ThreadPoolExecutor(limits.decoders, "looptrace-decode")
        self._gatherer = Gatherer(sink, limits, reduce_content, self._decoders)

    def close(self) -> None:
        """End the threads; active ones finish their request first."""
        self._decoders.shutdown()

    async def take(
        self,
        signal: Signal,
        form: WireFormat,
        packing: str,
        claim: Claim,
        services: Set[str] | None = None,
    ) -> DecodedRequest:
        """Unpack, decode and commit a claim's body; returns when its spans are on disk.

        With `services` only their spans are taken. Raises RefusalError.
        """
        began_s, size = time.monotonic(), len(claim.body.getvalue())
        if signal is Signal.METRICS:
            self.counts.add("metrics_requests")
            return DecodedRequest()
        decoding = asyncio.get_running_loop().run_in_executor(
            self._decoders, self._decoded, signal, form, packing, claim, services
        )
        try:
            decoded = await asyncio.shield(decoding)
        except asyncio.CancelledError:  # The client went away; the thread still has the body.
            await asyncio.wait([decoding])
            raise
        if isinstance(decoded, RefusalError):
            raise decoded.bare()
        if decoded.spans:
            await self._commit(decoded)
        self.counts.acknowledged.add(time.monotonic() - began_s)
        self.counts.add("requests")
        self.counts.add("bytes", size)
        events = logged_count(decoded.spans)
        self.counts.add("spans", len(decoded.spans) - events)
        self.counts.add("events", events)
        self.counts.add("spans_rejected", decoded.rejected)
        if decoded.cut:
            self._warn_of_cut(decoded.cut)
        if decoded.placeless:
            self._warn_of_placeless(len(decoded.placeless))
        return decoded

    def _warn_of_placeless(self, events: int) -> None:
        """Count events that name no span, and log the first of them."""
        if not self.counts.read()["events_placeless"]:
            _logger.warning("%s", placeless_text(events))
        self.counts.add("events_placeless", events)

    def _warn_of_cut(self, cut: Sequence[int]) -> None:
        """Count spans that lost attributes, and log the first of them."""
        if not self.counts.read()["spans_cut"]:
            _logger.warning("%s", cut_text(len(cut), sum(cut)))
        self.counts.add("spans_cut", len(cut))

    def _decoded(
        self,
        signal: Signal,
        form: WireFormat,
        packing: str,
        claim: Claim,
        services: Set[str] | None,
    ) -> DecodedRequest | RefusalError:
        """Decode a body; return a refusal, because a raised one would keep all frames in memory."""
        try:
            decoded = self._decode(signal, form, packing, claim)
            if services is not None:
                _check_services(decoded.spans, services)
            return decoded
        except RefusalError as refusal:
            return refusal.bare()

    def _decode(
        self, signal: Signal, form: WireFormat, packing: str, claim: Claim
    ) -> DecodedRequest:
        body = decompress(claim.body.getvalue(), packing, self.limits, claim.add)
        decode = decode_traces if signal is Signal.TRACES else decode_logs
        return decode(body, form, self.limits)

    async def _commit(self, decoded: DecodedRequest) -> None:
        error = await self._gatherer.commit(decoded.spans, decoded.size)
        if isinstance(error, SinkFull):
            raise RefusalError(Reason.SINK_FULL, str(error), error.retry_after_s)
        if isinstance(error, StoreError):
            why = "the spans cannot be kept now; try again later"  # Clients cannot free this disk.
            raise RefusalError(Reason.STORE_ERROR, why, self.limits.retry_after_s)
        try:
            if error:
                raise error
        finally:
            del error  # An exception that is in its own frames outlives the request.


def _check_services(spans: Block, services: Set[str]) -> None:
    """Refuse spans of other services than these; raises RefusalError."""
    named = joined_table([spans])["service"].fill_null("").unique()
    if others := sorted({*named} - services):
        first = plain(others[0], SHOWN_CHARS_MAX) or "no service"
        why = f"this token sends spans of {', '.join(sorted(services))}, and one is of {first}"
        raise RefusalError(Reason.SERVICE, why[:SHOWN_CHARS_MAX])
