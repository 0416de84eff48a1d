"""One loop has one gate, one page and one decision, in whatever order its spans arrive."""

from collections.abc import Callable, Iterator, Sequence
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
from looptrace.analyzer.engine.live_task import LATENESS_S
from looptrace.analyzer.engine.policy import DEFAULT
from looptrace.analyzer.gates.resolutions import resolution_turns, with_decisions
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.turns import TURN_SCHEMA, numbered
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector.store.gate_file.attempts import Tried
from looptrace.collector.store.gate_file.stored_gates import StoredGate
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.outbox import Outbox
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.store.stored import spans_of
from tests.otlp import Trace, tool_call
from tests.seeds import seeds, turn_of

PAGER = Webhook("pager", "https://pager.example/", secrets=("env:PAGER",))
# The looping tasks of a seed, each in an order of its own.
TASKS = 40
# How long after a gate a person decides. A patient one has seen all spans that came late.
PATIENT_S, HASTY_S = LATENESS_S + 1, 3
WINDOWS_S = (8, 20, LATENESS_S)  # within which spans come late
OPENED = "gate_opened"
# Warnings and pivots that were sent twice, although counts did not begin anew between them.
_TWICE = """
    SELECT task, rule, count(*) FROM outbox JOIN events ON id = event
    WHERE type IN ('loop_detected', 'pivot_issued')
    GROUP BY task, type, rule, agent, body ->> 'action', body ->> 'signature', body ->> 'pivots', (
        SELECT count(*) FROM events AS reset WHERE reset.type = 'counter_reset'
            AND reset.task = events.task AND reset.at_ns < events.at_ns
    )
    HAVING body ->> 'action' IN ('warn', 'pivot') AND count(*) > 1
"""
# The openings of a gate that went to the pager, but for those after it was told as withdrawn: what
# seemed a loop is over by then, and a loop that follows in its task pages for itself.
_PAGES = """
    SELECT opening.id FROM outbox JOIN events AS opening ON opening.id = event
    WHERE opening.type = ? AND opening.body ->> 'gate' = ? AND NOT EXISTS (
        SELECT 1 FROM outbox AS earlier JOIN events ON events.id = earlier.event
        WHERE events.type = 'gate_resolved' AND events.body ->> 'gate' = opening.body ->> 'gate'
            AND earlier.next_try_ns <= outbox.next_try_ns AND events.seq < opening.seq
    )
"""


class Work(NamedTuple):
    """Some tasks that share traces, by their last names, and their spans as they end."""

    tasks: tuple[str, ...]
    spans: pl.DataFrame
    is_tied: bool = False  # A link makes one task of two traces.


# Returns the outcomes of some tasks in order, by how long after a gate a person decides.
Wanted = Callable[["Work", float | None], list[object]]


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
        """Decide on the gates that opened long enough ago.

        A patient person does so at a time that follows from the opening; a hasty one now.
        """
        wait_s = self.decides_after_s
        for gate in self.gates.gates("open") if wait_s is not None else ():
            at_ns = gate.opened_ns + int((wait_s or 0) * NS_PER_S)
            if at_ns <= self.now_ns and not gate.decision:
                is_patient = wait_s == PATIENT_S
                self.gates.resolve(gate.id, "reviewed", None, at_ns if is_patient else self.now_ns)
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

    def pages(self, gate: StoredGate) -> int:
        """Return how many openings of a gate went to the pager."""
        return len(self.gates._rows(_PAGES, OPENED, gate.id))

    def gates_of(self, task: str) -> list[StoredGate]:
        """Return the gates of a task as they opened."""
        return sorted(self.gates.gates(task=task), key=lambda gate: gate.opened_ns)

    def outcomes(self, work: Work) -> list[object]:
        """Return what is to be the same of some tasks in any order: their gates, and the pages."""
        return [[task, *map(self._outcome, self.standing(task, work))] for task in work.tasks]

    def standing(self, task: str, work: Work) -> list[StoredGate]:
        """Return the gates of a task that also a feed in order opens.

        One that was withdrawn where no other opened seemed a loop while the span was missing that
        breaks it. Each of two traces may have had one before the link that ties them.
        """
        gates = self.gates_of(task)
        if work.is_tied:
            return [gate for gate in gates if not self._is_gone(gate)]
        if not gates or not self._is_gone(gates[-1]):
            return gates
        *before, last = gates
        ended_ns = before[-1].resolved_ns if before else 0
        return before if ended_ns is not None and ended_ns <= last.opened_ns else gates

    def _is_gone(self, gate: StoredGate) -> bool:
        return gate.status == "withdrawn" and self.pages(gate) == 1

    def _outcome(self, gate: StoredGate) -> object:
        ended = gate.status, gate.decision, gate.resolved_ns
        return gate.rule, gate.opened_ns, ended, self.pages(gate)


