"""A server under load: four real exporters, a steady stream of spans, nothing lost.

Each exporter is a process of its own that makes spans of agents at a steady rate, and times how
long the server takes to acknowledge each request. A receiver of webhooks notes when it hears of
each loop. In the end the store is compared with what was acknowledged. Several rates and sizes of
batches are tried one after the other: `--spans-per-s 500 2000 5000 --batch 5 100 512`.
"""

import argparse
import base64
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import nan
from pathlib import Path
from threading import Thread
from typing import IO, Any, Literal

import httpx
import numpy as np
import polars as pl
import requests
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.store import reader, writer
from looptrace.collector.store.layout import LOG_FILE

Protocol = Literal["http", "grpc"]

EXPORTERS: tuple[Protocol, ...] = ("http", "http", "grpc", "grpc")
# Of the spans of one run of an agent: one of the agent, and these of its calls.
CALLS_A_RUN = 24
# One agent of so many makes the same failing call again and again.
LOOPS_ONE_IN = 20
LOOPING_TOOL = "run_tests"
ANSWER_CHARS = 600
ACK_MS_MAX = 100
MS_PER_S = 1_000
# Of a server that is further behind it is enough to know that.
BEHIND_S_MAX = 60
# After so long a server holds as many tasks as it may, and its memory is to stay as it is: the last
# quarter of the time takes at most this share more than the third one.
FLAT_AFTER_S = 900
MEMORY_GROWTH_MAX = 0.1
MEMORY_LOOK_S = 1.0
_CONFIG = """
[[webhooks]]
name = "load"
url = "http://127.0.0.1:{port}/"
secrets = ["env:LOAD_SECRET"]
allow_private = ["127.0.0.1"]
actions = ["gate"]
"""
_ADDRESSES = re.compile(r"(http://\S+), OTLP over gRPC at (\S+)")


@dataclass(slots=True)
class Sent:
    """What one exporter did: spans acknowledged and failed, and how long each request took."""

    spans: int
    failed: int
    took_ms: list[float]
    # By task that loops: when the request with each of its calls was begun, in seconds of the day.
    calls_s: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figures:
    """What one rate and size of batches came to."""

    spans_per_s: float
    batch: int
    acknowledged_per_s: float
    lost: int
    refused: int
    ack_ms: tuple[float, float]  # p50 and p99
    behind_s: tuple[float, float]  # of the rules and the store, when the last span was sent
    loop_s: tuple[float, float]  # p50 and p99 from the call that closes a loop to the webhook
    loops: int  # that a gate was opened for, and their webhooks that came
    webhooks: int
    memory_mib: tuple[int, int, int]  # at the start, in the middle, at the end
    memory_max_mib: int
    memory_growth: float  # from the third quarter of the time to the last, as a share
    seconds: float
    cpu_s: float

    @property
    def is_kept(self) -> bool:
        """Whether nothing was lost, answers were quick, gates were told of, and memory is flat."""
        is_whole = not (self.lost or self.refused) and self.loops == self.webhooks
        is_flat = self.seconds < FLAT_AFTER_S or self.memory_growth < MEMORY_GROWTH_MAX
        return is_whole and self.ack_ms[1] < ACK_MS_MAX and is_flat


