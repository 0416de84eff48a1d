from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.engine.batch import Detection, detect
from looptrace.analyzer.engine.live import LiveEngine
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.fingerprint.equivalence import NOTHING
from looptrace.analyzer.fingerprint.similarity import Meaning
from looptrace.analyzer.gates.decisions import NOTE_CHARS_MAX, GateError
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.notes import ResolutionNote
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.gates.resolutions import resolution_turns
from looptrace.analyzer.gates.state_machine import Gate, TaskState
from looptrace.analyzer.schema.turns import numbered
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.analyzer.testing.notation import tasks_in
from looptrace.analyzer.text.digests import digest
from looptrace.collector.store import reader, sqlite_file, writer
from looptrace.collector.store.gate_metrics import AgentMetrics, metrics_of
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.reader import open_gates
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.store.test_writer import call, looping, spans_of
from tests.otlp import Trace

requirement = pytest.mark.requirement

TABLES = {
    "tasks": "SELECT * FROM tasks ORDER BY 1",
    "gates": "SELECT * FROM gates ORDER BY 1",
    "pivots": "SELECT * FROM pivots ORDER BY 1",
    "outbox": "SELECT * FROM outbox ORDER BY 1",
    "endpoints": "SELECT * FROM endpoints ORDER BY 1",
    "resolutions": "SELECT * FROM resolutions ORDER BY 1",
    "events": "SELECT id, type, task, body FROM events ORDER BY seq",
}
SAME_RESPONSE = 'say("No way.", given=error)'
CALL = "run(a)->same"
NOW_NS = 1_000 * NS_PER_S
HOOKS = (
    Webhook("first", "https://a.example/", "slack"),
    Webhook("second", "https://b.example/", "slack"),
)
TASKS = 25
KILLS = 50
STEPS_MAX = 4
INGEST_KILLS = 3

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL.")


def turns_of(text: str, task: str = "t") -> pl.DataFrame:
    """Return turns in the notation to a task."""
    return tasks_in({task: text})


def recorded(gates: GateStore, text: str, task: str = "t") -> Detection:
    """Judge turns in the notation and what was decided on them, and record it."""
    turns = turns_of(text, task)
    turns = numbered(pl.concat([turns, resolution_turns(gates.resolutions(), NOTHING)]))
    judged = detect(turns)
    gates.record(judged.events, judged.states or [TaskState(task)], NOW_NS, judged.openings)
    return judged


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[GateStore]:
    """Return a new store."""
    with GateStore.open(tmp_path / "gates.db") as store:
        yield store


