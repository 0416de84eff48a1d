"""`looptrace serve` as a process on loopback, to be sent spans, killed and asked.

`EARLY` acknowledges before anything is on disk, the control arm, which a test that looks for lost
spans must catch; `STUCK` has parts that do not end when they are closed.
"""

import asyncio
import http.client
import json
import os
import re
import signal
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import polars as pl

from looptrace.cli.main import main
from looptrace.collector.server.archiver import Archiver
from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.server.live_detector import LiveDetector
from looptrace.collector.store import reader
from tests.otlp import Trace, tool_call
from tests.paths import ROOT
from tests.reliability.forked import Forked

DEADLINE_S = 60.0
OK = 200
# A client of httpx would load the authorities, which takes longer than most requests.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
SERVE = [sys.executable, "-m", "looptrace", "serve"]
_OTHERWISE = "import sys; from tests.reliability import serving; serving.{}(sys.argv[1:])"
EARLY = ["-c", _OTHERWISE.format("acknowledge_early")]
STUCK = ["-c", _OTHERWISE.format("hang_at_the_end")]
_ADDRESSES = re.compile(r"https?://([^\s,]+)(?:.* gRPC at (\S+))?")


class Served:
    """A server that runs."""

    def __init__(
        self,
        store_dir: Path,
        *options: str,
        command: list[str] = SERVE,
        config: str = "",
        tokens: str = "",
    ) -> None:
        """Start it; the files of its settings and tokens are written beside the store."""
        self.store_dir = store_dir
        ports = ["--http-port", "0", "--grpc-port", "0"]
        arguments = ["--store", str(store_dir), *ports, *options]
        for option, text in (("--config", config), ("--token-file", tokens)):
            if text:
                path = store_dir.with_suffix(option.replace("--", "."))
                path.write_text(text, encoding="utf-8")
                arguments += [option, str(path)]
        self.process: Popen[str] | Forked
        if command == SERVE:
            self.process = Forked(["serve", *arguments])
        elif command in (EARLY, STUCK):
            self.process = Forked([*command, *arguments])
        else:
            self.process = Popen([*command, *arguments], stdout=PIPE, text=True, cwd=ROOT)
        assert self.process.stdout is not None
        with self.process.stdout as said:
            line = said.readline()
        found = _ADDRESSES.search(line)
        if not found:
            self.kill()
        assert found, line
        self.address, self.grpc = found[1], found[2]

    def send(self, request: dict[str, Any] | bytes, path: str = "/v1/traces") -> int:
        """Send an export request; returns the status, 0 where there was no answer."""
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        try:
            return self.ask("POST", path, body)[0]
        except (OSError, http.client.HTTPException):
            return 0

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        """Ask the server; returns the status and the JSON of the answer."""
        with closing(http.client.HTTPConnection(self.address, timeout=DEADLINE_S)) as connection:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")

    def gates(self, query: str = "") -> list[dict[str, Any]]:
        """Return the gates that it lists, by a query such as `status=open`."""
        status, answer = self.ask("GET", f"/v1/gates?{query}")
        assert status == OK, answer
        return list(answer["gates"])

    def resolve(self, gate_id: str, decision: str, **said: object) -> dict[str, Any]:
        """Decide on a gate; return it."""
        body = json.dumps({"decision": decision, **said}).encode()
        status, answer = self.ask("POST", f"/v1/gates/{gate_id}/resolve", body)
        assert status == OK, answer
        return dict(answer["gate"])

    def get(self, path: str) -> tuple[int, str, str]:
        """Return status, text and place of a page."""
        with closing(http.client.HTTPConnection(self.address, timeout=DEADLINE_S)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers.get("location", "")

    def page(self, path: str) -> str:
        """Return the text of a page."""
        return self.get(path)[1]

    def send_all(self, bodies: Sequence[bytes], connections: int = 16) -> None:
        """Send export requests in JSON on a few connections that are kept."""

        def send(part: Sequence[bytes]) -> None:
            with closing(http.client.HTTPConnection(self.address, timeout=DEADLINE_S)) as kept:
                for body in part:
                    kept.request("POST", "/v1/traces", body, {"Content-Type": "application/json"})
                    answer = kept.getresponse()
                    assert (answer.status, answer.read()) == (OK, b"{}")

        with ThreadPoolExecutor(connections) as senders:
            list(senders.map(send, [bodies[n::connections] for n in range(connections)]))

    def is_ready(self) -> bool:
        """Return whether all of its parts work."""
        return self.ask("GET", "/readyz")[0] == OK

    def number(self, name: str) -> float:
        """Read a number of its metrics that has no labels."""
        found = re.search(rf"^{name} (\S+)", self.page("/metrics"), re.MULTILINE)
        assert found, name
        return float(found[1])

    def has_stored(self) -> bool:
        """Return whether its log is empty; a request for tasks makes it store at once."""
        return self.ask("GET", "/v1/tasks")[0] == OK and self.number("looptrace_log_spans") == 0

    @property
    def cpu_s(self) -> float:
        """The processor time that it took so far, in seconds."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def kib(self, what: str) -> int:
        """Read a figure of its memory: VmRSS is the current value, VmHWM the peak."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("utf-8")
        return next(
            int(row.split()[1]) for row in status.splitlines() if row.startswith(f"{what}:")
        )

    def kill(self) -> None:
        """End it without a warning."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> float:
        """End it as a service manager does; returns how long that took, in seconds."""
        began_s = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(DEADLINE_S) == 0
        return time.monotonic() - began_s


@contextmanager
def served(store_dir: Path, *options: str, config: str = "", tokens: str = "") -> Iterator[Served]:
    """Serve a store, and stop in the end."""
    server = Served(store_dir, *options, config=config, tokens=tokens)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


def until(holds: Callable[[], Any], most_s: float = DEADLINE_S) -> Any:
    """Wait until something holds, and return it."""
    deadline_s = time.monotonic() + most_s
    while not (found := holds()):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    return found


def looping(
    session: str,
    calls: int,
    *,
    name: str = "",
    at: str = "2026-03-02T09:00:00+00:00",
    version: str | None = None,
) -> Trace:
    """Return a trace of an agent that makes the same failing call again and again."""
    trace = Trace(session, name=name, at=at, version=version)
    failed = {"result": "Error: 1 failed", "error": "TestError"}
    attributes = tool_call("run_tests", '{"path": "tests/test_cart.py"}', **failed)
    for _ in range(calls):
        trace.span("execute_tool run_tests", None, attributes, status="error")
    return trace


def stored(store_dir: Path) -> pl.DataFrame:
    """Return the ids of all spans of a store without a server; the log is ingested first."""
    with served(store_dir) as server:
        until(server.is_ready)
        until(server.has_stored)
    ids = [spans.select("trace_id", "span_id") for spans in reader.read_spans(store_dir)]
    return pl.concat(ids) if ids else pl.DataFrame(schema={"trace_id": str, "span_id": str})


def acknowledge_early(options: list[str]) -> None:
    """Serve, and commit when there is time."""
    accept = IngestLog.accept

    async def early(self: IngestLog, spans: pl.DataFrame) -> None:
        async def later() -> None:
            await asyncio.sleep(0.05)
            await accept(self, spans)

        _background.add(asyncio.ensure_future(later()))

    IngestLog.accept = early  # type: ignore[method-assign]
    main(["serve", *options])


def hang_at_the_end(options: list[str]) -> None:
    """Serve, with parts that wait for something that never comes, as on a machine far too busy."""
    for part in (LiveDetector, Archiver):
        part.close = lambda *_: threading.Event().wait()  # type: ignore[method-assign]
    main(["serve", *options])


_background: set[asyncio.Future[None]] = set()