class Timed(SpanExporter):
    """A real exporter whose requests are timed, from the encoded bytes to the answer."""

    def __init__(self, protocol: Protocol, address: str) -> None:
        self.sent = Sent(0, 0, [])
        if protocol == "http":
            session = requests.Session()
            session.send = self._timed(session.send)  # type: ignore[method-assign]
            self.exporter: SpanExporter = Http(address + "/v1/traces", session=session)
        else:
            self.exporter = grpc = Grpc(address, insecure=True)
            stub: Any = grpc._client
            stub.Export = self._timed(stub.Export)

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            began_s = time.perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                self.sent.took_ms.append((time.perf_counter() - began_s) * MS_PER_S)

        return timed

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export, and count the spans."""
        self._note_calls(spans)
        result = self.exporter.export(spans)
        ok = result is SpanExportResult.SUCCESS
        self.sent.spans += len(spans) if ok else 0
        self.sent.failed += 0 if ok else len(spans)
        return result

    def _note_calls(self, spans: Sequence[ReadableSpan]) -> None:
        now_s = time.time()
        for span in spans:
            about = span.attributes or {}
            if about.get("gen_ai.tool.name") == LOOPING_TOOL:
                task = str(about["gen_ai.conversation.id"])
                self.sent.calls_s.setdefault(task, []).append(now_s)

    def shutdown(self) -> None:
        """Shut the real one down."""
        self.exporter.shutdown()


def export(
    protocol: Protocol, address: str, spans_per_s: float, seconds: float, batch: int, sessions: int
) -> Sent:
    """Make spans at a rate and send them, at most `batch` in a request.

    The runs are those of so many sessions, by turns, or each is a session of its own if it is 0.
    """
    timed = Timed(protocol, address)
    provider = TracerProvider(shutdown_on_exit=False)
    # Nothing may be dropped in this process, or it would not be the server that is measured.
    processor = BatchSpanProcessor(timed, max_queue_size=100_000, max_export_batch_size=batch)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("load")
    began_s = time.perf_counter()
    spans = run = 0
    while (passed_s := time.perf_counter() - began_s) < seconds:
        if spans > spans_per_s * passed_s:
            time.sleep(0.005)
            continue
        session = run % sessions if sessions else run
        loops = session % LOOPS_ONE_IN == 0
        spans += run_of(tracer, f"{os.getpid()}-{session}", run, loops=loops)
        run += 1
    provider.shutdown()
    return timed.sent


def run_of(tracer: Any, session: str, run: int, *, loops: bool) -> int:
    """Let an agent work: it looks at files, or runs one failing test again and again."""
    about = {"gen_ai.conversation.id": session, "gen_ai.agent.name": "coder"}
    start = tracer.start_as_current_span
    with start("invoke_agent", attributes={**about, "gen_ai.operation.name": "invoke_agent"}):
        for number in range(CALLS_A_RUN):
            path = "tests/test_cart.py" if loops else f"src/module_{run}_{number}.py"
            answer = "Error: 1 failed" if loops else f"file {path} " + "x" * ANSWER_CHARS
            called = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": LOOPING_TOOL if loops else "read_file",
                "gen_ai.tool.call.arguments": json.dumps({"path": path}),
                "gen_ai.tool.call.result": answer,
            }
            with start("execute_tool", attributes=about | called):
                pass
    return CALLS_A_RUN + 1


def _positive(text: str) -> float:
    value = float(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def main() -> None:
    """Serve, send and compare; prints the figures, and fails where a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=_positive, default=60)
    parser.add_argument(
        "--spans-per-s", type=_positive, nargs="+", default=[2_000], help="of all exporters"
    )
    parser.add_argument(
        "--batch", type=_positive, nargs="+", default=[512], help="spans in a request"
    )
    parser.add_argument(
        "--sessions", type=int, default=0, help="of each exporter; 0 makes each run a session"
    )
    parser.add_argument("--export", nargs=2, metavar=("PROTOCOL", "ADDRESS"), help="one exporter")
    arguments = parser.parse_args()
    if arguments.export:
        rate, batch = arguments.spans_per_s[0] / len(EXPORTERS), int(arguments.batch[0])
        protocol, address = arguments.export
        sent = export(protocol, address, rate, arguments.seconds, batch, arguments.sessions)
        print(json.dumps(asdict(sent)))
        return
    all_kept = True
    for rate in arguments.spans_per_s:
        for batch in arguments.batch:
            with tempfile.TemporaryDirectory() as folder:
                figures = measured(
                    Path(folder), rate, int(batch), arguments.seconds, arguments.sessions
                )
            print(text_of(figures), flush=True)
            all_kept &= figures.is_kept
    sys.exit(0 if all_kept else 1)


