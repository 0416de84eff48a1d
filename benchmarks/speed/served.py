"""The rows of `make bench` that need a server, or a working agent, in real time."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import httpx
import numpy as np
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from benchmarks import load, long_sessions
from benchmarks.live import PERCENTILES, ROOT
from benchmarks.load import used_by
from benchmarks.processor import ALONE, LOCAL
from benchmarks.span_shapes import BODY_SPANS, CALLS, SEED, bodies
from benchmarks.speed.figures import PEAK, Figure, Measured, Row
from benchmarks.speed.processes import run
from looptrace.rules.vocabulary import NS_PER_S

LOAD_SPANS_PER_S, LOAD_BATCH, LOAD_S = 2_000, 512, 60
# A server keeps up while it is no further behind than this after so many seconds.
BEHIND_S_MAX, KEEPING_S = 2.0, 10
# The time for this many spans at once gives the start of the search for the highest rate.
FLOOD_SPANS = 20_000
TRIES, LESS = 5, 0.75
SENDERS = 2
# A server that is further behind than this has not kept up.
WAIT_S_MAX = 60
WEBHOOK_SPANS_PER_S, LOOPS, LOOP_CALLS, CALL_EVERY_S = 1_000, 60, 4, 0.25
AGENT_S = 20
LONG_SESSIONS, LONG_SPANS, LONG_SPANS_PER_S = 10, 3_000, 10
PROTOBUF = {"Content-Type": "application/x-protobuf"}
SESSION_SPANS = 1 + 2 * CALLS
SPANS_A_BODY = BODY_SPANS // SESSION_SPANS * SESSION_SPANS


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, and its address."""

    pid: int
    address: str


