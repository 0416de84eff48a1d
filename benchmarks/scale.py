"""More than one machine, on one: Ray, S3 and three servers, killed at random by a seed.

Their findings are compared byte by byte with those of one process and one server without kills, and
the time of a cluster of 1, 2 and 4 workers with that of one process. Ray listens on all addresses
and runs any code that it receives, so that everything runs in its own network and process
namespace.
"""

import argparse
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from benchmarks.objects import on_objects
from looptrace.collector.files.reader import read_spans
from looptrace.collector.store import writer
from tests.otlp import Trace
from tests.reliability.sharding import (
    Outage,
    Request,
    clustered,
    outcome,
    outcome_of_one,
    send,
)

UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--pid", "--mount", "--fork")
OWN = (*UNSHARE, "--kill-child", "--mount-proc")
WORKERS = (1, 2, 4)
TURNS_A_SESSION = 32
# One of this many sessions calls the same failing tool from some turn on.
LOOPS_ONE_IN = 8
# A task is tried four times; a run with fewer kills cannot use them up.
KILLS_MAX = 3
METER_EVERY_S = 0.05
# Not those of the ingest, whose findings are in the store: the rules run on every turn.
OTHER_SETTINGS = 'profile = "conservative"\n'
STORED_AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
ROUNDS, OUTAGES = 8, 2
FAILURES = 0.1
SESSIONS_A_REQUEST = 4
_IP = ("ip",)
_RAY = [sys.executable, "-m", "ray.scripts.scripts"]
_OBJECTS_BYTES = 80_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """A report, its cost in time, and the number of workers killed meanwhile."""

    report: bytes
    seconds: float
    processor_s: float  # of all processes, those of the cluster included
    load: float  # the machine's average of a minute, at the end
    killed: int


def sessions(turns: int, seed: int, at: datetime = STORED_AT) -> Iterator[list[Request]]:
    """Yield sessions of about this many turns in all from a time on, one request per span."""
    chance = random.Random(seed)
    for number in range(turns // TURNS_A_SESSION):
        loops_from = chance.randrange(TURNS_A_SESSION) if number % LOOPS_ONE_IN == 0 else None
        trace = Trace(f"session-{number}", service=f"agent-{number % 10}", at=at.isoformat())
        for turn in range(TURNS_A_SESSION):
            is_looping = loops_from is not None and turn >= loops_from
            path = "a.py" if is_looping else f"{chance.randrange(10**6)}.py"
            failed = is_looping or chance.random() < FAILURES
            trace.span(
                "execute_tool read",
                attributes={
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "read",
                    "gen_ai.tool.call.arguments": f'{{"path": "{path}"}}',
                    "gen_ai.tool.call.result": f"no {path}" if failed else f"read {path}",
                },
                status="error" if failed else "ok",
                message=f"FileNotFoundError: {path}" if failed else "",
            )
        yield list(trace.requests())


def stored(folder: Path, turns: int, seed: int) -> tuple[Path, Path]:
    """Return a file of traces of about this many turns, and a store of them."""
    traces, store = folder / "traces.jsonl", folder / "store"
    with traces.open("w", encoding="utf-8") as file:
        for session in sessions(turns, seed):
            file.write(f"{json.dumps(joined(session))}\n")
    writer.ingest(read_spans([str(traces)]).spans, store)
    return traces, store


def joined(parts: Sequence[Request]) -> Request:
    """Return one request with all spans."""
    return {"resourceSpans": [each for part in parts for each in part["resourceSpans"]]}


def analyze(store: Path, *options: str, kills: random.Random | None = None) -> Run:
    """Run `looptrace analyze` on a store, while workers are killed if there is a seed."""
    command = [sys.executable, "-m", "looptrace", "analyze", str(store), "--format", "json"]
    began_s, meter = time.monotonic(), Meter()
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        killer = Killer(kills) if kills else None
        report, errors = running.communicate()
        seconds, processor_s = time.monotonic() - began_s, meter.end()
        killed = killer.end() if killer else 0
    if running.returncode not in (0, 1):
        raise SystemExit(errors.decode())
    return Run(report, seconds, processor_s, os.getloadavg()[0], killed)


class Killer:
    """A thread that kills working workers of Ray at random moments."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._over = threading.Event()
        self._killed = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> int:
        """End, and return the number of killed workers."""
        self._over.set()
        self._thread.join()
        return self._killed

    def _run(self) -> None:
        while self._killed < KILLS_MAX and not self._over.wait(self._chance.uniform(0.1, 1.0)):
            if at_work := workers_at_work():
                os.kill(self._chance.choice(at_work), signal.SIGKILL)
                self._killed += 1


class Meter:
    """A thread that sums the processor time of all processes of this network.

    It looks often, because nobody is told the time of a worker of Ray that ended.
    """

    def __init__(self) -> None:
        self._before = ticks()
        self._last = dict(self._before)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> float:
        """End, and return the time since the beginning, in seconds."""
        self._over.set()
        self._thread.join()
        used = (last - self._before.get(process, 0) for process, last in self._last.items())
        return sum(used) / os.sysconf("SC_CLK_TCK")

    def _run(self) -> None:
        while not self._over.wait(METER_EVERY_S):
            self._last |= ticks()


def ticks() -> dict[tuple[str, str], int]:
    """Return the processor time of each process, by its number and its start, in ticks."""
    times = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The fields after the name, which is in parentheses and may have spaces.
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue  # It ended meanwhile.
        times[path.parent.name, fields[19]] = int(fields[11]) + int(fields[12])
    return times


def workers_at_work() -> list[int]:
    """Return the processes of Ray that now work on a task of looptrace."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::_result"):
                found.append(int(path.parent.name))
        except OSError:
            continue  # It ended meanwhile.
    return found


