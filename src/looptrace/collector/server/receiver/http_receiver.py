"""OTLP over HTTP: `/v1/traces`, `/v1/logs` and `/v1/metrics`, for Starlette and uvicorn.

Only POST is answered; pages of other origins get no headers that would let them send (no CORS).
"""

import asyncio
from typing import Any, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import H11Protocol

from looptrace.analyzer.settings.server_limits import KIB
from looptrace.collector.server.receiver.decoding import PACKINGS, RefusalError, Signal, WireFormat
from looptrace.collector.server.receiver.otlp_responses import response, status, written
from looptrace.collector.server.receiver.pipeline import Claim, Pipeline
from looptrace.collector.server.receiver.receiver_metrics import Reason
from looptrace.collector.server.receiver.strangers import Strangers
from looptrace.collector.server.tokens.sight import EVERYTHING, SIGHT

_FORMS = {form.value: form for form in WireFormat}
# The headers that determine the end of a body.
_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})
_NO_PACKING = ("", "identity")
# How many connections may wait to be accepted, while the event loop or the start takes its time.
BACKLOG = 2_048
# How much is read from a connection at once. With asyncio's 256 KiB, hundreds of connections take
# more memory than all bodies may.
_READ_BYTES = 16 * KIB
# Of a body more is read, up to where uvicorn pauses: each read waits for the threads at work.
_BODY_READ_BYTES = 64 * KIB
_ALIASES = {"x-gzip": "gzip"}


def otlp_routes(pipeline: Pipeline) -> list[Route]:
    """Return the routes of OTLP; they take requests until the pipeline is closed."""
    return [Route(f"/v1/{signal.value}", OtlpEndpoint(pipeline, signal)) for signal in Signal]


def uvicorn_options(pipeline: Pipeline) -> dict[str, Any]:
    """Return the arguments of `uvicorn.Config` that hold the limits of connections.

    h11 is used because the other parser has no limit of headers.
    """
    limits = pipeline.limits
    held = {
        "pipeline": pipeline,
        "strangers": Strangers(limits.connections_max, pipeline.counts.connections),
    }
    protocol = type("BoundedHttp", (_BoundedHttp,), held)
    return {
        "http": protocol,
        "ws": "none",
        "h11_max_incomplete_event_size": limits.header_bytes_max,
        "timeout_keep_alive": limits.idle_s,
        "backlog": BACKLOG,
        "server_header": False,
        # Else any process of this machine could forge the address of a client.
        "proxy_headers": False,
    }


class _BoundedHttp(H11Protocol):
    """uvicorn's HTTP/1.1 with a time limit for headers, for which uvicorn waits forever.

    The same limit applies to the rest of a body whose request was refused early.
    """

    pipeline: Pipeline
    strangers: Strangers

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: asyncio.TimerHandle | None = None

    def drop(self) -> None:
        """Close it at once, to make room for another one."""
        most = self.pipeline.limits.connections_max
        why = f"there were {most:,} and it had no accepted request (see server.connections_max)"
        self.pipeline.counts.add_closed("closed_no_room", why)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.max_size = _READ_BYTES  # type: ignore[attr-defined]  # of asyncio's transports
        if not self.strangers.add(self):
            self.app = self._no_room
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def handle_events(self) -> None:
        super().handle_events()
        if self.scope is not None:
            self.transport.max_size = _BODY_READ_BYTES  # type: ignore[attr-defined]
            self.strangers.watch(self, cast("dict[str, Any]", self.scope))
        if self.scope is not None and _LENGTHS.issubset(name for name, _ in self.headers):
            # A proxy in between may have read another length, so that no request may follow this
            # one.
            self.headers.append(CLOSE_HEADER)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.strangers.remove(self)
        super().connection_lost(exc)

    def _wait(self) -> None:
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if is_answering or self.transport.is_closing():
            self._stop_waiting()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self.pipeline.limits.header_s, self._too_slow)

    def _too_slow(self) -> None:
        why = f"its request took more than {self.pipeline.limits.header_s} s (see server.header_s)"
        self.pipeline.counts.add_closed("closed_slow", why)
        self.transport.close()

    async def _no_room(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse each request."""
        limits = self.pipeline.limits
        why = f"there are {limits.connections_max:,} connections; try again later"
        refusal = RefusalError(Reason.CONNECTIONS, why, limits.retry_after_s)
        self.pipeline.counts.add_refused(refusal.reason)
        answer = _refused(refusal, WireFormat.JSON)
        answer.headers["Connection"] = "close"
        await answer(scope, receive, send)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


class OtlpEndpoint:
    """Answers the requests of one signal, as an ASGI application."""

    def __init__(self, pipeline: Pipeline, signal: Signal) -> None:
        self._pipeline = pipeline
        self._signal = signal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        form = _FORMS.get(_media_type(request))
        try:
            answer = await self._accepted(request, form)
        except RefusalError as refusal:
            self._pipeline.counts.add_refused(refusal.reason)
            answer = _refused(refusal, form or WireFormat.JSON)
        await answer(scope, receive, send)

    async def _accepted(self, request: Request, form: WireFormat | None) -> Response:
        """Process a request; raises RefusalError."""
        if request.method != "POST":
            raise RefusalError(Reason.METHOD, "send telemetry with POST")
        if form is None:
            raise RefusalError(Reason.MEDIA_TYPE, f"the content type must be {' or '.join(_FORMS)}")
        packing = _packing(request)
        with self._pipeline.in_flight.claim() as claim:
            await self._read(request, claim)
            # Where nobody is asked for a token, everybody sends everything.
            services = request.scope.get(SIGHT, EVERYTHING).services
            decoded = await self._pipeline.take(self._signal, form, packing, claim, services)
        content = written(response(self._signal, decoded), form)
        return Response(content, media_type=form.value)

    async def _read(self, request: Request, claim: Claim) -> None:
        """Read a body into its claim, within the limits of time and size; raises RefusalError."""
        limits = self._pipeline.limits
        why = f"the body has more than {limits.body_bytes_max:,} bytes; send smaller batches"
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limits.body_bytes_max:
            raise RefusalError(Reason.BODY_TOO_LARGE, why)
        try:
            async with asyncio.timeout(limits.body_s):
                async for part in request.stream():
                    if claim.bytes_held + len(part) > limits.body_bytes_max:
                        raise RefusalError(Reason.BODY_TOO_LARGE, why)
                    claim.add(len(part))
                    claim.body.write(part)
        except TimeoutError as error:
            why = f"the body took longer than {limits.body_s} s"
            raise RefusalError(Reason.SLOW, why) from error
        except ClientDisconnect as error:
            raise RefusalError(Reason.CLIENT_GONE, "the client went away") from error


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").split(";", 1)[0].strip().lower()


def _packing(request: Request) -> str:
    """Return how the body is packed, empty where it is not; raises RefusalError."""
    name = request.headers.get("content-encoding", "").strip().lower()
    packing = "" if name in _NO_PACKING else _ALIASES.get(name, name)
    if packing and packing not in PACKINGS:
        raise RefusalError(Reason.ENCODING, f"the content encoding must be {', '.join(PACKINGS)}")
    return packing


def _refused(refusal: RefusalError, form: WireFormat) -> Response:
    headers = {}
    if refusal.retry_after_s is not None:
        headers["Retry-After"] = str(refusal.retry_after_s)
    if refusal.reason is Reason.METHOD:
        headers["Allow"] = "POST"
    if refusal.reason is Reason.ENCODING:
        headers["Accept-Encoding"] = ", ".join(PACKINGS)
    content = written(status(refusal), form)
    return Response(content, refusal.reason.http_status, headers, form.value)
