"""A server under load: four real exporters, a steady stream of spans, nothing lost.

Each exporter is a process of its own that makes spans of agents at a steady rate, and times how
long the server takes to acknowledge each request. In the end the store is compared with what was
acknowledged.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Literal

import httpx
import numpy as np
import polars as pl
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.server.ingest_log import FILE_NAME, IngestLog
from looptrace.collector.store import reader, writer

Protocol = Literal["http", "grpc"]

EXPORTERS: tuple[Protocol, ...] = ("http", "http", "grpc", "grpc")
# Of the spans of one run of an agent: one of the agent, and these of its calls.
CALLS_A_RUN = 24
# One agent of so many makes the same failing call again and again.
LOOPS_ONE_IN = 20
ANSWER_CHARS = 600
MS_PER_S = 1_000
# Of a server that is further behind it is enough to know that.
BEHIND_S_MAX = 60
_ADDRESSES = re.compile(r"(http://\S+), OTLP over gRPC at (\S+)")


@dataclass(frozen=True, slots=True)
class Sent:
    """What one exporter did: spans acknowledged and failed, and how long each request took."""

    spans: int
    failed: int
    took_ms: list[float]


class Timed(SpanExporter):
    """A real exporter, timed."""

    def __init__(self, exporter: SpanExporter) -> None:
        self.exporter = exporter
        self.sent = Sent(0, 0, [])

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export and take the time, without that in which the exporter encodes spans."""
        began_s = time.perf_counter()
        encode_spans(spans)
        encoded_s = time.perf_counter()
        result = self.exporter.export(spans)
        took_ms = (time.perf_counter() - 2 * encoded_s + began_s) * MS_PER_S
        ok = result is SpanExportResult.SUCCESS
        self.sent = Sent(
            self.sent.spans + (len(spans) if ok else 0),
            self.sent.failed + (0 if ok else len(spans)),
            [*self.sent.took_ms, took_ms],
        )
        return result

    def shutdown(self) -> None:
        """Shut the real one down."""
        self.exporter.shutdown()


def export(
    protocol: Protocol, address: str, spans_per_s: float, seconds: float, batch: int
) -> Sent:
    """Make spans at a rate and send them, at most `batch` in a request."""
    real = Http(address + "/v1/traces") if protocol == "http" else Grpc(address, insecure=True)
    timed = Timed(real)
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
        spans += _run(tracer, f"{os.getpid()}-{run}", loops=run % LOOPS_ONE_IN == 0)
        run += 1
    provider.shutdown()
    return timed.sent


def _run(tracer: Any, session: str, *, loops: bool) -> int:
    """Let an agent work: it looks at files, or runs one failing test again and again."""
    about = {"gen_ai.conversation.id": session, "gen_ai.agent.name": "coder"}
    start = tracer.start_as_current_span
    with start("invoke_agent", attributes={**about, "gen_ai.operation.name": "invoke_agent"}):
        for number in range(CALLS_A_RUN):
            path = "tests/test_cart.py" if loops else f"src/module_{number}.py"
            answer = "Error: 1 failed" if loops else f"file {number} " + "x" * ANSWER_CHARS
            called = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "run_tests" if loops else "read_file",
                "gen_ai.tool.call.arguments": json.dumps({"path": path}),
                "gen_ai.tool.call.result": answer,
            }
            with start("execute_tool", attributes=about | called):
                pass
    return CALLS_A_RUN + 1