def calls(random: Random, traces: Iterator[Trace], session: str = "") -> list[Trace]:
    """Return an agent that does some work, loops in one or two of several ways, and goes on.

    Each call names the session, if one is given.
    """
    used: dict[str, Trace] = {}

    def call(name: str, about: object, error: str = "", agent: str = "builder") -> None:
        trace = next(traces)
        used[trace.trace_id] = trace
        attributes = tool_call(name, f'{{"of": "{about}"}}') | {"gen_ai.agent.name": agent}
        if session:
            attributes["gen_ai.conversation.id"] = session
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


def a_trace(session: str, random: Random) -> list[Trace]:
    """Return a session in one trace."""
    return calls(random, repeat(Trace(session, service="agent")))


def a_trace_for_each_call(session: str, random: Random) -> list[Trace]:
    """Return a session of many traces, one after the other."""

    def traces() -> Iterator[Trace]:
        end_s, number = 0.0, 0
        while True:
            trace = Trace(session, name=str(number), service="agent")
            trace.now_s = end_s
            yield trace
            end_s, number = trace.now_s, number + 1

    return calls(random, traces())


def a_trace_that_is_named_last(session: str, random: Random) -> list[Trace]:
    """Return a session that the last span of its trace names."""
    (trace,) = calls(random, repeat(Trace(session, session_key=None, service="agent")))
    named = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": session}
    trace.span("run", None, named, start_s=0.0, end_s=trace.now_s + 0.5)
    return [trace]


def a_trace_of_two_sessions(session: str, random: Random) -> list[Trace]:
    """Return a trace in which two sessions work at once."""
    trace = Trace(session, session_key=None, service="agent")
    for name in (f"{session}-one", f"{session}-two"):
        trace.now_s = random.random()
        calls(random, repeat(trace), name)
    return [trace]


def linked_traces(session: str, random: Random) -> list[Trace]:
    """Return a session that goes on in a trace without its name, which a link ties to it."""
    first = a_trace(session, random)
    then = Trace(session, name="then", session_key=None, service="agent")
    then.now_s = first[0].now_s + random.choice((-5, 1))
    then.span("go on", None, {}, links=[(first[0].trace_id, "00" * 8)])
    return [*first, *calls(random, repeat(then))]


KINDS = (
    a_trace,
    a_trace_for_each_call,
    a_trace_that_is_named_last,
    a_trace_of_two_sessions,
    linked_traces,
)


@cache
def looping() -> tuple[Work, ...]:
    """Return tasks with gates, of all kinds."""
    every: list[Work] = []
    for number in range(20 * len(KINDS)):
        traces = KINDS[number % len(KINDS)](f"s{number}", Random(number))
        spans = spans_of(*traces).sort("end_ns")
        turns = turns_of(spans)[0]
        if any(event.type == OPENED for event in detect(turns).events):
            is_tied = KINDS[number % len(KINDS)] is linked_traces
            every.append(Work(tuple(turns["task"].unique().sort()), spans, is_tied))
    return tuple(every)


def live_through(
    night: Night, works: Sequence[Work], random: Random | None, window_s: float
) -> None:
    """Let spans arrive, each somewhat late and some twice, with a few restarts.

    Without randomness they arrive one by one as they end.
    """
    every = pl.concat([work.spans for work in works])
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


def in_order(work: Work, decides_after_s: float | None, file: Path) -> list[object]:
    """Return the outcomes of one feed in order."""
    with GateStore.open(file, [PAGER]) as gates:
        night = Night(gates, decides_after_s)
        live_through(night, [work], None, 0)
        return night.outcomes(work)


def told_otherwise(seed: int, folder: Path, wanted: Wanted) -> list[object]:
    """Return the outcomes of an order that are not those of one feed in order."""
    random = Random(seed)
    decides, window_s = random.choice((None, PATIENT_S)), random.choice(WINDOWS_S)
    works = random.sample(looping(), TASKS)
    with GateStore.open(folder / f"{seed}.db", [PAGER]) as gates:
        night = Night(gates, decides)
        live_through(night, works, random, window_s)
        pairs = [(night.outcomes(work), wanted(work, decides)) for work in works]
        return [*(pair for pair in pairs if pair[0] != pair[1]), *gates._rows(_TWICE)]


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Wanted:
    """Return what returns the outcomes in order, each made when a seed first asks for it."""
    folder = tmp_path_factory.mktemp("in-order")
    known: dict[object, list[object]] = {}

    def wanted(work: Work, decides: float | None) -> list[object]:
        key = (work.tasks, decides)
        if key not in known:
            known[key] = in_order(work, decides, folder / f"{work.tasks[0]} {decides}.db")
        return known[key]

    return wanted


