"""What is recorded of gates, and what a decision changes."""

import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.engine.batch import detect
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
from looptrace.collector.store import reader, writer
from looptrace.collector.store.gate_metrics import AgentMetrics, metrics_of
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.reader import open_gates
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.store.recorded_gates import (
    CALL,
    NOW_NS,
    SAME_RESPONSE,
    assert_sound,
    content,
    recorded,
    turns_of,
)
from tests.collector.store.stored import call, looping, spans_of
from tests.otlp import Trace

requirement = pytest.mark.requirement


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
        ('handoff(B, "Review the code.")->ok x5', 'handoff(B, "Review the code.")->ok x5', "same"),
        ('handoff(B, "Review the code.")->ok x5', 'handoff(B, "Count the rows.")->ok x5', "type"),
        ('handoff(B, "Review the code.")->ok x5', 'handoff(C, "Count the rows.")->ok x5', ""),
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
