"""The server with its parts: receiver, ingest log, detector, archiver, dispatcher, exporter."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from looptrace.analyzer.detect.ruleset import leaving_out
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.llm_judge import Judge
from looptrace.analyzer.settings.sections import Settings, with_rules
from looptrace.collector.content.policy import Content, with_content
from looptrace.collector.gate_exporter import GateExporter, Target
from looptrace.collector.judge.gate_judge import GateJudge
from looptrace.collector.server import metrics, process
from looptrace.collector.server.access import (
    Access,
    AccessInterceptor,
    AccessMiddleware,
    Page,
    check_access,
    check_tls,
    tls_options,
)
from looptrace.collector.server.api_responses import error_handlers
from looptrace.collector.server.archiver import Archiver
from looptrace.collector.server.background.loop_answers import LoopAnswers
from looptrace.collector.server.background.memory import return_memory
from looptrace.collector.server.background.note_reader import NoteReader
from looptrace.collector.server.background.promise_tester import PromiseTester
from looptrace.collector.server.gates_api import GatesApi
from looptrace.collector.server.grpc_certificates import grpc_certificates
from looptrace.collector.server.ingest import reserve
from looptrace.collector.server.ingest.ingest_log import log_of
from looptrace.collector.server.live_detector import LiveDetector
from looptrace.collector.server.loop_metrics import LoopMetrics, log_events
from looptrace.collector.server.metrics import Metrics
from looptrace.collector.server.receiver.grpc_receiver import grpc_server
from looptrace.collector.server.receiver.http_receiver import otlp_routes, uvicorn_options
from looptrace.collector.server.receiver.pipeline import Pipeline
from looptrace.collector.server.receiver.ports import (
    ServeError,
    address_text,
    listening,
    port_error,
)
from looptrace.collector.server.receiver.receiver_metrics import (
    Instrument,
    ReceiverCounts,
    counter,
    gauge,
)
from looptrace.collector.server.shards.router import Shards, shards_of
from looptrace.collector.server.streams.event_feed import Changes, EventFeed
from looptrace.collector.server.tokens.service_guard import ServiceGuard
from looptrace.collector.store import layout, writer
from looptrace.collector.store.key import content_key
from looptrace.collector.store.locks import DamagedFileError
from looptrace.collector.store.promises.withdrawn import settings_in
from looptrace.collector.webhooks.dispatcher import Dispatcher

_logger = logging.getLogger(__name__)

# A stop takes at most 5 s in all: HTTP, gRPC and the threads end one after the other. On a machine
# that is too busy for that, the process ends without them.
_STOP_S = 4.4
_REQUESTS_END_S = 1.5
_PARTS_END_S = 1.3
_METRICS_END_S = 0.3
# How long a report waits for the newest turns to be in the store.
_STORED_WAIT_S = 2.0
_STORED_LOOK_S = 0.02


# Returns the routes of erasures in a store, from what starts the server again.
Erasures = Callable[[Path, Callable[[], None]], Sequence[Route]]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a server. Port 0 means any free port; None means no such server."""

    store_dir: Path
    settings: Settings
    access: Access
    http_port: int
    grpc_port: int | None
    content: Content = "redacted"
    export_to: Target | None = None
    judge: Judge | None = None
    shard: str | None = None  # its address among several servers
    page: Callable[[Service, Options], Page] | None = None  # None serves machines alone
    erasures: Erasures = lambda *_: ()  # routes
    reload: process.Reload | None = None  # what SIGHUP does, if anything


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a server listens: the URL of HTTP, and host and port of gRPC."""

    http: str
    grpc: str | None


class Service:
    """The parts of a server behind its ports."""

    on_restart: Callable[[], None] = staticmethod(lambda: None)  # while nothing serves

    def __init__(self, options: Options) -> None:
        """Open the store and start the threads, which catch up with what the log still has.

        Raises:
            StoreError: if the store cannot be used, or another process writes to it.
            SecretError: if a webhook's secret cannot be read.
        """
        settings, store = options.settings, options.store_dir
        reserve.make_room(store)
        writer.prepare(store)
        self.changes, self.counts = Changes(), ReceiverCounts()
        self._erasures = options.erasures
        key = content_key(store)
        self.log = log_of(store, settings.server.log_bytes_max)
        hears = (self._on_events, self.on_store_error)
        self.detector = LiveDetector(store, settings, self.log, *hears)
        self.archiver = Archiver(
            store, settings, self.log, lambda: self.detector.counts.seq, self.detector.start
        )
        self.feed = EventFeed(store, self.changes, settings.directives)
        self.dispatcher = self._dispatcher(options)
        to, judge = options.export_to, options.judge
        self.exporter = GateExporter(store, to) if to else None
        wakes = (self.detector.wake, self.archiver.ask)
        self.judge = GateJudge(store, judge, settings.judge, *wakes) if judge else None
        self.promises = PromiseTester(store, settings, self.on_store_error, self.restart)
        self.notes = NoteReader(store, lambda: self.detector.counts.is_current == 1)
        answers = LoopAnswers(store, self.archiver.version, settings.prices)
        helpers = (self.exporter, self.judge, self.promises, self.notes, answers)
        self._helpers = [part for part in helpers if part]
        writers = (self.archiver, self.dispatcher, *self._helpers)
        for part in (answers,) if self.log.is_fixed else writers:
            part.start()  # All listeners of events exist now.
        dialects = settings.policy.dialects
        reduced = partial(with_content, content=options.content, key=key, dialects=dialects)
        self.shards = self._shards(options, key)
        sink = (self.shards or self.log).accept
        self.pipeline = Pipeline(sink, settings.server, self.counts, reduced)
        shown = (self.detector.counts, self.detector.shown)
        self.loops = LoopMetrics(store, self.log, *shown, answers, settings.prices)
        self.metrics = Metrics(self.instruments(), os.environ)
        self.gates = GatesApi(store, settings, self.feed, self.detector.wake, self._stored)

    def _dispatcher(self, options: Options) -> Dispatcher:
        path, given = options.store_dir / layout.GATES_FILE, options.settings
        heard, ends = self.feed.hearing.heard, given.waiting
        return Dispatcher(path, given.webhooks, os.environ, None, given.page, heard, ends)

    def _shards(self, options: Options, key: bytes) -> Shards | None:
        if self.log.is_fixed:  # Spans of other servers are refused, too.
            return None
        others = (options.shard, options.access.tokens, options.content, key, self.detector.news)
        return shards_of(options.store_dir, options.settings, self.log, *others)

    def routes(self) -> list[Route]:
        """Return the routes of HTTP."""
        return [
            *otlp_routes(self.pipeline),
            *(self.shards.routes() if self.shards else ()),
            *self.gates.routes(),
            *self._erasures(self.gates.store_dir, self.restart),
            *metrics.routes(
                self.metrics,
                self.checks(),
                lambda: self.detector.counts.backlog_spans,
                self.shards.ages_s if self.shards else dict,
            ),
        ]

    def restart(self) -> None:
        """Stop, and start again."""
        self.on_restart()

    def checks(self) -> dict[str, Callable[[], bool]]:
        """Return the health check of each part; where the store is only read, none runs."""
        if self.log.is_fixed:
            return {"writable": lambda: False}
        return {
            "detection": lambda: self.detector.is_alive and self.detector.counts.is_current == 1,
            "storing": lambda: self.archiver.is_alive and not self.archiver.counts.is_blocked,
            "log": lambda: self.log.bytes <= self.log.bytes_max and not self.log.is_blocked,
        }

    def instruments(self) -> list[Instrument]:
        """Return the instruments of every part."""
        return [
            *metrics.of_counts(self.counts),
            *metrics.of_fields("detection", self.detector.counts),
            *metrics.of_fields("storing", self.archiver.counts),
            counter(
                "looptrace.storing.expired_parts",
                "Deleted parts of the store, each the spans, turns and findings of a day; the "
                "cause is age, size or service.",
                lambda: {(cause,): days for cause, days in self.archiver.expired.items()},
                "cause",
            ),
            *self.loops.instruments(),
            gauge(
                "looptrace.streams.open",
                "Open streams of gate events, of agents and people.",
                lambda: self.feed.open_streams,
            ),
            *metrics.of_webhooks(self.loops.store_dir, self.dispatcher.results),
            *metrics.of_store(self.loops.store_dir),
            *self.log.instruments(),
            *self.promises.instruments(),
            *(self.shards.instruments() if self.shards else ()),
        ]

    def on_store_error(self, error: Exception) -> None:
        """Set a file aside that a reader of the store found damaged, from any thread."""
        if isinstance(error, DamagedFileError):
            self.archiver.set_aside(error)

    def _on_events(self, events: Sequence[GateEvent]) -> None:
        log_events(events)
        self.changes.tell()
        self.dispatcher.wake()
        for part in (self.exporter, self.judge, self.notes):
            if part:
                part.wake()
        # Receivers of an event usually open its report next.
        self.archiver.ask({event.trace_id for event in events})

    async def _stored(self) -> None:
        """Wait until the store has the processed spans, for a limited time."""
        if self.log.is_fixed:
            return
        detected, deadline_s = self.detector.counts, time.monotonic() + _STORED_WAIT_S
        while not detected.is_current and time.monotonic() < deadline_s:
            await asyncio.sleep(_STORED_LOOK_S)
        seq = detected.seq
        self.archiver.ask()
        while self.archiver.counts.seq < seq and time.monotonic() < deadline_s:
            await asyncio.sleep(_STORED_LOOK_S)

    def close(self) -> None:
        """Stop all parts; acknowledged spans are on disk, where the next start finds them."""
        self.pipeline.close()
        self.feed.close()
        parts = (self.detector, self.dispatcher, self.archiver, self.shards, *self._helpers)
        ends = [part.close for part in parts if part]
        with ThreadPoolExecutor(len(ends)) as pool:
            for end in ends:
                pool.submit(end, _PARTS_END_S)
        self.metrics.close(_METRICS_END_S)
        self.log.close()


async def serve(options: Options, ready: Callable[[Addresses], None]) -> bool:
    """Serve until SIGTERM or SIGINT, which ends the process within 5 s; a second one does at once.

    Returns whether it is to be started again, because of an erasure or a promise.

    Raises:
        AccessError: if its address needs tokens or certificates that it does not have. ServeError:
        if a port cannot be opened. StoreError: if the store cannot be used.
    """
    check_access(options.access)
    check_tls(options.access)
    return_memory()
    server = process.allow_files(options.settings.server)
    settings = settings_in(options.store_dir, replace(options.settings, server=server))
    settings = with_rules(settings, leaving_out(settings.policy.rule_set))
    options = replace(options, settings=settings)
    with listening(options.access.host, options.http_port, "--http-port") as listener:
        if options.grpc_port is not None:
            with listening(options.access.host, options.grpc_port, "--grpc-port"):
                pass  # gRPC would write a line of its own about a port that it cannot open.
        service = Service(options)
        try:
            return await _serve(options, service, listener, ready)
        finally:
            await asyncio.to_thread(service.close)


async def _serve(
    options: Options, service: Service, listener: socket.socket, ready: Callable[[Addresses], None]
) -> bool:
    access = options.access
    page = options.page(service, options) if options.page else None
    machines = Starlette(
        routes=service.routes(), exception_handlers=error_handlers(service.on_store_error)
    )
    guard = ServiceGuard(options.store_dir, machines.routes)
    app = AccessMiddleware(machines, access, page, machines.routes, guard)
    http = _Http(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=int(_REQUESTS_END_S),
            **uvicorn_options(service.pipeline),
            **tls_options(access),
        )
    )
    http.config.load()
    if options.reload:
        options.reload.http = http.config.ssl
        options.reload.on_signal()
    scheme = "https" if access.cert_file else "http"
    async with _grpc(options, service.pipeline) as grpc_port:
        service.on_restart = lambda: _stop(http, service.changes, again=True)
        _on_signals(lambda: _stop(http, service.changes))
        url = f"{scheme}://{address_text(access.host, listener.getsockname()[1])}"
        grpc = None if grpc_port is None else address_text(access.host, grpc_port)
        ready(Addresses(url, grpc))
        with process.quick_to_answer():
            await http.serve(sockets=[listener])
    return http.starts_again


class _Http(uvicorn.Server):
    """uvicorn's server without its signal handlers: gRPC has to stop as well."""

    starts_again = False

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def _grpc(options: Options, pipeline: Pipeline) -> AsyncIterator[int | None]:
    """Serve gRPC; yield the port."""
    if options.grpc_port is None:
        yield None
        return
    access = options.access
    server = grpc_server(pipeline, [AccessInterceptor(access)])
    at = address_text(access.host, options.grpc_port)
    try:
        certificates = grpc_certificates(access)
        if options.reload:
            options.reload.grpc = certificates
        secured = certificates and server.add_secure_port(at, certificates.credentials())
        port = secured or server.add_insecure_port(at)
    except RuntimeError as error:
        raise ServeError(
            port_error(access.host, options.grpc_port, "--grpc-port", "see the line above")
        ) from error
    await server.start()
    try:
        yield port
    finally:
        await server.stop(_REQUESTS_END_S)


def _on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    is_stopping = False

    def heard() -> None:  # Two signals may have come before the first is handled.
        nonlocal is_stopping
        if is_stopping:
            os._exit(1)
        is_stopping = True
        process.end_within(_STOP_S)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, heard)


def _stop(http: _Http, changes: Changes, *, again: bool = False) -> None:
    _logger.info("stopping")
    http.starts_again = again  # Who stops it meanwhile means it.
    changes.end()
    http.should_exit = True