# What was told before a task got a name was told again, or taken for what followed a decision, or
# was not known where other turns opened the gate; in the last a loop was told as withdrawn before
# the next one of its task opened.
FOUND = (275, 1939, 3070, 3855, 9950, 6576)


@pytest.mark.parametrize("seed", [*turn_of(0, FOUND), *seeds(16)])
def test_gates_pages_and_decisions_are_those_of_one_feed_in_order(
    seed: int, wanted: Wanted, tmp_path: Path
) -> None:
    """Nobody decides, or a person who waits until no span can come late."""
    assert told_otherwise(seed, tmp_path, wanted) == []


@pytest.mark.parametrize("seed", seeds(16))
def test_a_hasty_decision_holds(seed: int, tmp_path: Path) -> None:
    """What was decided stays so, and nobody is paged again but for what loops on after it."""
    random = Random(seed)
    works = random.sample(looping(), TASKS)
    with GateStore.open(tmp_path / "gates.db", [PAGER]) as gates:
        night = Night(gates, HASTY_S)
        live_through(night, works, random, random.choice(WINDOWS_S))
        decided = gates.resolutions()
        for work in works:
            turns = with_decisions(turns_of(work.spans)[0], decided, DEFAULT.sameness)
            whole = detect(numbered(turns))
            for task in work.tasks:
                stood, events = night.gates_of(task), [e for e in whole.events if e.task == task]
                opened = {gates._id(event.gate) for event in events if event.type == OPENED}
                said = {gate.id for gate in stood if gate.decision}
                gone = {gate.id for gate in stood if gate not in night.standing(task, work)}

                assert sum(map(night.pages, stood)) <= len(said | opened | gone)
                assert all(gate.status == "resolved" for gate in stood if gate.id in said)
                now = {gates._id(s.gate.id) for s in whole.states if s.task == task and s.gate}
                assert {gate.id for gate in stood if gate.status == "open"} == now


def test_a_late_span_after_a_decision_pages_nobody(tmp_path: Path) -> None:
    """The first turn of a loop comes last, after a person has decided on the gate."""
    trace = Trace("s1", service="agent")
    for _ in range(8):
        named = tool_call("build")
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
        assert night.pages(after) == 1


def test_webhooks_hear_nothing_of_a_gate_that_is_back_in_time(tmp_path: Path) -> None:
    """Its state changes at once; a withdrawal is told when no span may be late any more."""
    second = Webhook("second", "https://second.example/", secrets=("env:PAGER",))
    states = detect(turns_of(looping()[0].spans)[0])
    gone = [TaskState(state.task) for state in states.states]
    late_ns = LATENESS_S * NS_PER_S

    def record(gates: GateStore, now_ns: int, *, is_open: bool) -> str:
        gates.record(states.events if is_open else (), states.states if is_open else gone, now_ns)
        return gates.gates()[0].status

    with GateStore.open(tmp_path / "gates.db", [PAGER, second]) as gates:
        outbox = Outbox.open(gates.path)
        assert record(gates, 1, is_open=True) == "open"
        assert told(outbox, "pager", 1) == told(outbox, "second", 1) == [OPENED]
        assert record(gates, 2, is_open=False) == "withdrawn"
        assert record(gates, late_ns, is_open=True) == "open"
        assert told(outbox, "pager", 9 * late_ns) == told(outbox, "second", 9 * late_ns) == []

        assert record(gates, 10 * late_ns, is_open=False) == "withdrawn"
        assert told(outbox, "pager", 11 * late_ns - 1) == []
        assert told(outbox, "pager", 11 * late_ns) == ["gate_resolved"]
        assert record(gates, 11 * late_ns - 1, is_open=True) == "open"
        assert told(outbox, "second", 99 * late_ns) == []
        assert told(outbox, "pager", 99 * late_ns) == [OPENED]


def told(outbox: Outbox, endpoint: str, now_ns: int) -> list[str]:
    """Take out the gate events that an endpoint is sent by a time."""
    types: list[str] = []
    while (delivery := outbox.next(endpoint)) and delivery.next_try_ns <= now_ns:
        outbox.delivered(delivery, Tried(0))
        types += [delivery.event.type] if delivery.key else []
    return types
