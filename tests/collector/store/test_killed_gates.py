"""Decisions and events of processes that are killed are there together or not at all."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.fingerprint.equivalence import NOTHING
from looptrace.analyzer.gates.decisions import GateError
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.resolutions import resolution_turns
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.schema.turns import numbered
from looptrace.analyzer.text.digests import digest
from looptrace.collector.store import writer
from looptrace.collector.store.gates import GateStore
from tests.collector.store.recorded_gates import (
    HOOKS,
    NOW_NS,
    SAME_RESPONSE,
    assert_sound,
    content,
    turns_of,
)
from tests.collector.store.stored import looping, spans_of
from tests.collector.store.test_gates import requirement
from tests.reliability.forked import Forked

TASKS = 25


KILLS = 50


STEPS_MAX = 4


INGEST_KILLS = 3


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL.")


@dataclass(frozen=True)
class Step:
    """One step of a store: the rules run on turns, or a person decides."""

    events: tuple[GateEvent, ...] = ()
    states: tuple[TaskState, ...] = ()
    gate: str = ""
    at_ns: int = 0

    def take(self, gates: GateStore) -> None:
        """Take the step; the finished part of a killed process stays."""
        if self.gate:
            with suppress(GateError):
                gates.resolve(self.gate, "continue", "Ask the user.", self.at_ns)
        else:
            gates.record(self.events, self.states, NOW_NS)


class PivotFirst(GateStore):
    """Writes a pivot in a transaction of its own, before the decision: the control arm."""

    def record(self, events: Any, *args: Any, **options: Any) -> list[GateEvent]:
        """Record in the wrong order."""
        events = list(events)
        with closing(sqlite3.connect(self.path)) as sql, sql:
            known = {event for (event,) in sql.execute("SELECT id FROM events")}
            for event in events:
                if event.type == "pivot_issued" and event.id not in known:
                    row = (event.id, event.task, event.pivots, event.attempts, event.at_ns)
                    sql.execute("INSERT OR IGNORE INTO pivots VALUES (?, ?, ?, ?, ?)", row)
        return super().record(events, *args, **options)

    def _add(self, event: GateEvent, *args: Any) -> bool:
        own = "DELETE FROM pivots WHERE event = ? AND event NOT IN (SELECT id FROM events)"
        self._sql.execute(own, [event.id])
        return super()._add(event, *args)


# Forks a child for each line that it reads. The child prints its process id, takes as many steps as
# the line says, from the last one that was begun, prints each, and waits. Beginning a step is noted
# first, as an ingest stores spans before it judges them.
ZYGOTE = """
import os, signal, sys
import msgspec
from pathlib import Path
from tests.collector.store import test_killed_gates as tests
path, steps, kind = sys.argv[1:]
path, note = Path(path), Path(path + ".step")
steps = msgspec.json.decode(Path(steps).read_bytes(), type=list[tests.Step])

def tell(text):
    os.write(1, f"{text}\\n".encode())

def work(count):
    tell(os.getpid())
    with getattr(tests, kind).open(path, tests.HOOKS) as gates:
        begun = int(note.read_text()) if note.exists() else 0
        for number in range(begun, len(steps)):
            if number == begun + count:
                signal.pause()
            aside = note.with_suffix(".tmp")
            aside.write_text(str(number))
            aside.replace(note)
            steps[number].take(gates)
            tell("step")

for line in sys.stdin:
    child = os.fork()
    if not child:
        work(int(line))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    tell("over")
    tell("killed" if os.WIFSIGNALED(status) else "ended")
