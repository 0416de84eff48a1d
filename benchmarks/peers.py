"""Other detectors of loops, with the defaults of their authors, behind one interface.

Each gets the input that its user would give it: the calls of a run in order, with arguments and
results. A request to another agent is a call of that agent. A detector flags the call at which it
alerts, with the equal calls right before it, or at least the one before it. A detector that halts a
run is restarted and continues.
"""

import contextlib
import io
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from itertools import groupby
from typing import Any

import polars as pl
from rapidfuzz.distance import Levenshtein

from benchmarks.labelled import Detector, Flags, Loop, Runs

_CALLS = ("tool", "handoff")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a run, as seen by a detector in the agent's process."""

    step: int
    tool: str
    arguments: dict[str, Any]
    result: str


Alerts = Callable[[Sequence[Call]], Iterator[int]]


def _agent_watchdog(calls: Sequence[Call]) -> Iterator[int]:
    """Yield the places at which agent-watchdog halts; its clock is off, as a replay takes none."""
    module: Any = import_module("agent_watchdog")
    place = 0
    while place < len(calls):
        watchdog = module.AgentWatchdog(timeout_seconds=None)
        try:
            with contextlib.redirect_stdout(io.StringIO()), watchdog.watch():
                while place < len(calls):
                    call = calls[place]
                    place += 1
                    watchdog.record_tool_call(call.tool, call.arguments, call.result)
        except import_module("agent_watchdog.watchdog").WatchdogHalt:
            yield place - 1


def _agentbelt(calls: Sequence[Call]) -> Iterator[int]:
    """Yield the places at which agentbelt-loop finds a loop; it goes on by itself."""
    module: Any = import_module("agentbelt_loop")
    detector = module.LoopDetector()
    for place, call in enumerate(calls):
        detector.record("run", tool=call.tool, args=call.arguments, result=call.result)
        try:
            detector.check("run")
        except module.LoopDetected:
            yield place


def _agent_loop_guard(calls: Sequence[Call]) -> Iterator[int]:
    """Yield the places at which agent-loop-guard returns stop or escalate.

    Its distance between texts is computed by RapidFuzz, which gives the same numbers in time.
    """
    similarity: Any = import_module("loop_guard.similarity")
    similarity.normalized_edit_distance = Levenshtein.normalized_distance
    guard = import_module("loop_guard").LoopGuard()
    for place, call in enumerate(calls):
        if guard.check(call.tool, call.arguments, call.result).is_loop:
            yield place


def _loopguard_runtime(calls: Sequence[Call]) -> Iterator[int]:
    """Yield the places at which the policy of loopguard-runtime says stop."""
    module: Any = import_module("loopguard.ingest")
    stop = import_module("loopguard.signals").GuardAction.STOP
    steps = [{"tool": c.tool, "args": c.arguments, "output": c.result} for c in calls]
    # Each step is observed twice, as a decision and as its result.
    decisions = module.analyze_trace({"steps": steps}).decisions
    for place in range(len(calls)):
        if any(decision.action == stop for decision in decisions[2 * place : 2 * place + 2]):
            yield place


def _agent_loop_detector(calls: Sequence[Call]) -> Iterator[int]:
    """Yield the places at which agent-loop-detector finds an output like those before it.

    Its outputs are what an agent writes, which is the call.
    """
    detector = import_module("agent_loop_detector").LoopDetector()
    for place, call in enumerate(calls):
        if detector.check(f"{call.tool}({json.dumps(call.arguments)})"):
            yield place


def _unwedge(calls: Sequence[Call]) -> Iterator[int]:
    """Yield the places at which unwedge gives a hint or asks for a person, by its code alone.

    A call with one text is a command of a shell; else the command is the tool and its arguments.
    """
    guard = import_module("unwedge").Guard(goal="", provider=None)
    action = import_module("unwedge").Action
    turn_of = import_module("unwedge.adapters.generic").turn_from_command
    for place, call in enumerate(calls):
        texts = [*call.arguments.values()]
        is_command = len(texts) == 1 and isinstance(texts[0], str)
        command = texts[0] if is_command else f"{call.tool} {json.dumps(call.arguments)}"
        done = guard.on_turn(turn_of(place + 1, command, call.result))
        if done.decision.action in (action.HINT, action.ESCALATE, action.KILL):
            yield place


PEERS: dict[str, Alerts] = {
    "agent-loop-detector": _agent_loop_detector,
    "agent-loop-guard": _agent_loop_guard,
    "agent-watchdog": _agent_watchdog,
    "agentbelt-loop": _agentbelt,
    "loopguard-runtime": _loopguard_runtime,
    "unwedge": _unwedge,
}


def installed() -> tuple[dict[str, Detector], list[str]]:
    """Return the detectors that are installed, by name and version, and the names of the others."""
    found: dict[str, Detector] = {}
    absent = []
    for name, alerts in PEERS.items():
        try:
            found[f"{name} {metadata.version(name)}"] = _detector(alerts)
        except metadata.PackageNotFoundError:
            absent.append(name)
    return found, absent


def _detector(alerts: Alerts) -> Detector:
    def detect(runs: Runs) -> Flags:
        flags: dict[str, list[Loop]] = {}
        for session, calls in _sessions(runs):
            if loops := [_loop(calls, place) for place in alerts(calls)]:
                flags[session] = loops
        return flags

    return detect


def turns_per_s(turns: pl.DataFrame) -> dict[str, float]:
    """Return how many turns each installed detector takes a CPU second, with ready calls."""
    sessions = [calls for _, calls in _sessions(Runs("", turns, {}, ()))]
    speeds: dict[str, float] = {}
    for name, alerts in PEERS.items():
        with contextlib.suppress(metadata.PackageNotFoundError):
            titled = f"{name} {metadata.version(name)}"
            began_s = time.process_time()
            for calls in sessions:
                deque(alerts(calls), maxlen=0)
            speeds[titled] = sum(map(len, sessions)) / (time.process_time() - began_s)
    return speeds


def _loop(calls: Sequence[Call], place: int) -> Loop:
    """Return the calls of an alert."""
    begin = place
    while begin > 0 and _same(calls[begin - 1], calls[place]):
        begin -= 1
    begin = max(min(begin, place - 1), 0)
    return Loop([call.step for call in calls[begin : place + 1]])


def _same(call: Call, other: Call) -> bool:
    return call.tool == other.tool and call.arguments == other.arguments


def _sessions(runs: Runs) -> Iterator[tuple[str, list[Call]]]:
    turns = runs.turns.filter(pl.col("kind").is_in(_CALLS)).sort(
        "session", "order_ns", maintain_order=True
    )
    for session, rows in groupby(turns.iter_rows(named=True), lambda row: str(row["session"])):
        yield session, [_call(runs, row) for row in rows]


def _call(runs: Runs, row: dict[str, Any]) -> Call:
    step = runs.steps.get((row["trace_id"], row["span_id"]), row["turn"])
    return Call(step, row["name"] or "", _arguments(row["arguments"]), _result(row))


def _result(row: dict[str, Any]) -> str:
    return str((row["error"] if row["failed"] else None) or row["result"] or "")


def _arguments(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = text
    return value if isinstance(value, dict) else {"value": value}
