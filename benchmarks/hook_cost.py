"""Measures what a hook of a coding agent costs: `python -m benchmarks.hook_cost [--runs N]`.

A server starts on a new store, and the process of the hook is run as a program runs it: before a
call, after one, and before a call at an open gate. Shown are p50 and p99 from its start to its end,
and the processor time at p50, in milliseconds, beside a Python that does nothing.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from subprocess import PIPE, run
from tempfile import TemporaryDirectory

from looptrace.collector.coding_agents.hook.programs import HOOK_FILE
from tests.reliability.serving import Served, served, until

RUNS = 200
LOOP_CALLS = 6


class Hooks:
    """The hooks of Claude Code, with a cache of their own."""

    def __init__(self, server: Served, cache: Path) -> None:
        self._server = server
        self._environ = {**os.environ, "XDG_CACHE_HOME": str(cache)}
        self._calls = 0

    def ms(self, event: str, session: str, **more: str) -> tuple[float, float]:
        """Run the hook once; returns how long it took."""
        self._calls += 1
        call = {"session_id": session, "tool_name": "Bash", "tool_use_id": f"t{self._calls}"}
        given = json.dumps({**call, "tool_input": {"command": "pytest"}, **more}).encode()
        words = [str(HOOK_FILE), "claude-code", event, f"http://{self._server.address}", "open"]
        return ms_of(words, given, self._environ)


def ms_of(words: list[str], given: bytes, environ: dict[str, str]) -> tuple[float, float]:
    """Return how long an isolated Python takes, and its processor time."""
    began_s, used = time.perf_counter(), getrusage(RUSAGE_CHILDREN)
    run([sys.executable, "-I", "-S", *words], input=given, stdout=PIPE, env=environ, check=True)
    took_s, now = time.perf_counter() - began_s, getrusage(RUSAGE_CHILDREN)
    return 1_000 * took_s, 1_000 * (now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime)


def measure(runs: int, folder: Path) -> dict[str, list[tuple[float, float]]]:
    """Return the times of each kind of run, one after the other so that all have the same load."""
    found: dict[str, list[tuple[float, float]]] = {}
    with served(folder / "store") as server:
        hooks = Hooks(server, folder)
        for _ in range(LOOP_CALLS):
            hooks.ms("after", "looping", error="Exit code 1\nfailed")
        until(lambda: server.ask("GET", "/v1/gates")[1]["total"])
        for number in range(runs):
            for kind, ms in (
                ("Python alone", ms_of(["-c", "pass"], b"", dict(os.environ))),
                ("before a call", hooks.ms("before", f"s{number % 20}")),
                ("before a call, at a gate", hooks.ms("before", "looping")),
                ("after a call", hooks.ms("after", f"s{number % 20}", error=f"failed {number}")),
            ):
                found.setdefault(kind, []).append(ms)
    return found


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    with TemporaryDirectory() as folder:
        found = measure(parser.parse_args().runs, Path(folder))
    print("| | p50 | p99 | processor time, p50 |\n| --- | --- | --- | --- |")
    for kind, pairs in found.items():
        times, used = map(sorted, zip(*pairs, strict=True))
        p50, p99 = (times[round(share * (len(times) - 1))] for share in (0.5, 0.99))
        print(f"| {kind} | {p50:.0f} ms | {p99:.0f} ms | {used[len(used) // 2]:.0f} ms |")


if __name__ == "__main__":
    main()
