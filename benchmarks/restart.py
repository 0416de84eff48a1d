"""Measures a restart: `python -m benchmarks.restart FOLDER [--turns N]`.

The store in FOLDER, which is made unless it is there, has so many turns of the last hours. A server
starts on it, and two loops are sent to it: one that begins then, and one whose first turns are in
the store. Shown are the seconds from the start of listening until each is gated, and the processor
time that the server took in them.
"""

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory
from urllib.parse import quote
from urllib.request import Request, urlopen

import polars as pl

from benchmarks.span_shapes import requests
from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.settings.sections import default
from looptrace.collector.files.reader import read_spans
from looptrace.collector.otlp.json import decode_request
from looptrace.collector.otlp.span_rows import DecodingBounds
from looptrace.collector.otlp.span_table import joined_table
from looptrace.collector.store.writer import writing
from looptrace.rules.vocabulary import NS_PER_S

TURNS = 1_000_000
PART_SPANS = 100_000
AGE_S = 4 * 3_600  # of the oldest turns
STARTED = 2  # calls of the loop that the store has
CALLS = 6
DEADLINE_S = 120
_BOUNDS = DecodingBounds(99, 1 << 20)
_ADDRESS = re.compile(r"http://[^\s,]+")


def make_store(folder: Path, turns: int) -> None:
    """Ingest sessions of the last hours, and the beginnings of one loop for each measurement."""
    with SpanSpool() as spool, writing(folder, default().policy) as writer:
        for seed in range(max(1, turns // PART_SPANS)):
            spool.add(_part(seed))
        loops = [_loop(f"before-{number}", 0, STARTED) for number in range(64)]
        for body in loops:
            spool.add(joined_table([decode_request(body, _BOUNDS).spans or ()]))
        writer.ingest(spool)


def _part(seed: int) -> pl.DataFrame:
    """Return sessions that are spread over the last hours."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "spans.pb")
        path.write_bytes(b"".join(requests("short", PART_SPANS, seed)))
        spans = read_spans([str(path)]).spans
    trace = pl.col("trace_id").rank("dense").cast(pl.Int64)
    oldest_ns = time.time_ns() - AGE_S * NS_PER_S
    began_ns = oldest_ns + trace * (AGE_S * NS_PER_S // (PART_SPANS // 33)) * 9 // 10
    moved_ns = began_ns - pl.col("start_ns").min().over("trace_id")
    return spans.with_columns(
        pl.col("attributes").str.replace_all("session-", f"session-{seed}-"),
        trace_id=pl.lit(f"{seed:08x}") + pl.col("trace_id").str.slice(8),
        start_ns=pl.col("start_ns") + moved_ns,
        end_ns=pl.col("end_ns") + moved_ns,
    )


def _loop(session: str, begin: int, end: int) -> bytes:
    """Return a request with some of the failing calls of a session, a second apart, until now."""
    trace_id = session.encode().hex().ljust(32, "0")[-32:]
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "run_tests",
        "gen_ai.conversation.id": session,
        "gen_ai.tool.call.arguments": '{"path": "tests/test_cart.py"}',
        "gen_ai.tool.call.result": "Error: 1 failed",
        "error.type": "TestError",
    }
    spans = [
        {
            "traceId": trace_id,
            "spanId": f"{call + 1:016x}",
            "name": "execute_tool run_tests",
            "startTimeUnixNano": str(time.time_ns() - (end - call) * NS_PER_S),
            "endTimeUnixNano": str(time.time_ns() - (end - call) * NS_PER_S + 1),
            "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()],
            "status": {"code": 2},
        }
        for call in range(begin, end)
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def measured(folder: Path, session: str, begin: int) -> tuple[float, float]:
    """Start a server and send it a loop; return the seconds, and those of the processor."""
    ports = ["--http-port", "0", "--no-grpc"]
    command = [sys.executable, "-m", "looptrace", "serve", "--store", str(folder), *ports]
    with Popen(command, stdout=PIPE, text=True) as server:
        try:
            found = _ADDRESS.search(server.stdout.readline()) if server.stdout else None
            if found is None:
                raise SystemExit("the server does not start")
            began_s, cpu_s = time.monotonic(), _cpu_s(server.pid)
            body, headers = _loop(session, begin, CALLS), {"Content-Type": "application/json"}
            urlopen(Request(f"{found[0]}/v1/traces", body, headers)).close()  # noqa: S310
            while not _gates(found[0], session):
                if time.monotonic() - began_s > DEADLINE_S:
                    raise SystemExit(f"no gate after {DEADLINE_S} s")
                time.sleep(0.02)
            return time.monotonic() - began_s, _cpu_s(server.pid) - cpu_s
        finally:
            server.terminate()


def _cpu_s(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def _gates(address: str, session: str) -> list[object]:
    with urlopen(f"{address}/v1/gates?task={quote(session)}") as answer:  # noqa: S310
        return list(json.load(answer)["gates"])


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Measure a restart.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the store; made if absent")
    parser.add_argument("--turns", type=int, default=TURNS, metavar="N")
    options = parser.parse_args()
    if not options.folder.exists():
        make_store(options.folder, options.turns)
    mark = f"{time.time_ns():x}"
    print("the loop began        seconds  of the processor")
    for name, session, begin in (
        ("after the start", f"after-{mark}", 0),
        ("before the start", _unused(options.folder), STARTED),
    ):
        took_s, cpu_s = measured(options.folder, session, begin)
        print(f"{name:<20}{took_s:>9.1f}{cpu_s:>18.1f}")
    return 0


def _unused(folder: Path) -> str:
    """Return a started loop of the store that has no gate yet."""
    from looptrace.collector.store import reader  # noqa: PLC0415

    with reader.open_gates(folder) as gates:
        gated = {gate.task for gate in gates.gates()}
    return next(name for n in range(64) if (name := f"before-{n}") not in gated)


if __name__ == "__main__":
    sys.exit(main())
