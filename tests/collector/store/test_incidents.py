"""Incidents in a store: one for all sessions, whatever becomes of its gates."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from looptrace.analyzer.gates.decisions import GateError
from looptrace.analyzer.gates.incidents import IncidentWord, NoIncidentError
from looptrace.collector.store import writer
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.reader import open_gates
from tests.collector.store.recorded_gates import CALL, recorded
from tests.collector.store.stored import call, looping, spans_of
from tests.otlp import Trace

SESSIONS = 100
OTHER = "look(b)->same"
LATE_NS = 10**19 // 2  # after every turn of the notation


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[GateStore]:
    """Return a store in which three tasks loop alike and one otherwise."""
    with GateStore.open(tmp_path / "gates.db") as store:
        for task in ("t1", "t2", "t3"):
            recorded(store, f"{CALL} x9", task)
        recorded(store, f"{OTHER} x9", "u1")
        yield store


def test_the_same_failure_of_a_hundred_sessions_is_one_incident(tmp_path: Path) -> None:
    """It has a hundred gates; another service is another incident."""
    shop = Trace("other", service="shop")
    traces = [looping(f"s{n}", f"2026-03-{n % 28 + 1:02}T09:00:00Z") for n in range(SESSIONS)]
    for _ in range(8):
        call(shop)
    writer.ingest(spans_of(*traces, shop), tmp_path)
    with open_gates(tmp_path) as gates:
        first, *others = sorted(gates.incidents(), key=lambda each: -each.gates)
        assert (first.tasks, first.gates, first.gates_open) == (SESSIONS, SESSIONS, SESSIONS)
        assert (first.tool, first.family, first.state) == ("run_tests", "calls", "open")
        assert first.first_ns < first.last_ns
        assert first.seconds > 0
        assert {each.service for each in others} == {"shop"}
        details = gates.incident(first.id[:6])
        assert {gate.incident for gate in details.gates} == {first.id}
        assert len(details.gates) == SESSIONS


def test_one_decision_ends_all_gates_of_an_incident_and_no_later_one(gates: GateStore) -> None:
    """Each gate has a decision of its own; the incident is back with the next gate."""
    (same,) = [each for each in gates.incidents() if each.gates == 3]
    decided = gates.resolve_incident(same.id, "reviewed", "The key is new.", "Ada")
    listed = gates.gates()
    assert {gate.id for gate in listed if gate.decision} == set(decided)
    assert {gate.task for gate in listed if gate.decision} == {"t1", "t2", "t3"}
    by = {(gate.decision, gate.note, gate.resolved_by) for gate in listed if gate.decision}
    assert by == {("reviewed", "The key is new.", "Ada")}
    assert len({each.id for each in gates.resolutions()}) == 3
    assert gates.incident(same.id).incident.state == "resolved"
    with pytest.raises(GateError, match="no gate of incident"):
        gates.resolve_incident(same.id, "reviewed", None)
    for task in ("t1", "t2", "t3"):
        recorded(gates, f"{CALL} x9", task)  # The decisions take effect.
    details = gates.incident(same.id)
    assert [note.note for note in details.notes] == ["The key is new."]
    assert details.incident.state == "resolved"
    gates._sql.execute("UPDATE gates SET resolved_ns = 1 WHERE status = 'resolved'")
    recorded(gates, f"{CALL} x9", "t4")
    after = gates.incident(same.id)
    assert (after.incident.state, after.incident.gates_open) == ("back_again", 1)
    assert [gate.task for gate in after.gates if gate.decision is None] == ["t4"]


def test_a_gate_that_was_decided_alone_keeps_its_decision(gates: GateStore) -> None:
    """Only gates that wait are decided on with the incident."""
    (same,) = [each for each in gates.incidents() if each.gates == 3]
    (alone,) = gates.gates("open", "t1")
    gates.resolve(alone.id, "cancel", "enough", who="Bo")
    assert alone.id not in gates.resolve_incident(same.id, "reviewed", None, "Ada")
    decided = {gate.task: (gate.decision, gate.resolved_by) for gate in gates.gates()}
    assert decided["t1"] == ("cancel", "Bo")
    assert decided["t2"] == decided["t3"] == ("reviewed", "Ada")
    assert len(gates.resolutions()) == 3


def test_what_people_say_of_an_incident_is_kept(gates: GateStore) -> None:
    """Owner and state are those of the last word that named them."""
    (same,) = [each for each in gates.incidents() if each.gates == 3]
    now_ns = time.time_ns()
    gates.say(same.id, IncidentWord(now_ns, owner="Ada\u202e", who="Bo"))
    gates.say(
        same.id, IncidentWord(now_ns, "acknowledged", who="Ada", why="api_key=sk-proj-abcdefgh1234")
    )
    said = gates.say(same.id, IncidentWord(now_ns, "muted", LATE_NS, who="Ada", why="known"))
    assert (said.state, said.owner, said.said_by) == ("muted", "Ada\ufffd", "Ada")
    assert (said.until_ns, said.why) == (LATE_NS, "known")
    assert gates.incident(same.id, LATE_NS).incident.state == "open"
    assert len(gates.incident(same.id).words) == 3
    assert "abcdefgh1234" not in str(gates.incident(same.id).words[1].why)
    assert gates.say(same.id, IncidentWord(now_ns, owner="")).owner is None
    assert gates.say(same.id, IncidentWord(now_ns, "resolved")).state == "resolved"
    assert [each.state for each in gates.incidents()] == ["open", "resolved"]
    assert [each.id for each in gates.incidents("resolved")] == [same.id]
    recorded(gates, f"{CALL} x9", "t4")
    assert gates.incident(same.id).incident.state == "resolved"  # It opened before that was said.
    with pytest.raises(NoIncidentError, match="there is no incident 'ffff"):
        gates.say("ffff" * 4, IncidentWord(now_ns, "resolved"))
    with pytest.raises(GateError, match="more than 100 characters"):
        gates.say(same.id, IncidentWord(now_ns, owner="a" * 101))


def test_a_gate_that_gets_its_agent_late_goes_to_that_agents_incident(gates: GateStore) -> None:
    """The incident of a gate is always that of what is now known of it."""
    (event,) = [each for _, each in gates.events(task="t1") if each.type == "gate_opened"]
    gates.add_agents([replace(event, agent="scout")], event.at_ns)
    by_agent = {(each.agent, each.gates) for each in gates.incidents() if each.tool == "run"}
    assert by_agent == {("", 2), ("scout", 1)}


def test_an_incident_is_back_in_another_version(tmp_path: Path) -> None:
    """Gates have the version of their service, also where a later detection does not know it."""
    old = looping("s1", service="shop", version="1.4.2")
    writer.ingest(spans_of(old), tmp_path)
    with open_gates(tmp_path) as gates:
        (same,) = gates.incidents()
        assert (same.versions, same.resolved_in, same.back_in) == (("1.4.2",), "", "")
        gates.say(same.id, IncidentWord(0, "resolved"))
        assert gates.incident(same.id).incident.resolved_in == "1.4.2"
        (opening,) = [each for _, each in gates.events() if each.type == "gate_opened"]
        gates.record([replace(opening, agent="scout", service_version="")], [], 0)
        assert gates.gate(opening.gate).gate.service_version == "1.4.2"
        gates.record([opening], [], 0)
    new = (looping(f"s{n}", f"2026-03-0{n}T09:00:00Z", service="shop") for n in (2, 3))
    newer = looping("s4", "2026-03-04T09:00:00Z", service="shop", version="1.5.0")
    writer.ingest(spans_of(*new, newer), tmp_path)
    with open_gates(tmp_path) as gates:
        back = gates.incident(same.id).incident
        assert (back.state, back.versions) == ("back_again", ("1.4.2", "1.5.0"))
        assert (back.resolved_in, back.back_in) == ("1.4.2", "1.5.0")
