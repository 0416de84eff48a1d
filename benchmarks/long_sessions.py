"""Measures a server over long sessions: `python -m benchmarks.long_sessions [--beside CHECKOUT]`.

A few agents have worked for hours and go on. What counts is the processor time of the server while
they send a span now and then, which should depend little on how long their sessions are.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from benchmarks.live import ROOT
from benchmarks.load import CALLS_A_RUN, run_of, server_addresses, used_by

RUNS_AT_ONCE = 100
LOOK_S, PAUSE_S = 0.5, 0.05
QUEUE_MAX = 100_000
_ANY_PORT = ("--http-port", "0", "--grpc-port", "0")
_STORED = re.compile(r"^looptrace_storing_spans_total (\S+)", re.MULTILINE)


def measured(sessions: int, spans: int, spans_per_s: float, seconds: float, root: Path) -> float:
    """Return the seconds of processor time that a checkout's server takes a second."""
    with (
        TemporaryDirectory() as folder,
        subprocess.Popen(
            [sys.executable, "-m", "looptrace", "serve", "--store", f"{folder}/store", *_ANY_PORT],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(root / "src")},
        ) as server,
    ):
        address = server_addresses(server.stdout)["http"]
        provider = TracerProvider(shutdown_on_exit=False)
        exporter = OTLPSpanExporter(f"{address}/v1/traces")
        provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=QUEUE_MAX))
        tracer = provider.get_tracer("long sessions")
        runs = sessions * spans // (CALLS_A_RUN + 1)
        for run in range(runs):
            run_of(tracer, f"s{run % sessions}", run, loops=False)
            if run % RUNS_AT_ONCE == 0:
                provider.force_flush()
        provider.force_flush()
        while _stored(address) < runs * (CALLS_A_RUN + 1):
            time.sleep(LOOK_S)
        before_s, began_s, sent = used_by(server.pid)[0], time.monotonic(), 0
        while (passed_s := time.monotonic() - began_s) < seconds:
            if sent < spans_per_s * passed_s:
                sent += run_of(tracer, f"s{runs % sessions}", runs, loops=False)
                runs += 1
            time.sleep(PAUSE_S)
        after_s = used_by(server.pid)[0]
        provider.shutdown()
        server.send_signal(signal.SIGTERM)
    return (after_s - before_s) / seconds


def _stored(address: str) -> float:
    """Return how many spans are stored; whoever asks for figures has them stored soon."""
    httpx.get(f"{address}/v1/gates/metrics", timeout=60)
    found = _STORED.search(httpx.get(f"{address}/metrics", timeout=60).text)
    return float(found[1]) if found else 0.0


def main() -> None:
    """Run the benchmark, here and beside another checkout."""
    parser = argparse.ArgumentParser(description="Measure a server over long sessions.")
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--spans", type=int, default=3_000, help="of each session at the start")
    parser.add_argument("--spans-per-s", type=float, default=10, help="of all sessions, then")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="a checkout to compare")
    options = parser.parse_args()
    load = (options.sessions, options.spans, options.spans_per_s, options.seconds)
    for root in [ROOT, *([options.beside.resolve()] if options.beside else [])]:
        print(f"{measured(*load, root):.1%} of a core: {root.name}", flush=True)


if __name__ == "__main__":
    main()
