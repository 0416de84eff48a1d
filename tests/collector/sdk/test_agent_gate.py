"""The state of a task's gate after several events."""

from dataclasses import replace

import pytest

from looptrace.analyzer.gates.notice import GateNotice
from looptrace.collector.sdk.agent_gate import Gates, GateState

requirement = pytest.mark.requirement


def told(gates: Gates, number: int, kind: str = "loop_detected", action: str | None = None) -> None:
    """Apply an event of a turn of the task."""
    decision = "cancel" if kind == "gate_resolved" else None
    notice = GateNotice(f"e{number}", kind, "task", "t" * 32, f"{number:016}", action=action)
    gates.update(replace(notice, directive=action or decision, decision=decision))


@requirement("F4")
def test_the_strongest_directive_stands_first_until_it_is_read() -> None:
    """A warning of one turn later must not hide a pivot that the agent has not seen yet."""
    gates = Gates(lambda: False)
    for number, action in enumerate(("warn", "pivot", "retry_later")):
        told(gates, number, action=action)

    state = gates.state("task")
    assert (state.action, state.directive, state.event) == ("pivot", "pivot", "e2")
    assert state.beside == ("warn", "retry_later")
    told(gates, 3, action="warn")
    state = gates.state("t" * 32)
    assert (state.directive, state.beside) == ("warn", ())


def test_a_gate_and_a_reset_end_what_was_told() -> None:
    """Advice from before a gate or a completed task is about work that is over."""
    gates = Gates(lambda: False)
    told(gates, 1, action="pivot")
    told(gates, 2, "gate_opened", "gate")
    assert (gates.unread_state("task").directive, gates.unread_state("task").beside) == ("gate", ())
    told(gates, 3, "gate_resolved")
    told(gates, 4, "counter_reset")
    assert gates.unread_state("task").directive is None


def test_the_end_of_one_gate_closes_no_other() -> None:
    """A gate is withdrawn when its task has become one with another that waits."""
    gates = Gates(lambda: False)
    at = ("t" * 32, "s" * 16)
    gates.update(GateNotice("e1", "gate_opened", "task", *at, action="gate", gate="g1"))
    gates.update(GateNotice("e2", "gate_resolved", "task", "u" * 32, at[1], gate="g2"))
    assert gates.state("task").open
    gates.update(GateNotice("e3", "gate_resolved", "task", *at, gate="g1"))
    assert not gates.state("task").open


def test_a_warning_closes_no_gate() -> None:
    """An event of another rule, or of a turn evaluated again, is not a decision."""
    gates = Gates(lambda: False)
    told(gates, 1, "gate_opened", "gate")
    told(gates, 2, action="warn")
    told(gates, 3, "counter_reset")
    state = gates.state("task")
    assert (state.open, state.action, state.event) == (True, "gate", "e3")
    told(gates, 4, "gate_resolved")
    assert not gates.state("task").open


@requirement("A18")
def test_a_decision_outlasts_what_follows() -> None:
    """The reset that comes with it says less, and a new loop does not take a cancellation back."""
    gates, states = Gates(lambda: False), list[GateState]()
    gates.on_change(states.append)
    told(gates, 1, "gate_opened", "gate")
    told(gates, 2, "gate_resolved")
    told(gates, 2, "counter_reset")
    assert gates.state("task").directive == "cancel"
    told(gates, 3, action="warn")
    assert (gates.state("task").directive, gates.state("task").is_cancelled) == ("warn", True)
    told(gates, 4, "gate_opened", "gate")
    assert not gates.state("task").is_cancelled
    assert [state.event for state in states] == ["e1", "e2", "e2", "e3", "e4"]
