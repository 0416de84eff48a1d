"""One loop has one gate, one page and one decision, in whatever order its spans arrive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import repeat
from pathlib import Path
from random import Random
from typing import NamedTuple

import polars as pl
import pytest

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.live import Fed
from looptrace.analyzer.engine.live_spans import LiveSpans
from looptrace.analyzer.engine.policy import DEFAULT
from looptrace.analyzer.gates.resolutions import resolution_turns, with_decisions
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.turns import LATENESS_S, TURN_SCHEMA, numbered
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector.store.gate_file.stored_gates import StoredGate
from looptrace.collector.store.gates import GateStore
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.store.test_writer import spans_of
from tests.otlp import Trace
from tests.seeds import seeds

PAGER = Webhook("pager", "https://pager.example/", secrets=("env:PAGER",))
# The looping tasks of a seed, each in an order of its own. With all seeds, these are 10,000 orders.
TASKS = 20
# How long after a gate a person decides. A patient one has seen all spans that came late.
PATIENT_S, HASTY_S = LATENESS_S + 1, 3
WINDOWS_S = (8, 20, LATENESS_S)  # within which spans come late
OPENED = "gate_opened"


class Task(NamedTuple):
    """A task by its last name, and its spans in the order of their ends."""

    name: str
    spans: pl.DataFrame


@dataclass
class Night:
    """A store that is told what a live engine finds, a pager, and a person who decides."""

    gates: GateStore
    decides_after_s: float | None  # after the opening of each gate
    now_ns: int = 0
    taken: list[pl.DataFrame] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.live = LiveSpans(recall=self.gates.state)

    def take(self, spans: pl.DataFrame) -> None:
        """Take spans as they arrive."""
        self.taken.append(spans)
        self._record(self.live.take(spans)[1])

    def decide(self) -> None:
        """Decide on the gates that opened long enough ago."""
        for gate in self.gates.gates("open") if self.decides_after_s is not None else ():
            at_ns = gate.opened_ns + int((self.decides_after_s or 0) * NS_PER_S)
            if at_ns <= self.now_ns and not gate.decision:
                self.gates.resolve(gate.id, "reviewed", None, at_ns)
        said = [each for each in self.gates.resolutions() if each.id not in self.seen]
        if said:
            self._record(self.live.feed(resolution_turns(said, DEFAULT.sameness)))
            self.seen.update(each.id for each in said)

    def restart(self) -> None:
        """Start anew, and make the tasks again from all spans so far."""
        self.live = LiveSpans()
        turns = pl.DataFrame(self.live.replay(self.taken), TURN_SCHEMA, orient="row")
        decided = self.gates.resolutions()
        self._record(self.live.feed(with_decisions(turns, decided, DEFAULT.sameness)))

    def _record(self, fed: Fed) -> None:
        told = [*fed.moved, *fed.events]
        self.gates.record(told, fed.states, self.now_ns, fed.openings)

    def pages(self, task: str) -> int:
        """Return how many openings of gates of a task went to the pager."""
        sql = "SELECT type FROM outbox JOIN events ON id = event WHERE type = ? AND task = ?"
        return len(self.gates._rows(sql, OPENED, task))

    def gates_of(self, task: str) -> list[StoredGate]:
        """Return the gates of a task as they opened."""
        return sorted(self.gates.gates(task=task), key=lambda gate: gate.opened_ns)


def calls(random: Random, traces: Iterator[Trace]) -> list[Trace]:
    """Return an agent that does some work, loops in one or two of several ways, and goes on."""
    used: dict[str, Trace] = {}

    def call(name: str, about: object, error: str = "", agent: str = "builder") -> None:
        trace = next(traces)
        used[trace.trace_id] = trace
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.arguments": f'{{"of": "{about}"}}',
            "gen_ai.agent.name": agent,
        }
        seconds = random.choice((0.5, 1, 2, 4))
        if error:
            trace.span(name, None, attributes, status="error", message=error, seconds=seconds)
        else:
            attributes["gen_ai.tool.call.result"] = "done"
            trace.span(name, None, attributes, seconds=seconds)

    for number in range(random.randint(0, 3)):
        call("read", number)
    for _ in range(random.randint(1, 2)):
        way, what = random.choice(("fails", "cycle", "mixed", "agents", "tests")), random.random()
        for number in range(random.randint(5, 12)):
            if way == "cycle":
                call("lock", what)
                call("unlock", what)
            else:
                agent = "ab"[number % 2] if way == "agents" else "builder"
                call("build", what, "expected 42, got 41", agent)
            if (way, number % 2) == ("tests", 1) or (way, number % 3) == ("mixed", 1):
                call("edit", number)
    return list(used.values())


def traces_of_calls(session: str) -> Iterator[Trace]:
    """Yield a trace for each call of a session, one after the other."""
    end_s, number = 0.0, 0
    while True:
        trace = Trace(session, name=str(number), service="agent")
        trace.now_s = end_s
        yield trace
        end_s, number = trace.now_s, number + 1


@cache
def looping() -> tuple[Task, ...]:
    """Return tasks with gates: in one trace, in one named last, or in a trace for each call."""
    tasks: list[Task] = []
    for number in range(60):
        session, random = f"s{number}", Random(number)
        if number % 3 == 0:
            traces = calls(random, repeat(Trace(session, service="agent")))
        elif number % 3 == 1:
            traces = calls(random, traces_of_calls(session))
        else:
            traces = calls(random, repeat(Trace(session, session_key=None, service="agent")))
            named = {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.conversation.id": session,
            }
            traces[0].span("run", None, named, start_s=0.0, end_s=traces[0].now_s + 0.5)
        spans = spans_of(*traces).sort("end_ns")
        if any(event.type == OPENED for event in detect(turns_of(spans)[0]).events):
            tasks.append(Task(f"{session}@agent", spans))
    return tuple(tasks)


def live_through(night: Night, tasks: list[Task], random: Random | None, window_s: float) -> None:
    """Let the spans of tasks arrive, each somewhat late and some twice, with a few restarts.

    Without randomness they arrive one by one as they end.
    """
    every = pl.concat([task.spans for task in tasks])
    arrived = list(zip(every["end_ns"].to_list(), range(every.height), strict=True))
    if random:
        arrived += random.sample(arrived, len(arrived) // 10)
        late_ns = [int(random.uniform(0, window_s) * NS_PER_S) for _ in arrived]
        arrived = [(at + late, place) for (at, place), late in zip(arrived, late_ns, strict=True)]
    arrived.sort()
    while arrived:
        size = random.choice((1, 3, 20)) if random else 1
        part, arrived = arrived[:size], arrived[size:]
        night.now_ns = part[-1][0]
        night.take(every[[place for _, place in part]])
        night.decide()
        if random and random.random() < 0.03:
            night.restart()
    for _ in range(4):  # The person has time for all gates.
        night.now_ns += 2 * PATIENT_S * NS_PER_S
        night.decide()


def in_order(task: Task, decides_after_s: float | None, path: Path) -> tuple[list[object], int]:
    """Return the gates and the number of pages of one feed in order."""
    with GateStore.open(path / f"{task.name} {decides_after_s}.db", [PAGER]) as gates:
        night = Night(gates, decides_after_s)
        live_through(night, [task], None, 0)
        return [outcome(gate) for gate in night.gates_of(task.name)], night.pages(task.name)


def outcome(gate: StoredGate) -> object:
    """Return what is to be the same of a gate in any order."""
    return gate.rule, gate.opened_ns, gate.status, gate.decision, gate.resolved_ns


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[object, tuple[list[object], int]]:
    """Return the outcomes in order, by task and person."""
    path = tmp_path_factory.mktemp("in-order")
    return {
        (task.name, decides): in_order(task, decides, path)
        for task in looping()
        for decides in (None, PATIENT_S)
    }


@pytest.mark.parametrize("seed", range(seeds(500)))
def test_gates_pages_and_decisions_are_those_of_one_feed_in_order(
    seed: int, references: dict[object, tuple[list[object], int]], tmp_path: Path
) -> None:
    """Nobody decides, or a person who waits until no span can come late."""
    random = Random(seed)
    decides, window_s = random.choice((None, PATIENT_S)), random.choice(WINDOWS_S)
    tasks = random.sample(looping(), TASKS)
    with GateStore.open(tmp_path / "gates.db", [PAGER]) as gates:
        night = Night(gates, decides)
        live_through(night, tasks, random, window_s)
        for task in tasks:
            stood = [outcome(gate) for gate in night.gates_of(task.name)]
            assert (stood, night.pages(task.name)) == references[task.name, decides], task.name


@pytest.mark.parametrize("seed", range(seeds(50)))
def test_a_hasty_decision_holds(seed: int, tmp_path: Path) -> None:
    """What was decided stays so, and nobody is paged again but for what loops on after it."""
    random = Random(seed)
    tasks = random.sample(looping(), TASKS)
    with GateStore.open(tmp_path / "gates.db", [PAGER]) as gates:
        night = Night(gates, HASTY_S)
        live_through(night, tasks, random, random.choice(WINDOWS_S))
        for task in tasks:
            decided = gates.resolutions()
            turns = with_decisions(turns_of(task.spans)[0], decided, DEFAULT.sameness)
            whole = detect(numbered(turns))
            stood = night.gates_of(task.name)
            opened = {event.gate for event in whole.events if event.type == OPENED}
            said = {gate.id for gate in stood if gate.decision}

            assert night.pages(task.name) <= len(said | opened)
            assert all(gate.status == "resolved" for gate in stood if gate.id in said)
            ids = {state.gate.id for state in whole.states if state.gate}
            assert len([gate for gate in stood if gate.status == "open"]) == len(ids)


def test_a_late_span_after_a_decision_pages_nobody(tmp_path: Path) -> None:
    """The first turn of a loop comes last, after a person has decided on the gate."""
    trace = Trace("s1", service="agent")
    for _ in range(8):
        named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "build"}
        trace.span("build", None, named, status="error", message="no rule to make this")
    spans = spans_of(trace).sort("end_ns")
    with GateStore.open(tmp_path / "gates.db", [PAGER]) as gates:
        night = Night(gates, 0)
        night.take(spans[1:])
        (gate,) = night.gates_of("s1@agent")
        night.now_ns = gate.opened_ns + 20 * NS_PER_S
        gates.resolve(gate.id, "continue", "Add the rule.", night.now_ns)
        night.decide()
        night.take(spans[:1])

        (after,) = night.gates_of("s1@agent")
        assert (after.id, after.status, after.decision) == (gate.id, "resolved", "continue")
        assert night.pages("s1@agent") == 1