"""


def judged_tasks(turns: pl.DataFrame) -> Iterator[Step]:
    """Judge the turns of several tasks together, and give a step for each."""
    judged = detect(turns)
    for state in judged.states:
        told = tuple(event for event in judged.events if event.task == state.task)
        yield Step(told, (state,))


def prepared(folder: Path) -> list[Step]:
    """Return the steps of tasks that pivot twice, are gated, resolved, and do so once more."""
    names = [f"task-{n:02}" for n in range(TASKS)]
    turns = pl.concat([turns_of(f"{SAME_RESPONSE} x18", name) for name in names])

    def until(count: int) -> list[Step]:
        return list(judged_tasks(numbered(turns.filter(pl.col("turn") <= count))))

    rounds = [until(3), until(6), until(9)]
    with GateStore.open(folder / "decided.db") as decided:
        for step in rounds[-1]:
            step.take(decided)
        at_ns = int(turns.filter(turn=9)["end_ns"][0]) + 1
        rounds.append([Step(gate=g.id, at_ns=at_ns) for g in decided.gates()])
        for step in rounds[-1]:
            step.take(decided)
        turns = numbered(pl.concat([turns, resolution_turns(decided.resolutions(), NOTHING)]))
    rounds += [until(12), until(15), until(18)]
    by_task: dict[str, list[Step]] = {name: [] for name in names}
    tasks = {step.gate: event.task for step in rounds[3] for event in _opening(rounds[2], step)}
    for step in (step for steps in rounds for step in steps):
        by_task[tasks[step.gate] if step.gate else step.states[0].task].append(step)
    order = [name for name in names for _ in by_task[name]]
    random.Random(1).shuffle(order)
    return [by_task[name].pop(0) for name in order]


def _opening(steps: list[Step], resolving: Step) -> Iterator[GateEvent]:
    return (e for step in steps for e in step.events if e.gate == resolving.gate)


@contextmanager
def victim(path: Path, steps: Path, kind: str) -> Iterator[Callable[[int, int, float], bool]]:
    """Return a function that runs steps in a child and kills it; False where it ended."""
    command = [sys.executable, "-c", ZYGOTE, str(path), str(steps), kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        said, told = process.stdin, process.stdout
        assert said is not None
        assert told is not None

        def killed(count: int, seen: int, wait_s: float) -> bool:
            said.write(f"{count}\n".encode())
            said.flush()
            child, line = int(told.readline()), b""
            while seen and line != b"over\n":
                line, seen = told.readline(), seen - 1
            time.sleep(wait_s)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            while line != b"over\n":
                line = told.readline()
            return told.readline() == b"killed\n"

        yield killed
        said.close()


def seal(path: Path) -> str:
    """Return the contents of a gate store as one text."""
    return digest(repr(content(path)))


class TornError(Exception):
    """A kill left something that should not be."""


def killed_often(folder: Path, kind: str, kills: int) -> None:
    """Kill a child again and again, and look at the store after each kill; then let one end."""
    steps, path = prepared(folder), folder / "killed.db"
    (folder / "steps.json").write_bytes(msgspec.json.encode(steps))
    spent_s = 0.0
    with GateStore.open(folder / "whole.db", HOOKS) as whole:
        seals = [seal(whole.path)]
        for step in steps:
            began_s = time.monotonic()
            step.take(whole)
            spent_s += time.monotonic() - began_s
            seals.append(seal(whole.path))
    wait_max_s = 2 * spent_s / len(steps)
    with victim(path, folder / "steps.json", kind) as killed:
        for seed in range(kills):
            chance = random.Random(seed)
            count = chance.randint(1, STEPS_MAX)
            assert killed(count, chance.randrange(count), chance.uniform(0, wait_max_s))
            begun = Path(f"{path}.step")
            place = int(begun.read_text()) if begun.exists() else 0
            GateStore.open(path).close()  # It may have been killed while it was made.
            try:
                assert_sound(path, len(HOOKS))
                assert seal(path) in seals[place : place + 2]
            except AssertionError as error:
                raise TornError(f"after kill {seed}") from error
        assert not killed(len(steps), len(steps) + 1, 0)
    assert_sound(path, len(HOOKS))
    assert content(path) == content(folder / "whole.db")


@requirement("E3")
def test_sigkill_at_fifty_moments_leaves_no_decision_in_parts(tmp_path: Path) -> None:
    """A decision, its pivot, counter, gate and outbox row are there together or not at all."""
    killed_often(tmp_path, "GateStore", KILLS)
    found = content(tmp_path / "killed.db")
    assert len(found["pivots"]) == 4 * TASKS
    assert len(found["gates"]) == 2 * TASKS
    assert {status for *_, status, _, _, _, _, _ in found["gates"]} == {"open", "resolved"}


def test_the_kills_find_a_pivot_that_is_written_before_its_decision(tmp_path: Path) -> None:
    """The control arm: a harness that did not find this would find nothing."""
    with pytest.raises(TornError):
        killed_often(tmp_path, "PivotFirst", KILLS)


# Ingests parts in the order of time, again and again, until it is killed.
INGESTING = """
import sys
from pathlib import Path
import polars as pl
from looptrace.collector.store.writer import ingest
spans, folder, size = sys.argv[1:]
while True:
    for part in pl.read_parquet(spans).iter_slices(int(size)):
        ingest(part, Path(folder))
        print("ready", flush=True)
"""


def test_a_killed_ingest_tells_nothing_twice(tmp_path: Path) -> None:
    """Whatever is killed when, the gates are those of an ingest that was not."""
    spans = spans_of(*(looping(f"s{n}", at=f"2026-03-0{n}T09:00:00Z") for n in range(1, 7)))
    spans.sort("start_ns").write_parquet(tmp_path / "spans.parquet")
    folder, size = tmp_path / "s", 4
    arguments = [str(tmp_path / "spans.parquet"), str(folder), str(size)]
    for kill in range(INGEST_KILLS):
        process = Forked(["-c", INGESTING, *arguments])
        for _ in range(kill + 1):
            assert process.stdout.readline() == "ready\n"
        time.sleep(random.Random(kill).uniform(0, 0.3))
        process.kill()
        process.wait()
        assert_sound(folder / "looptrace-store.gates.db")
    for part in spans.iter_slices(size):
        writer.ingest(part, tmp_path / "whole")
    writer.ingest(spans, folder)
    killed, whole = (
        content(path / "looptrace-store.gates.db") for path in (folder, tmp_path / "whole")
    )
    assert sorted(killed["events"]) == sorted(whole["events"])
    assert [killed[name] for name in ("tasks", "gates")] == [
        whole[name] for name in ("tasks", "gates")
    ]
    assert len(whole["gates"]) == 6
