"""Receivers to try: a real one on loopback in a thread, or in a process of its own.

As a program it serves until its standard input ends, and first prints its two ports.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Event, Thread

import polars as pl
import uvicorn
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette

from looptrace.analyzer.settings.server_limits import Limits
from looptrace.collector.server.receiver.grpc_receiver import grpc_server
from looptrace.collector.server.receiver.http_receiver import otlp_routes, uvicorn_options
from looptrace.collector.server.receiver.pipeline import Pipeline
from looptrace.collector.server.receiver.receiver_metrics import ReceiverCounts
from tests.paths import ROOT

HOST = "127.0.0.1"
PROTO, JSON = "application/x-protobuf", "application/json"
SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
EXPORT = f"/{SERVICE}/Export"
DEADLINE_S = 30


@dataclass
class Memory:
    """A sink that keeps spans in memory; `refuse` may raise instead."""

    frames: list[pl.DataFrame] = field(default_factory=list)
    refuse: Callable[[], None] = lambda: None

    async def accept(self, spans: pl.DataFrame) -> None:
        """Keep spans."""
        self.refuse()
        self.frames.append(spans)

    @property
    def spans(self) -> pl.DataFrame:
        """All spans that were kept."""
        return pl.concat(self.frames)

    @property
    def names(self) -> list[str]:
        """The names of all spans that were kept."""
        return [name for frame in self.frames for name in frame["name"]]


@dataclass
class Receiver:
    """A receiver that runs, and what it keeps and counts."""

    pipeline: Pipeline
    sink: Memory
    http: str = ""
    grpc: str = ""

    @property
    def counted(self) -> dict[str, int]:
        """The counts that are not 0."""
        return {name: count for name, count in self.pipeline.counts.read().items() if count}

    @property
    def app(self) -> Starlette:
        """The application, to be called without a server."""
        return Starlette(routes=otlp_routes(self.pipeline))


@contextmanager
def intake(limits: Limits | None = None) -> Iterator[Receiver]:
    """Return the pipeline of requests, without a server."""
    sink = Memory()
    one = Pipeline(sink.accept, limits or Limits(), ReceiverCounts())
    try:
        yield Receiver(one, sink)
    finally:
        one.close()


@contextmanager
def running(limits: Limits | None = None) -> Iterator[Receiver]:
    """Serve on free ports of loopback, HTTP and gRPC in one event loop on a thread."""
    with intake(limits) as receiver:
        ready, stop = Event(), Event()
        thread = Thread(target=lambda: asyncio.run(_serve(receiver, ready, stop)))
        thread.start()
        try:
            assert ready.wait(DEADLINE_S)
            yield receiver
        finally:
            stop.set()
            thread.join()
        assert receiver.pipeline.in_flight.bytes_held == 0, "what was claimed was given back"


async def _serve(receiver: Receiver, ready: Event, stop: Event) -> None:
    options = uvicorn_options(receiver.pipeline)
    server = uvicorn.Server(uvicorn.Config(receiver.app, log_config=None, **options))
    grpc = grpc_server(receiver.pipeline)
    port = grpc.add_insecure_port(f"{HOST}:0")
    with socket.socket() as listening:
        listening.bind((HOST, 0))
        receiver.http = f"http://{HOST}:{listening.getsockname()[1]}"
        receiver.grpc = f"{HOST}:{port}"
        await grpc.start()
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started:
            await asyncio.sleep(0.005)
        ready.set()
        await asyncio.to_thread(stop.wait)
        server.should_exit = True
        await serving
        await grpc.stop(grace=1)


@dataclass(frozen=True)
class Process:
    """A receiver in a process of its own."""

    http: str
    grpc: str
    pid: int

    def forget_peak(self) -> None:
        """Reset the peak of its memory to the current value."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5", "utf-8")

    def kib(self, what: str) -> int:
        """Read a figure of its memory: VmRSS is the current value, VmHWM the peak."""
        status = Path(f"/proc/{self.pid}/status").read_text("utf-8")
        line = next(line for line in status.splitlines() if line.startswith(f"{what}:"))
        return int(line.split()[1])


@contextmanager
def process(limits: Limits | None = None) -> Iterator[Process]:
    """Start a receiver in a process of its own, and end it."""
    given = json.dumps(asdict(limits or Limits()))
    command = [sys.executable, "-m", "tests.reliability.receivers", given]
    with Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            http, grpc = child.stdout.readline().split()
            yield Process(http, grpc, child.pid)
        finally:
            child.stdin.close()
            child.wait()


def sample(*names: str) -> ExportTraceServiceRequest:
    """Return a request with a span for each name, with all kinds of attributes, event and link."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "shop"
    scope = resource.scope_spans.add()
    scope.scope.name = "tests"
    for number, name in enumerate(names or ("call",), 1):
        span = scope.spans.add(
            trace_id=bytes(range(16)),
            span_id=number.to_bytes(8, "big"),
            name=name,
            start_time_unix_nano=1_700_000_000_000_000_000,
            end_time_unix_nano=1_700_000_001_000_000_000,
        )
        values = {key: span.attributes.add(key=key).value for key in "sidbxalkn"}
        values["s"].string_value = "text “with” \\ 😀"
        values["i"].int_value = -(1 << 63)
        values["d"].double_value = 0.5
        values["b"].bool_value = False
        values["x"].bytes_value = b"\x00\xff"
        values["a"].array_value.values.add().int_value = 1
        values["l"].array_value.values.add().array_value.values.add().string_value = ""
        values["k"].kvlist_value.values.add(key="in").value.bool_value = True
        event = span.events.add(name="exception", time_unix_nano=1_700_000_000_500_000_000)
        event.attributes.add(key="exception.type").value.string_value = "ValueError"
        span.links.add(trace_id=bytes(range(16)), span_id=b"12345678")
        span.status.code = 2
        span.status.message = "failed"
    return request


def main() -> None:
    """Serve until standard input ends, within the limits of the first argument."""
    with running(Limits(**json.loads(sys.argv[1]))) as receiver:
        sys.stdout.write(f"{receiver.http} {receiver.grpc}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