def content(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Read all that a gate store holds; the events in the order of recording."""
    with closing(sqlite3.connect(path)) as sql:
        return {name: sql.execute(query).fetchall() for name, query in TABLES.items()}


def assert_sound(path: Path, hooks: int = 0) -> None:
    """Assert what must hold at any moment, whatever was killed and however many webhooks are."""
    found = content(path)
    ids = Counter(event for event, *_ in found["events"])
    assert max(ids.values(), default=1) == 1
    outbox = Counter(event for event, *_ in found["outbox"])
    assert outbox == Counter({event: hooks for event in ids if hooks})
    pivots = {event for event, *_ in found["pivots"]}
    assert pivots == {event for event, kind, *_ in found["events"] if kind == "pivot_issued"}
    since: Counter[str] = Counter()
    opened, resolved = set[str](), set[str]()
    for _, kind, task, body in found["events"]:
        if kind == "counter_reset":
            since[task] = 0
        since[task] += kind == "pivot_issued"
        gate = msgspec.json.decode(body)["gate"]
        (opened if kind == "gate_opened" else resolved if gate else set()).add(gate)
    stand = {task: msgspec.json.decode(state) for task, _, _, _, state, _ in found["tasks"]}
    assert {task: state["pivots"] for task, state in stand.items()} == {t: since[t] for t in stand}
    status = {gate: status for gate, *_, status, _, _, _, _, _ in found["gates"]}
    assert set(status) == opened
    assert {gate for gate in status if status[gate] == "resolved"} == resolved
    open_gates = {state["gate"]["id"] for state in stand.values() if state["gate"]}
    assert {gate for gate in status if status[gate] == "open"} == open_gates


# --- Killed at random points ---------------------------------------------------------------------


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
from tests.collector.store import test_gates as tests
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
        command = [sys.executable, "-c", INGESTING, *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(kill + 1):
                assert process.stdout.readline() == b"ready\n"
            time.sleep(random.Random(kill).uniform(0, 0.3))
            process.kill()
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


# --- What is recorded ----------------------------------------------------------------------------


def test_recording_again_writes_nothing(gates: GateStore) -> None:
    """A restart records what it has recorded; that must cost no write and change no row."""
    first = recorded(gates, f"{SAME_RESPONSE} x9")
    before, wal = content(gates.path), Path(f"{gates.path}-wal").read_bytes()
    assert gates.record(first.events, first.states, NOW_NS + 1) == []
    assert content(gates.path) == before
    assert Path(f"{gates.path}-wal").read_bytes() == wal


@requirement("A5")
def test_a_reset_is_recorded_with_its_reason_and_the_count_before(gates: GateStore) -> None:
    """Completion and a person reset, and both say so."""
    recorded(gates, f"{CALL} x3 attempt(done) {CALL} x3 user(go) {CALL}")
    resets = [e for _, e in gates.events() if e.type == "counter_reset"]
    assert [(e.reason, e.loop_count) for e in resets] == [("completed", 2), ("person", 2)]


@requirement("E3")
def test_a_pivot_comes_with_its_counters(gates: GateStore) -> None:
    """The row has the task, both counts and the time; the task's counts are as after it."""
    recorded(gates, f"{SAME_RESPONSE} x3")
    (pivot,) = content(gates.path)["pivots"]
    ((_, event),) = gates.events()
    assert pivot == (event.id, "t", 1, 3, event.at_ns)
    state = gates.state("t")
    assert (state.pivots, state.pivot_turn, state.loop_count) == (1, 3, 2)


@requirement("B5")
@requirement("D4")
def test_a_gate_labels_the_task_until_a_person_resolves_it(gates: GateStore) -> None:
    """A resolution resets as a message of the person does, and work goes on."""
    text = "attempt(blocked, no key) x4"
    recorded(gates, text)
    (gate,) = gates.gates("open")
    assert (gate.why, gates.state("t").status) == ("UNBLOCKING_FAILED", "blocked")

    gates.resolve(gate.id, "continue", "The key is in the vault.", gate.opened_ns + 1)
    assert gates.pending() == {gates.gate(gate.id).event.trace_id}
    assert gates.gates("open")[0].decision == "continue"
    recorded(gates, text)

    (gate,) = gates.gates()
    assert (gate.status, gate.decision, gate.note) == (
        "resolved",
        "continue",
        "The key is in the vault.",
    )
    assert gate.resolved_ns == gate.opened_ns + 1
    assert gates.state("t") == TaskState("t")
    assert gates.pending() == set()
    told = [event.type for _, event in gates.events()]
    assert told[-2:] == ["gate_resolved", "counter_reset"]


@requirement("A5")
def test_batch_and_live_see_a_resolution_alike(gates: GateStore) -> None:
    """It is a turn like any other, so that they come to the same."""
    text = f"{CALL} x9"
    recorded(gates, text)
    (gate,) = gates.gates()
    # The person's clock is behind; the decision holds after the opening all the same.
    gates.resolve(gate.id, "reviewed", None, gate.opened_ns - 3 * NS_PER_S)
    turns = numbered(pl.concat([turns_of(text), resolution_turns(gates.resolutions(), NOTHING)]))
    judged = detect(turns)
    assert [e.type for e in judged.events][1:4] == ["gate_opened", "gate_resolved", "counter_reset"]
    assert turns.filter(kind="user").select("turn", "name").rows() == [(4, "reviewed")]

    engine = LiveEngine()
    told = [event for turn in turns.iter_slices(1) for event in engine.feed(turn).events]
    assert tuple(told) == judged.events


@pytest.mark.parametrize("text", [f"{CALL} x9", f"{SAME_RESPONSE} x12", "a()->1 b()->1 " * 7])
@pytest.mark.parametrize("size", [1, 4])
def test_a_gate_keeps_the_finding_of_its_opening(gates: GateStore, text: str, size: int) -> None:
    """What a person decided upon stays, however far the loop went on, in batch and live alike."""
    judged = recorded(gates, text)
    (opening,) = (event for event in judged.events if event.type == "gate_opened")
    until = detect(numbered(turns_of(text).filter(pl.col("turn") <= opening.turn)))
    (expected,) = (finding for finding in until.findings if finding.id == opening.finding)
    assert expected.turn_last == opening.turn
    assert gates.finding(opening.gate) == expected

    engine, live = LiveEngine(), dict[str, Finding]()
    for turns in turns_of(text).iter_slices(size):
        live |= engine.feed(turns).openings
    assert live == {opening.gate: expected}


def test_two_messages_on_one_span_are_told_apart(gates: GateStore) -> None:
    """A long span of an agent holds every event in which a person stepped in."""
    turns = turns_of(f"{CALL} x5 user(one) {CALL} x5 user(two)")
    person = pl.col("kind") == "user"
    turns = turns.with_columns(
        span_id=pl.when(person).then(pl.lit("agent")).otherwise("span_id"),
        call_id=pl.when(person).then("text").otherwise("call_id"),
    )
    judged = detect(turns)
    gates.record(judged.events, judged.states, NOW_NS)
    assert [gate.status for gate in gates.gates()] == ["resolved"] * 2
    assert sum(event.type == "counter_reset" for _, event in gates.events()) == 2
    assert_sound(gates.path)


def test_what_comes_late_only_adds_events(gates: GateStore) -> None:
    """A gate that late spans disprove is withdrawn, and stays on record.

    Webhooks that got it get the withdrawal, and the gate again if it is one after all.
    """
    recorded(gates, f"{CALL} x5")
    (gate,) = gates.gates("open")
    before = [event for _, event in gates.events()]
    recorded(gates, f"{CALL} x2 run(b)->other {CALL} x2 run(c)->other")
    assert [event for _, event in gates.events()][: len(before)] == before
    assert gates.gate(gate.id).gate.status == "withdrawn"
    assert gates.state("t").gate is None
    with pytest.raises(GateError, match="withdrawn"):
        gates.resolve(gate.id, "cancel", None, NOW_NS)
    recorded(gates, f"{CALL} x5")
    assert gates.gates("open") == [gate]
    told = [(e.type, e.decision) for _, e in gates.events() if e.gate == gate.id]
    opened = ("gate_opened", None)
    assert told == [opened, ("gate_resolved", "withdrawn"), opened]


def test_a_gate_that_opens_at_another_moment_is_told_once(gates: GateStore) -> None:
    """A late span moves the opening; nobody is paged again."""
    turns = turns_of(f"{CALL} x5")
    for shift_ns in (0, 1):
        judged = detect(turns.with_columns(pl.col("start_ns", "end_ns") + shift_ns))
        gates.record(judged.events, judged.states, NOW_NS, judged.openings)
    assert [event.type for _, event in gates.events()].count("gate_opened") == 1


@requirement("A16")
def test_notes_that_worked_are_shown_with_the_same_signature(gates: GateStore) -> None:
    """The newest first; not of a task that was given up, and not where the signature differs."""
    other = "stop(a)->same"
    for task, text, decision in (
        ("t1", CALL, "continue"),
        ("t2", CALL, "reviewed"),
        ("t3", CALL, "cancel"),
        ("t4", other, "continue"),
    ):
        recorded(gates, f"{text} x5", task)
        (gate,) = gates.gates("open", task)
        gates.resolve(gate.id, decision, f"Note of {task}.", gate.opened_ns + int(task[1]))
        recorded(gates, f"{text} x5", task)
    recorded(gates, f"{CALL} x5", "t5")
    (gate,) = gates.gates("open")
    notes = gates.gate(gate.id).notes
    assert [note.note for note in notes] == ["Note of t2.", "Note of t1."]
    first = gates.gates(task="t1")[0]
    assert notes[1] == ResolutionNote(
        first.id, "t1", "continue", "Note of t1.", first.resolved_ns or 0, "same"
    )


def notes_after(gates: GateStore, earlier: str, later: str, meaning: Meaning | None = None) -> str:
    """Resolve the gate of a loop with a note; return how a later loop's gate comes by it."""
    for number, text in enumerate((earlier, later)):
        recorded(gates, text, f"t{number}")
        (gate,) = gates.gates("open")
        if number == 0:
            gates.resolve(gate.id, "continue", "This helped.", gate.opened_ns + 1)
            recorded(gates, text, "t0")
    return " ".join(note.likeness for note in gates.gate(gate.id, meaning).notes)


@requirement("A16")
@pytest.mark.parametrize(
    ("earlier", "later", "likeness"),
    [
        ('run(a)->!"TypeError: x is null" x5', 'run(a)->!"TypeError: x is null" x5', "same"),
        ('run(a)->!"TypeError: x is null" x5', 'run(b)->!"TypeError: size of y" x5', "type"),
        ('run(a)->!"TypeError: x is null" x5', 'run(a)->!"ValueError: x is null" x5', ""),
        ('run(a)->!"TypeError: x is null" x5', 'make(a)->!"TypeError: x is null of" x5', ""),
        ("attempt(blocked, no key) x4", "attempt(blocked, no key) x4", "same"),
        ("attempt(blocked, no key) x4", "attempt(blocked, no rights) x4", ""),
        (
            'handoff(B, "Review the code.")->ok x5',
            'handoff(B, "Review the code.")->ok x5',
            "same",
        ),
        (
            'handoff(B, "Review the code.")->ok x5',
            'handoff(B, "Count the rows.")->ok x5',
            "type",
        ),
        (
            'handoff(B, "Review the code.")->ok x5',
            'handoff(C, "Count the rows.")->ok x5',
            "",
        ),
    ],
)
def test_a_note_is_shown_with_loops_like_its_own(
    gates: GateStore, earlier: str, later: str, likeness: str
) -> None:
    """The same failure, one of its type by the same tool, a request to the same agent."""
    assert notes_after(gates, earlier, later) == likeness


@requirement("A16")
@pytest.mark.parametrize(("meaning", "likeness"), [(Meaning("letters"), "meaning"), (None, "")])
def test_a_note_is_shown_with_what_means_the_same(
    gates: GateStore, meaning: Meaning | None, likeness: str
) -> None:
    """Where the settings compare meaning, blockers in other words are like each other."""
    first = "attempt(blocked, the licence key is missing) x4"
    second = "attempt(blocked, missing the licence keys) x4"
    assert notes_after(gates, first, second, meaning) == likeness


def test_a_gate_shows_the_failures_before_it(gates: GateStore) -> None:
    """The person who decides sees what went wrong."""
    recorded(gates, 'test()->!"boom" x3')
    details = gates.gate(gates.gates()[0].id)
    assert [failure.error for failure in details.event.history] == ["boom"] * 3


NO_LOOPS = pl.DataFrame(schema={"id": pl.String, "loop": pl.String})


@requirement("A15")
@requirement("D5")
def test_metrics(gates: GateStore) -> None:
    """Two of four tasks loop: one is gated and resolved as no loop, one cycles in phases."""
    recorded(gates, f"@A {CALL} x5", "t1")
    (gate,) = gates.gates()
    gates.resolve(gate.id, "not_a_loop", None, gate.opened_ns + 30 * NS_PER_S)
    recorded(gates, f"@A {CALL} x5", "t1")
    recorded(gates, "(#fix edit(a, {n})->ok #test test({n})->ok) x12", "t2")
    recorded(gates, f"{CALL} x2", "t3")
    recorded(gates, f"{CALL} x5", "known under another name now")
    recorded(gates, f"{CALL} x2", "known under another name now")
    worked = pl.DataFrame(
        {"task": ["t1", "t1", "t2", "t3", "t4"], "agent": ["A", "B", "C", "A", "A"]}
    )
    found = metrics_of(gates, worked, NO_LOOPS)
    assert (found.tasks, found.looping_tasks, found.loop_detection_rate) == (4, 2, 0.5)
    assert found.gate_rate == 0.5
    assert (found.gates_opened, found.gates_open, found.gates_resolved) == (2, 1, 1)
    assert found.seconds_to_resolution == pytest.approx(30)
    assert found.false_positive_rate == 1.0
    blocked = (found.visits_blocked, found.transitions_blocked, found.cycles_detected)
    assert blocked == (0, 0, 1)
    assert found.loops_before_gate == (3 + 1) / 2
    assert found.agents[0] == AgentMetrics("C", 1, 1, 1.0, 1)
    assert found.agents[1] == AgentMetrics("A", 3, 1, 1 / 3, 1)
    assert found.agents[2].loops == 0


def test_metrics_of_nothing(gates: GateStore) -> None:
    """A share of nothing is not 0."""
    found = metrics_of(
        gates, pl.DataFrame(schema={"task": pl.String, "agent": pl.String}), NO_LOOPS
    )
    assert (found.loop_detection_rate, found.false_positive_rate, found.agents) == (None, None, ())


# --- Mistakes ------------------------------------------------------------------------------------


def test_what_cannot_be_resolved(gates: GateStore) -> None:
    """One line says why."""
    recorded(gates, f"{CALL} x5")
    (gate,) = gates.gates()
    with pytest.raises(GateError, match=r"no gate 'nope'.*Known"):
        gates.resolve("nope", "continue", None, NOW_NS)
    with pytest.raises(GateError, match="Did you mean continue"):
        gates.resolve(gate.id, "continu", None, NOW_NS)
    with pytest.raises(GateError, match="more than"):
        gates.resolve(gate.id, "continue", "x" * (NOTE_CHARS_MAX + 1), NOW_NS)
    gates.resolve(gate.id, "continue", "not a text: \udcff", NOW_NS)
    with pytest.raises(GateError, match="already resolved, by continue"):
        gates.resolve(gate.id, "cancel", None, NOW_NS)


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("CREATE TABLE recipes (name TEXT)")


def test_a_store_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    """What was recorded and decided stays; its outbox, of events without a receiver, goes."""
    path = tmp_path / "gates.db"
    with closing(sqlite3.connect(path)) as sql:
        sql.executescript((Path(__file__).parent / "data/gates_1.sql").read_text(encoding="utf-8"))
    with GateStore.open(path, HOOKS) as gates:
        assert [gate.status for gate in gates.gates()] == ["open", "resolved"]
        assert gates.gates("resolved")[0].note == "The key is in the vault."
        assert len(list(gates.events())) == len(content(path)["events"])
        assert content(path)["outbox"] == []
        assert {gates.finding(gate.id) for gate in gates.gates()} == {None}
        recorded(gates, f"{CALL} x9", "t3")
        assert gates.finding(gates.gates(task="t3")[0].id) is not None
    assert len(content(path)["outbox"]) == 2 * len(HOOKS)
    assert content(path)["events"][-1][2] == "t3"
    GateStore.open(path).close()


def _newer(path: Path) -> None:
    GateStore.open(path).close()
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("PRAGMA user_version = 99")


def _damaged(path: Path) -> None:
    with GateStore.open(path) as gates:
        recorded(gates, f"{CALL} x5")
    data = bytearray(path.read_bytes())
    data[100:4096] = os.urandom(3996)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_foreign, "database of another program"),
        (_newer, "schema 99.*update looptrace"),
        (_damaged, "malformed.*move it away"),
        (lambda path: path.write_bytes(b"Chapter 1. " * 999), "not a database.*move it away"),
        (Path.mkdir, "cannot be used"),
    ],
)
def test_a_file_that_cannot_be_used_is_left_alone(
    tmp_path: Path, make: Callable[[Path], object], why: str
) -> None:
    """One line names it and says what to do, and what it holds stays."""
    path = tmp_path / "gates.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError, match=why) as caught, GateStore.open(path) as gates:
        list(gates.events())
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_state_that_is_none_is_named(gates: GateStore) -> None:
    """Somebody may have edited the file."""
    recorded(gates, f"{CALL} x5")
    with closing(sqlite3.connect(gates.path)) as sql, sql:
        sql.execute("UPDATE tasks SET state = '{}'")
    with pytest.raises(StoreError, match="cannot be read"):
        gates.state("t")