def measured(
    folder: Path, spans_per_s: float, batch: int, seconds: float, sessions: int = 0
) -> Figures:
    """Run the server and the exporters; return what came of it."""
    with _receiver() as (port, heard_s):
        config = folder / "looptrace.toml"
        config.write_text(_CONFIG.format(port=port))
        command = [sys.executable, "-m", "looptrace", "serve", "--store", str(folder / "store")]
        options = ["--config", str(config), "--http-port", "0", "--grpc-port", "0"]
        secret = {"LOAD_SECRET": f"whsec_{base64.b64encode(bytes(32)).decode()}"}
        with subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, text=True, env=os.environ | secret
        ) as server:
            to, memory = server_addresses(server.stdout), [_rss_mib(server.pid)]
            exporters = _exporters(to, spans_per_s, batch, seconds, sessions)
            for _ in range(int(seconds / MEMORY_LOOK_S)):
                time.sleep(MEMORY_LOOK_S)
                memory.append(_rss_mib(server.pid))
            sent = [Sent(**json.loads(exporter.communicate()[0])) for exporter in exporters]
            behind_s = _behind(to["http"], sum(each.spans for each in sent))
            memory_end_mib = _rss_mib(server.pid)
            cpu_s, memory_max_mib = used_by(server.pid)
            server.send_signal(signal.SIGTERM)
    opened, held = _kept(folder / "store")
    took_ms = [ms for each in sent for ms in each.took_ms]
    calls_s = {task: times for each in sent for task, times in each.calls_s.items()}
    loop_s = [
        at_s - calls_s[task][turn - 1] for task, (turn, at_s) in heard_s.items() if task in calls_s
    ]
    spans = sum(each.spans for each in sent)
    *_, third, last = np.array_split(memory, 4)
    return Figures(
        spans_per_s=spans_per_s,
        batch=batch,
        acknowledged_per_s=spans / seconds,
        lost=spans - held,
        refused=sum(each.failed for each in sent),
        ack_ms=_percentiles(took_ms),
        behind_s=behind_s,
        loop_s=_percentiles(loop_s),
        loops=opened,
        webhooks=len(heard_s),
        memory_mib=(memory[0], memory[len(memory) // 2], memory_end_mib),
        memory_max_mib=memory_max_mib,
        memory_growth=float(last.mean() / third.mean()) - 1,
        seconds=seconds,
        cpu_s=cpu_s,
    )


def text_of(figures: Figures) -> str:
    """Return figures in a few lines."""
    each = figures
    return (
        f"{each.spans_per_s:,.0f} spans/s in batches of {each.batch}: "
        f"acknowledged {each.acknowledged_per_s:,.0f} a second, "
        f"p50 {each.ack_ms[0]:.1f} ms, p99 {each.ack_ms[1]:.1f} ms\n"
        f"  acknowledged and not in the store: {each.lost:,}; refused: {each.refused:,}\n"
        f"  behind at the end: rules {each.behind_s[0]:.1f} s, store {each.behind_s[1]:.1f} s\n"
        f"  from the closing call to the webhook: p50 {each.loop_s[0]:.2f} s, "
        f"p99 {each.loop_s[1]:.2f} s; gates {each.loops}, webhooks {each.webhooks}\n"
        f"  server: {each.cpu_s:.1f} s of processor time; memory "
        f"{' / '.join(map(str, each.memory_mib))} MiB, {each.memory_max_mib} at most, "
        f"the last quarter {each.memory_growth:+.1%}"
    )


def _exporters(
    to: dict[str, str], spans_per_s: float, batch: int, seconds: float, sessions: int
) -> list[subprocess.Popen[str]]:
    options = [
        *("--seconds", str(seconds)),
        *("--spans-per-s", str(spans_per_s)),
        *("--batch", str(batch)),
        *("--sessions", str(sessions)),
    ]
    module = [sys.executable, "-m", "benchmarks.load", *options, "--export"]
    return [
        subprocess.Popen([*module, kind, to[kind]], stdout=subprocess.PIPE, text=True)
        for kind in EXPORTERS
    ]


@contextmanager
def _receiver() -> Iterator[tuple[int, dict[str, tuple[int, float]]]]:
    """Receive webhooks; yield the port, and by task the turn of the gate and when it was heard."""
    heard_s: dict[str, tuple[int, float]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            now_s = time.time()
            data = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["data"]
            heard_s.setdefault(data["task"], (data["turn"], now_s))
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, heard_s
        server.shutdown()


def _kept(store_dir: Path) -> tuple[int, int]:
    """Return how many gates a store has, and how many spans, with those that the log holds."""
    writer.ingest(_logged(store_dir), store_dir)
    with reader.open_gates(store_dir) as gates:
        opened = len(gates.gates())
    return opened, sum(part.height for part in reader.read_spans(store_dir))


def _percentiles(values: Sequence[float]) -> tuple[float, float]:
    p50, p99 = np.percentile(values or [nan], [50, 99])
    return float(p50), float(p99)


def _behind(address: str, spans: int) -> tuple[float, float]:
    """Return after how many seconds the rules have run on all spans, and the store has them.

    It has them soon where somebody asks for what is made of it, as here.
    """
    began_s, took_s = time.perf_counter(), list[float]()
    for part in ("detection", "storing"):
        while True:
            if part == "storing":
                httpx.get(f"{address}/v1/gates/metrics", timeout=60)
            page = httpx.get(f"{address}/metrics", timeout=60).text
            (done,) = re.findall(rf"^looptrace_{part}_spans_total (\S+)", page, re.MULTILINE)
            if float(done) >= spans or time.perf_counter() - began_s > BEHIND_S_MAX:
                break
            time.sleep(0.2)
        took_s.append(time.perf_counter() - began_s)
    return took_s[0], took_s[1]


def _logged(store_dir: Path) -> pl.DataFrame:
    """Return what the server had acknowledged and not stored yet when it ended."""
    log = IngestLog(store_dir / LOG_FILE, 1 << 40)
    logged = log.read(0, 1 << 30)
    log.close()
    return logged.spans if logged else SPAN_SCHEMA.to_frame()


def server_addresses(said: IO[str] | None) -> dict[str, str]:
    """Read where a server that starts listens."""
    found = _ADDRESSES.search(said.readline() if said else "")
    if not found:
        sys.exit("the server did not start")
    return {"http": found[1], "grpc": found[2]}


def used_by(pid: int) -> tuple[float, int]:
    """Return the processor time in seconds and the most memory in MiB of a process."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    return cpu_s, _mib(pid, "VmHWM")


def _rss_mib(pid: int) -> int:
    return _mib(pid, "VmRSS")


def _mib(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (kib,) = re.findall(rf"{name}:\s+(\d+)", status)
    return int(kib) // 1024


if __name__ == "__main__":
    main()