def main() -> None:
    """Serve, send and compare; prints the figures, and fails where a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--spans-per-s", type=float, default=2_000, help="of all exporters")
    parser.add_argument("--batch", type=int, default=512, help="spans in a request")
    parser.add_argument("--export", nargs=2, metavar=("PROTOCOL", "ADDRESS"), help="one exporter")
    arguments = parser.parse_args()
    if arguments.export:
        rate = arguments.spans_per_s / len(EXPORTERS)
        protocol, address = arguments.export
        sent = export(protocol, address, rate, arguments.seconds, arguments.batch)
        print(json.dumps(asdict(sent)))
        return
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(0 if measure(Path(folder) / "store", arguments) else 1)


def measure(store_dir: Path, arguments: argparse.Namespace) -> bool:
    """Run the server and the exporters; says whether the promises were kept."""
    command = [sys.executable, "-m", "looptrace", "serve", "--store", str(store_dir)]
    ports = ["--http-port", "0", "--grpc-port", "0"]
    with subprocess.Popen([*command, *ports], stdout=subprocess.PIPE, text=True) as server:
        to = _addresses(server.stdout)
        options = [
            *("--seconds", str(arguments.seconds)),
            *("--spans-per-s", str(arguments.spans_per_s)),
            *("--batch", str(arguments.batch)),
        ]
        module = [sys.executable, "-m", "benchmarks.load", *options, "--export"]
        exporters = [
            subprocess.Popen([*module, kind, to[kind]], stdout=subprocess.PIPE, text=True)
            for kind in EXPORTERS
        ]
        sent = [Sent(**json.loads(exporter.communicate()[0])) for exporter in exporters]
        behind_s = _behind(to["http"], sum(each.spans for each in sent))
        used = _used(server.pid)
        server.send_signal(signal.SIGTERM)
    print(f"behind at the end: rules {behind_s[0]:.1f} s, store {behind_s[1]:.1f} s")
    writer.ingest(_logged(store_dir), store_dir)
    return report(store_dir, sent, used, arguments.seconds)


def report(store_dir: Path, sent: list[Sent], used: tuple[float, float], seconds: float) -> bool:
    """Print the figures, and say whether nothing was lost and answers were quick."""
    took_ms = np.array([ms for each in sent for ms in each.took_ms])
    spans = sum(each.spans for each in sent)
    failed = sum(each.failed for each in sent)
    held = sum(part.height for part in reader.read_spans(store_dir))
    with reader.open_gates(store_dir) as gates:
        opened = len(gates.gates())
    p50, p99 = np.percentile(took_ms, [50, 99])
    print(f"{spans:,} spans acknowledged in {seconds:.0f} s: {spans / seconds:,.0f} a second")
    print(f"acknowledged and not in the store: {spans - held:,}; refused: {failed:,}")
    print(f"acknowledgement of {took_ms.size:,} requests: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    print(f"server: {used[0]:.1f} s of processor time, {used[1]:.0f} MiB at most; gates {opened}")
    return spans == held and not failed and p99 < 100


def _behind(address: str, spans: int) -> tuple[float, float]:
    """Return after how many seconds the rules have run on all spans, and the store has them."""
    began_s, took_s = time.perf_counter(), list[float]()
    for part in ("detection", "storing"):
        while True:
            page = httpx.get(f"{address}/metrics", timeout=60).text
            (done,) = re.findall(rf"^looptrace_{part}_spans_total (\S+)", page, re.MULTILINE)
            if float(done) >= spans or time.perf_counter() - began_s > BEHIND_S_MAX:
                break
            time.sleep(0.2)
        took_s.append(time.perf_counter() - began_s)
    return took_s[0], took_s[1]


def _logged(store_dir: Path) -> pl.DataFrame:
    """Return what the server had acknowledged and not stored yet when it ended."""
    log = IngestLog(store_dir / FILE_NAME, 1 << 40)
    logged = log.read(0, 1 << 30)
    log.close()
    return logged.spans if logged else SPAN_SCHEMA.to_frame()


def _addresses(said: IO[str] | None) -> dict[str, str]:
    """Read where a server that starts listens."""
    found = _ADDRESSES.search(said.readline() if said else "")
    if not found:
        sys.exit("the server did not start")
    return {"http": found[1], "grpc": found[2]}


def _used(pid: int) -> tuple[float, float]:
    """Return the processor time in seconds and the most memory in MiB of a process."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    status = Path(f"/proc/{pid}/status").read_text()
    (peak,) = re.findall(r"VmHWM:\s+(\d+)", status)
    return cpu_s, int(peak) / 1024


if __name__ == "__main__":
    main()