def test_a_writer_waits_for_another_and_then_says_so(
    gates: GateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes may resolve and record at the same time."""
    monkeypatch.setattr(sqlite_file, "BUSY_TIMEOUT_S", 0.1)
    with closing(sqlite3.connect(gates.path)) as other, GateStore.open(gates.path) as mine:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process is writing"):
            recorded(mine, f"{CALL} x5")
        other.execute("ROLLBACK")
        recorded(mine, f"{CALL} x5")
    assert len(gates.gates()) == 1


def test_a_full_disk_loses_nothing(gates: GateStore) -> None:
    """Nothing of a transaction that cannot be written is there, and the next one works."""
    resource = pytest.importorskip("resource")
    recorded(gates, f"{CALL} x5", "t1")
    before = content(gates.path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    full = Path(f"{gates.path}-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (full, limits[1]))
    try:
        with pytest.raises(StoreError, match="check space"):
            recorded(gates, f"{CALL} x5", "t2")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert content(gates.path) == before
    recorded(gates, f"{CALL} x5", "t2")
    assert_sound(gates.path)
    assert len(gates.gates("open")) == 2


# --- In a store of traces ------------------------------------------------------------------------


@requirement("D4")
def test_an_ingest_applies_what_was_decided(tmp_path: Path) -> None:
    """The next ingest, of whatever, resets; the store's turns hold the decision, too."""
    folder = tmp_path / "s"
    first = writer.ingest(spans_of(looping("s1")), folder)
    assert (first.gates_opened, first.gates_open, first.seq_before) == (1, 1, 0)
    with open_gates(folder) as gates:
        (gate,) = gates.gates("open")
        gates.resolve(gate.id, "continue", "Ask.", time.time_ns())
    other = Trace("s2")
    call(other)
    done = writer.ingest(spans_of(other), folder)
    assert (done.gates_opened, done.gates_open) == (0, 0)
    with open_gates(folder) as gates:
        told = [event.type for _, event in gates.events(done.seq_before)]
        assert told == ["gate_resolved", "counter_reset"]
    (person,) = pl.concat(reader.read_turns(folder)).filter(kind="user").iter_rows(named=True)
    assert (person["task"], person["name"], person["text"]) == ("s1", "continue", "Ask.")
    again = writer.ingest(spans_of(looping("s1")), folder)
    assert (again.gates_opened, again.gates_open) == (0, 0)
    assert_sound(folder / "looptrace-store.gates.db")


def test_a_task_that_is_part_of_another_waits_for_nobody(tmp_path: Path) -> None:
    """A session that comes late renames the task of a trace, and its gate with it."""
    trace = Trace("t", session_key=None)
    for _ in range(5):
        call(trace)
    writer.ingest(spans_of(trace), tmp_path)
    call(trace, {"gen_ai.conversation.id": "talk"})
    done = writer.ingest(spans_of(trace), tmp_path)
    with open_gates(tmp_path) as gates:
        assert [gate.task for gate in gates.gates("open")] == ["talk"]
        assert gates.gates(task=trace.trace_id) == []
        assert [event.type for _, event in gates.events()] == ["gate_opened", "gate_renamed"]
        assert gates.renamed(trace.trace_id) == ["talk"]
    assert (done.gates_opened, done.gates_open) == (0, 1)


@pytest.mark.parametrize("stays", ["g1", "g2"])
def test_two_open_gates_that_come_to_one_task_are_one(gates: GateStore, stays: str) -> None:
    """Two agents of a session loop before it is named; its state says which gate is open."""
    opened = [
        GateEvent(
            *(f"e{n}", "gate_opened", f"trace-{n}", n, n, "active", "active"),
            gate=f"g{n}",
            why="LADDER",
        )
        for n in (1, 2)
    ]
    held = [Gate(event.gate, "r", "s", event.at_ns) for event in opened]
    for event, gate in zip(opened, held, strict=True):
        gates.record([event], [TaskState(event.task, gate=gate)], 1)
    first, second = (replace(event, task="talk") for event in opened)
    gates.record([first], [TaskState("trace-1"), TaskState("talk", gate=held[0])], 2)
    open_now = next(gate for gate in held if gate.id == stays)
    gates.record([second], [TaskState("trace-2"), TaskState("talk", gate=open_now)], 3)
    (over,) = {"g1", "g2"} - {stays}
    stand = {gate.id: (gate.task, gate.status) for gate in gates.gates()}
    assert stand == {stays: ("talk", "open"), over: ("talk", "withdrawn")}
    told = [(event.type, event.gate, event.decision) for _, event in gates.events()]
    named = [("gate_renamed", gate, None) for gate in ("g1", "g2") if gate == stays or gate == "g1"]
    assert sorted(told[2:]) == [*named, ("gate_resolved", over, "withdrawn")]


def test_other_settings_judge_the_gates_anew(tmp_path: Path) -> None:
    """A rule that is off makes no agent wait, and a store without gates gets them."""
    spans = spans_of(looping("s1"))
    writer.ingest(spans, tmp_path)
    none = DetectionPolicy(RuleSet(()))
    assert writer.ingest(spans.clear(), tmp_path, none).gates_open == 0
    assert writer.ingest(spans.clear(), tmp_path).gates_open == 1
    (tmp_path / "looptrace-store.gates.db").unlink()
    with pytest.raises(StoreError, match="no file of gates"):
        open_gates(tmp_path)
    assert writer.ingest(spans.clear(), tmp_path).gates_open == 1
    no_pivot = DetectionPolicy(recovery=Recovery(max_pivots=0))
    assert writer.ingest(spans.clear(), tmp_path, no_pivot).gates_opened == 0
