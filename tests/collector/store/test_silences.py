"""A silence holds gates back from webhooks, and never from their agents."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.gates.decisions import GateError
from looptrace.analyzer.gates.incidents import IncidentWord
from looptrace.analyzer.gates.silences import HOURS_MAX, Inhibition, Matchers, NoSilenceError
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.outbox import Outbox
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.store.recorded_gates import CALL, HOOKS, recorded, turns_of

HOUR_NS = 3_600 * NS_PER_S
(SIGNATURE,) = {each.signature for each in detect(turns_of(f"{CALL} x9")).events if each.gate}


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[GateStore]:
    """Return a new store whose events go to two webhooks."""
    with GateStore.open(tmp_path / "gates.db", HOOKS) as store:
        yield store


def opened(store: GateStore, task: str) -> str:
    """Let a task loop; return its gate."""
    recorded(store, f"{CALL} x9", task, time.time_ns())
    return next(gate.id for gate in store.gates("open") if gate.task == task)


def decided(store: GateStore, task: str) -> None:
    """Decide on the gate of a task, which takes effect."""
    (gate,) = store.gates("open", task)
    store.resolve(gate.id, "reviewed", None)
    recorded(store, f"{CALL} x9", task, time.time_ns())


def due(store: GateStore, at_ns: int | None = None) -> set[tuple[str, str]]:
    """Return what webhooks hear by a time: the types and tasks of events."""
    at_ns = time.time_ns() if at_ns is None else at_ns
    rows = store._rows(
        "SELECT type, task FROM outbox JOIN events ON id = event WHERE next_try_ns <= ?", at_ns
    )
    return {(kind, task) for kind, task in rows}


def in_an_hour() -> int:
    """Return the time in an hour."""
    return time.time_ns() + HOUR_NS


GATE = "gate_opened"


@pytest.mark.parametrize(
    ("matchers", "holds"),
    [
        (Matchers(rule="repeated_call"), True),
        (Matchers(tool="run"), True),
        (Matchers(rule="repeated_call", tool="run"), True),
        (Matchers(rule="repeated_call", tool="look"), False),
        (Matchers(agent="scout"), False),
        (Matchers(service="shop"), False),
        (Matchers(incident="ffff"), False),
    ],
)
def test_matching_gates_are_held_back(gates: GateStore, matchers: Matchers, holds: bool) -> None:
    """All matchers must hold; warnings of the loop are not sent at all; the agent is told."""
    gates.silence(matchers, in_an_hour(), "we know", "Ada")
    gate = opened(gates, "t1")
    assert (due(gates) == set()) is holds
    assert ((GATE, "t1") in due(gates)) is not holds
    assert gates.gate(gate).gate.status == "open"
    assert GATE in {event.type for _, event in gates.events()}  # What agents follow.
    assert [each.held for each in gates.silences()] == [int(holds)]
    assert ((GATE, "t1") in due(gates, in_an_hour())) is True
    with Outbox.open(gates.path) as outbox:
        states = {(each.silenced, bool(each.pending)) for each in outbox.endpoints()}
    assert states == {(int(holds), not holds)}


def test_what_waits_when_a_silence_is_made_or_ends(gates: GateStore) -> None:
    """It holds what was not delivered yet; its end sends what still waits for a person."""
    opened(gates, "t1")
    opened(gates, "t2")
    made = gates.silence(Matchers(tool="run"), in_an_hour(), "we know")
    assert (made.held, (GATE, "t1") in due(gates)) == (2, False)
    longer = gates.silence(Matchers(rule="repeated_call"), in_an_hour() + HOUR_NS, "the same")
    assert [each.held for each in gates.silences()] == [0, 2]
    gates.end_silence(longer.id)
    assert [each.held for each in gates.silences()] == [2]
    decided(gates, "t1")  # Nobody heard of it, and nobody hears of its end.
    assert [each.held for each in gates.silences()] == [1]
    gates.end_silence(made.id)
    assert gates.silences() == []
    assert {each for each in due(gates) if each[0].startswith("gate")} == {(GATE, "t2")}
    with pytest.raises(NoSilenceError, match="no silence"):
        gates.end_silence(made.id)
    decided(gates, "t2")
    assert ("gate_resolved", "t2") in due(gates)


def test_a_silence_of_no_rule_is_refused(gates: GateStore) -> None:
    """A mistyped rule would silence nothing, and nobody would learn of it."""
    with pytest.raises(GateError, match="Did you mean repeated_call"):
        gates.silence(Matchers(rule="repeatd_call"), in_an_hour(), "we know")


def test_the_end_of_a_gate_that_was_told_is_not_silenced(gates: GateStore) -> None:
    """A pager that rang must stop ringing."""
    opened(gates, "t1")
    gates._sql.execute("DELETE FROM outbox")  # It was delivered.
    gates.silence(Matchers(tool="run"), in_an_hour(), "we know")
    (gate,) = gates.gates("open")
    gates.tell_unanswered(gate.id, 1, (), time.time_ns())
    assert due(gates, in_an_hour()) == set()  # A reminder is of its moment only.
    decided(gates, "t1")
    assert ("gate_resolved", "t1") in due(gates)


def test_a_muted_incident_is_silent_until_it_is_not(gates: GateStore) -> None:
    """A mute is a silence of one incident."""
    opened(gates, "t1")
    (incident,) = gates.incidents()
    gates.say(incident.id, IncidentWord(time.time_ns(), "muted", in_an_hour()))
    opened(gates, "t2")
    assert due(gates) - {("loop_detected", "t1"), ("pivot_issued", "t1")} == set()
    gates.say(incident.id, IncidentWord(time.time_ns(), "open"))
    assert {task for kind, task in due(gates) if kind == GATE} == {"t1", "t2"}


def test_a_clock_that_is_set_sends_nothing_that_is_silenced(gates: GateStore) -> None:
    """A silence ends at a time of the day."""
    gates.silence(Matchers(tool="run"), in_an_hour(), "we know")
    opened(gates, "t1")
    with Outbox.open(gates.path) as outbox:
        outbox.reschedule("first", time.time_ns(), 0, HOUR_NS)
    assert (GATE, "t1") not in due(gates)


@pytest.mark.parametrize(
    ("matchers", "hours", "why", "problem"),
    [
        (Matchers(), 1, "we know", "needs a rule"),
        (Matchers(rule="a"), 1, " ", "needs a reason"),
        (Matchers(rule="a"), 0, "we know", "ends within 720 hours"),
        (Matchers(rule="a"), HOURS_MAX + 1, "we know", "ends within 720 hours"),
        (Matchers(rule="a" * 201), 1, "we know", "more than 200"),
        (Matchers(rule="a"), 1, "w" * 1_001, "more than 1000"),
    ],
)
def test_what_is_no_silence(
    gates: GateStore, matchers: Matchers, hours: int, why: str, problem: str
) -> None:
    """A silence of everything, for ever or without a reason is refused."""
    with pytest.raises(GateError, match=problem):
        gates.silence(matchers, time.time_ns() + hours * HOUR_NS, why)


def outage(ends_ns: int, *sessions: str, signature: str | None = None) -> Inhibition:
    """Return an outage of the failure that the tasks repeat, or of another one."""
    return Inhibition(
        "ab12", signature or SIGNATURE, frozenset(sessions), ends_ns, "3 sessions met it"
    )


def openings_due(store: GateStore, at_ns: int | None = None) -> set[str]:
    """Return the tasks of the openings that webhooks hear of by a time."""
    return {task for kind, task in due(store, at_ns) if kind == GATE}


def test_an_outage_holds_back_all_gates_but_its_first(gates: GateStore) -> None:
    """They are sent at its end, which moves while it goes on."""
    ends_ns = in_an_hour()
    gates.note_outages([outage(ends_ns, "t1", "t2", "t3")], time.time_ns())
    for task in ("t1", "t2", "t3", "other"):
        opened(gates, task)
    (made,) = gates.silences()
    assert (made.who, made.held, made.ends_ns) == ("outage ab12", 3, ends_ns)
    assert openings_due(gates) == {"t1"}
    assert openings_due(gates, ends_ns) == {"t1", "t2", "t3", "other"}
    later_ns = ends_ns + HOUR_NS
    gates.note_outages([outage(later_ns, "t1", "t2", "t3", "t4")], time.time_ns())
    assert [each.ends_ns for each in gates.silences()] == [later_ns]
    assert openings_due(gates, ends_ns) == {"t1"}
    gates.silence(Matchers(tool="look"), in_an_hour(), "another")
    assert openings_due(gates) == {"t1"}  # It stays out of the outage's silence.


def test_a_reminder_of_the_first_gate_of_an_outage_is_sent(gates: GateStore) -> None:
    """Nobody has heard of the others, and they would be reminded of what they do not know."""
    gates.note_outages([outage(in_an_hour(), "t1", "t2")], time.time_ns())
    first, second = opened(gates, "t1"), opened(gates, "t2")
    for gate in (first, second):
        gates.tell_unanswered(gate, 1, (), time.time_ns())
    assert {task for kind, task in due(gates) if kind == "gate_unanswered"} == {"t1"}


def test_a_person_may_end_the_silence_of_an_outage(gates: GateStore) -> None:
    """It is not made again while the outage goes on."""
    gates.note_outages([outage(in_an_hour(), "t1", "t2", "t3")], time.time_ns())
    opened(gates, "t1")
    opened(gates, "t2")
    gates.end_silence(gates.silences()[0].id)
    assert openings_due(gates) == {"t1", "t2"}
    gates.note_outages([outage(in_an_hour() + 1, "t1", "t2", "t3")], time.time_ns())
    opened(gates, "t3")
    assert openings_due(gates) == {"t1", "t2", "t3"}
    assert gates.silences() == []


@pytest.mark.parametrize(
    "of",
    [outage(2**62, "t9"), outage(2**62, "t1", "t2", signature="error:503"), outage(1, "t1", "t2")],
)
def test_what_an_outage_does_not_cause_pages(gates: GateStore, of: Inhibition) -> None:
    """Another session, another failure, or an outage that is over."""
    gates.note_outages([of], time.time_ns())
    opened(gates, "t1")
    opened(gates, "t2")
    assert openings_due(gates) == {"t1", "t2"}
    assert gates.silences() == []