@contextmanager
def serving(store_dir: Path, *options: str) -> Iterator[Server]:
    """Serve a store over HTTP alone, until the block ends."""
    command = [sys.executable, "-m", "looptrace", "serve", "--store", str(store_dir)]
    process = subprocess.Popen(
        [*command, "--http-port", "0", "--no-grpc", *options], stdout=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        server = Server(process.pid, re.findall(r"http://[^\s,]+", line)[0])
        until_s = time.perf_counter() + WAIT_S_MAX
        while httpx.get(f"{server.address}/readyz", trust_env=False).is_error:
            if time.perf_counter() > until_s:
                raise TimeoutError("the server is not ready")
            time.sleep(0.1)
        yield server
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def _post(connection: http.client.HTTPConnection, body: bytes) -> None:
    """Send a request until it is acknowledged."""
    while True:
        connection.request("POST", "/v1/traces", body, PROTOBUF)
        answer = connection.getresponse()
        answer.read()
        if answer.status == http.HTTPStatus.OK:
            return
        time.sleep(0.05)


def send(server: Server, requests: Iterable[bytes], spans_per_s: float) -> float:
    """Send requests of `SPANS_A_BODY` spans up to a rate; return the seconds it took."""
    local = threading.local()
    began_s = time.perf_counter()

    def one(numbered: tuple[int, bytes]) -> None:
        number, body = numbered
        wait_s = began_s + number * SPANS_A_BODY / spans_per_s - time.perf_counter()
        time.sleep(max(0.0, wait_s))
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection(urlsplit(server.address).netloc)
        _post(local.connection, body)

    with ThreadPoolExecutor(SENDERS) as senders:
        for _ in senders.map(one, enumerate(requests)):
            pass
    return time.perf_counter() - began_s


def behind_s(server: Server, spans: int, wait_s_max: float) -> float:
    """Return the seconds until the rules have run on all spans, and until the store has them."""
    began_s = time.perf_counter()
    while (passed_s := time.perf_counter() - began_s) < wait_s_max:
        page = httpx.get(f"{server.address}/metrics", timeout=WAIT_S_MAX, trust_env=False).text
        done = re.findall(r"^looptrace_(?:detection|storing)_spans_total (\S+)", page, re.MULTILINE)
        if len(done) == 2 and min(map(float, done)) >= spans:
            break
        time.sleep(0.1)
    return passed_s


def _load(_folder: Path, share: float) -> Measured:
    """Run real exporters for a minute: `benchmarks.load`, each time with a new store."""
    seconds = max(3.0, LOAD_S * share)
    with TemporaryDirectory() as folder:
        figures = load.measured(Path(folder), LOAD_SPANS_PER_S, LOAD_BATCH, seconds)
    p50, p99 = figures.ack_ms
    peak_mb = figures.memory_max_mib * 1.048576
    return Measured({"behind": max(figures.behind_s), "p50": p50, "p99": p99, PEAK: peak_mb})


def _most(_folder: Path, share: float) -> Measured:
    """Find the highest rate of spans with which a server keeps up."""
    flood = list(
        bodies("short", max(1, int(FLOOD_SPANS * share) // SPANS_A_BODY) * SPANS_A_BODY, SEED)
    )
    with TemporaryDirectory() as folder, serving(Path(folder, "store")) as server:
        took_s = send(server, flood, float("inf"))
        took_s += behind_s(server, SPANS_A_BODY * len(flood), WAIT_S_MAX)
        worked_off = SPANS_A_BODY * len(flood) / took_s
    spans_per_s = worked_off
    seconds = max(2.0, KEEPING_S * share)
    for _ in range(TRIES):
        count = max(1, int(spans_per_s * seconds) // SPANS_A_BODY)
        enough = list(bodies("short", count * SPANS_A_BODY, SEED))
        with TemporaryDirectory() as folder, serving(Path(folder, "store")) as server:
            sent = SPANS_A_BODY * len(enough)
            took_s = send(server, enough, spans_per_s)
            late_s = behind_s(server, sent, BEHIND_S_MAX + 1)
            if late_s <= BEHIND_S_MAX and took_s <= sent / spans_per_s + BEHIND_S_MAX:
                peak_mb = used_by(server.pid)[1] * 1.048576
                return Measured({"most": sent / took_s, "flood": worked_off, PEAK: peak_mb})
        spans_per_s *= LESS
    return Measured({"most": 0.0, "flood": worked_off})


def _long(_folder: Path, share: float) -> Measured:
    """Send a span now and then to each of a few sessions that have gone on for hours."""
    sessions, spans, spans_per_s = LONG_SESSIONS, int(LONG_SPANS * share), LONG_SPANS_PER_S
    seconds = max(5.0, LOAD_S * share)
    busy = long_sessions.measured(sessions, spans, spans_per_s, seconds, ROOT)
    return Measured({"busy": 100 * busy})


class _Receiver(ThreadingHTTPServer):
    """A receiver of webhooks that notes when the first one of each task came."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.came: dict[str, tuple[float, int]] = {}  # by task: the time, and the turn of the event


class _Handler(BaseHTTPRequestHandler):
    server: _Receiver

    def do_POST(self) -> None:
        """Take one webhook."""
        came_s = time.perf_counter()
        data = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["data"]
        self.server.came.setdefault(data["task"], (came_s, data["turn"]))
        self.send_response(http.HTTPStatus.NO_CONTENT)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write no log."""


def _failing_call(session: str, number: int) -> bytes:
    """Return a request with one failing call, always the same."""
    data = TracesData()
    span = data.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id = os.urandom(16), os.urandom(8)
    span.name = "execute_tool run_tests"
    span.end_time_unix_nano = time.time_ns()
    span.start_time_unix_nano = span.end_time_unix_nano - NS_PER_S // 10
    span.status.code, span.status.message = 2, "AssertionError: the cart is empty"
    for key, value in {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "run_tests",
        "gen_ai.tool.call.id": f"call_{number}",
        "gen_ai.tool.call.arguments": '{"path":"tests/test_cart.py"}',
        "gen_ai.conversation.id": session,
    }.items():
        pair = span.attributes.add()
        pair.key, pair.value.string_value = key, value
    request: bytes = data.SerializeToString()
    return request


def _webhook(_folder: Path, share: float) -> Measured:
    """Measure from the span that closes a loop to its webhook, under load."""
    loops = max(5, int(LOOPS * share))
    seconds = loops * CALL_EVERY_S + LOOP_CALLS * CALL_EVERY_S + 1
    others = list(bodies("short", int(WEBHOOK_SPANS_PER_S * seconds), SEED))
    receiver = _Receiver()
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    sent: dict[str, list[float]] = defaultdict(list)
    with TemporaryDirectory() as folder:
        config = Path(folder, "looptrace.toml")
        config.write_text(
            f'[[webhooks]]\nname = "a"\nurl = "http://127.0.0.1:{receiver.server_port}/"\n'
            'secrets = ["env:BENCH_SECRET"]\nallow_private = ["127.0.0.1"]\nactions = ["gate"]\n'
        )
        os.environ["BENCH_SECRET"] = "whsec_" + "A" * 32
        with serving(Path(folder, "store"), "--config", str(config)) as server:
            load = threading.Thread(target=send, args=(server, others, WEBHOOK_SPANS_PER_S))
            load.start()
            _loop(server, loops, sent)
            load.join()
            until_s = time.perf_counter() + WAIT_S_MAX
            while len(receiver.came) < loops and time.perf_counter() < until_s:
                time.sleep(0.05)
            peak_mb = used_by(server.pid)[1] * 1.048576
    receiver.shutdown()
    late_s = [
        came_s - sent[task][turn - 1]
        for task, (came_s, turn) in receiver.came.items()
        if task in sent
    ]
    p50, p99 = np.percentile(late_s, PERCENTILES)
    return Measured({"p50": p50, "p99": p99, "missing": loops - len(late_s), PEAK: peak_mb})


def _loop(server: Server, loops: int, sent: dict[str, list[float]]) -> None:
    """Run agents that loop, one after the other; note when each call was sent."""
    connection = http.client.HTTPConnection(urlsplit(server.address).netloc)
    for step in range(loops + LOOP_CALLS):
        for number in range(max(0, step - LOOP_CALLS + 1), min(step + 1, loops)):
            session = f"loop-{number}"
            sent[session].append(time.perf_counter())
            _post(connection, _failing_call(session, step))
        time.sleep(CALL_EVERY_S)


def _agent(_folder: Path, share: float) -> Measured:
    """Run an agent with `local()` and one without at the same time; their difference counts."""
    seconds = max(2.0, AGENT_S * share)

    def percent(arm: str) -> tuple[float, float]:
        used = run(["-m", "benchmarks.processor", "--agent", arm, str(seconds)])
        return float(used.printed) / seconds * 100, used.peak_mb

    with ThreadPoolExecutor(2) as both:
        (alone, _), (local, peak_mb) = both.map(percent, (ALONE, LOCAL))
    return Measured({"cpu": local - alone, PEAK: peak_mb})


_PEAK = Figure("MB", None, False)
ROWS = (
    Row(
        "server",
        f"server, {LOAD_SPANS_PER_S:,} spans/s for {LOAD_S} s",
        {
            "behind": Figure("s behind at the end", 2, False),
            "p50": Figure("ms to acknowledge, p50", None, False),
            "p99": Figure("ms to acknowledge, p99", 60, False),
            PEAK: _PEAK,
        },
        _load,
    ),
    Row(
        "server-most",
        "server, the most it takes and keeps up with",
        {
            "most": Figure("spans/s", 10_000),
            "flood": Figure("spans/s, sent at once until all are stored"),
            PEAK: _PEAK,
        },
        _most,
    ),
    Row(
        "webhook",
        f"from the span that closes a loop to the webhook, under {WEBHOOK_SPANS_PER_S:,} spans/s",
        {
            "p50": Figure("s, p50", 0.3, False),
            "p99": Figure("s, p99", 1, False),
            "missing": Figure("loops of which no webhook came", 0, False),
            PEAK: _PEAK,
        },
        _webhook,
    ),
    Row(
        "long",
        f"server, {LONG_SESSIONS} sessions of {LONG_SPANS:,} spans, {LONG_SPANS_PER_S} spans/s",
        {"busy": Figure("% of a core", None, False)},
        _long,
    ),
    Row(
        "agent",
        "agent with local(), 10 spans/s",
        {
            "cpu": Figure("% of a core added", 2, False),
            PEAK: _PEAK,
        },
        _agent,
    ),
)