@contextmanager
def cluster_of(workers: int) -> Iterator[None]:
    """Run a Ray cluster of nodes with one worker each, the first of which is the head."""
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        head = ["--head", "--port=6379", "--include-dashboard=false", f"--temp-dir={folder}"]
        for node in range(workers):
            where = head if node == 0 else ["--address=127.0.0.1:6379"]
            size = ["--num-cpus=1", f"--object-store-memory={_OBJECTS_BYTES}"]
            ray("start", *where, *size, "--disable-usage-stats")
        try:
            yield
        finally:
            ray("stop", "--force")


def ray(*arguments: str) -> None:
    """Run Ray's own command."""
    done = subprocess.run([*_RAY, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)


def batch(store: Path, turns: int, seed: int) -> bool:
    """Print the time of each engine; return whether all reports are the same."""
    settings = store.with_name("other.toml")
    settings.write_text(OTHER_SETTINGS, encoding="utf-8")
    analyzed = partial(analyze, store, "--config", str(settings))
    alone = analyzed("--jobs", "1")
    print(f"{turns:,} turns, {len(alone.report):,} bytes of report")
    print("| engine | workers | seconds | speed-up | of a processor | more | load | kills | same |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |")
    row("one process", 1, alone, alone, "")
    same = True
    for workers in WORKERS:
        with cluster_of(workers):
            quiet = analyzed("--engine", "ray")
            killed = analyzed("--engine", "ray", kills=random.Random(seed + workers))
        same &= killed.report == alone.report
        kills = f"{killed.killed} in {killed.seconds:.1f} s, same: {killed.report == alone.report}"
        same &= row("Ray", workers, quiet, alone, kills)
    return same


def row(engine: str, workers: int, run: Run, alone: Run, kills: str) -> bool:
    """Print a run beside that of one process; return whether its report is the same."""
    is_same = run.report == alone.report
    print(
        f"| {engine} | {workers} | {run.seconds:.1f} | {alone.seconds / run.seconds:.2f} "
        f"| {run.processor_s:.1f} | {run.processor_s - alone.processor_s:.1f} | {run.load:.1f} "
        f"| {kills} | {'yes' if is_same else 'NO'} |",
        flush=True,
    )
    return is_same


def rounds_of(turns: int, seed: int) -> list[list[Request]]:
    """Return the spans of sessions in rounds of their next spans, several in a request."""
    # Now: a server that starts looks back on the tasks of a day.
    every = list(sessions(turns, seed, datetime.now(UTC) - timedelta(minutes=1)))
    size = -(-TURNS_A_SESSION // ROUNDS)
    return [
        [
            joined([part for each in every[at : at + SESSIONS_A_REQUEST] for part in each[span]])
            for at in range(0, len(every), SESSIONS_A_REQUEST)
        ]
        for span in (slice(at, at + size) for at in range(0, TURNS_A_SESSION, size))
    ]


def live(folder: Path, turns: int, seed: int) -> bool:
    """Print the results of three servers with kills; return whether one server has the same."""
    sent = rounds_of(turns, seed)
    chance = random.Random(seed)
    half = len(sent) // OUTAGES
    outages = [
        Outage.drawn(chance, range(number * half, (number + 1) * half)) for number in range(OUTAGES)
    ]
    for name in ("one", "three"):
        (folder / name).mkdir()
    began_s = time.monotonic()
    alone = outcome_of_one(folder / "one", sent)
    one_s = time.monotonic() - began_s
    with clustered(folder / "three") as servers:
        began_s = time.monotonic()
        send(servers, sent, outages)
        forwarded = servers.sum("looptrace_shards_sent_total")
        servers.settle()
        three = outcome(servers.stores)
    three_s = time.monotonic() - began_s
    print(
        f"\n{turns:,} turns to three servers by turns: {len(three.spans):,} spans, "
        f"{len(three.findings):,} findings, {len(three.events):,} events, {len(three.gates):,} "
        f"gates; {2 * OUTAGES} kills, {forwarded:,.0f} spans forwarded since the last one; "
        f"{three_s:.0f} s, one server without kills {one_s:.0f} s"
    )
    for part in ("spans", "findings", "events", "gates"):
        ours, others = Counter(getattr(three, part)), Counter(getattr(alone, part))
        missing, more = (others - ours).total(), (ours - others).total()
        print(f"{part}: {missing} missing, {more} more than of one server")
    return three == alone


def main() -> int:
    """Run all of it, in a network of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200_000, help="turns of the store")
    parser.add_argument("--live-turns", type=int, default=6_400, help="turns sent to the servers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.inside:
        again = [sys.executable, "-m", "benchmarks.scale", *sys.argv[1:], "--inside"]
        return subprocess.run([*OWN, *again], check=False).returncode
    subprocess.run([*_IP, "link", "set", "lo", "up"], check=True)
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with tempfile.TemporaryDirectory() as folder:
        same = True
        if given.turns:
            traces, store = stored(Path(folder), given.turns, given.seed)
            same &= on_objects(Path(folder), traces, store, given.seed, partial(cluster_of, 2))
            same &= batch(store, given.turns, given.seed)
        same &= live(Path(folder), given.live_turns, given.seed) if given.live_turns else True
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
