"""A share of tasks is left alone, so that one can say whether stepping in helps."""

import pytest

from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.report.wording import told_text
from looptrace.analyzer.testing.notation import TASK
from looptrace.rules.attempts.completed_task_revisit import CompletedTaskRevisit
from looptrace.rules.calls.repeated_call import RepeatedCall
from looptrace.rules.guards.max_iterations import MaxIterations
from tests.analyzer.gates.test_state_machine import told

TASKS = [f"task {number}" for number in range(1_000)]
HALF = Recovery(shadow=0.5)


def left_alone(text: str) -> list[GateEvent]:
    """Return the events of turns in a task that is left alone, and check that it is."""
    assert HALF.leaves_alone(TASK)
    return told(text, RepeatedCall(), MaxIterations(max_iterations=8), recovery=HALF)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5])
def test_a_share_of_tasks_is_left_alone(share: float) -> None:
    """The names decide, so that batch, live and every server choose the same ones."""
    chosen = [task for task in TASKS if Recovery(shadow=share).leaves_alone(task)]
    assert len(chosen) == pytest.approx(share * len(TASKS), abs=40)
    more = Recovery(shadow=0.5)
    assert all(more.leaves_alone(task) for task in chosen)


def test_what_would_have_been_done_is_noted_once_and_nothing_is_done() -> None:
    """Without the turns at which others were told, there is nothing to compare."""
    events = left_alone("run(a)->same x7")
    assert [(event.type, event.action, event.turn) for event in events] == [
        ("loop_detected", None, 3),
        ("loop_detected", None, 4),
    ]
    assert all(event.is_left_alone and event.status == "active" for event in events)
    assert told_text(events[0]) == "left alone by repeated_call, at the 3rd time"


def test_a_loop_over_completed_runs_is_noted_once_too() -> None:
    """Attempts go on after the task was completed, and the note with them."""
    events = told("attempt(done) x8", CompletedTaskRevisit(), recovery=HALF)
    assert [(event.type, event.turn) for event in events] == [("loop_detected", 3)]


def test_a_limit_holds_in_a_task_that_is_left_alone() -> None:
    """A comparison must not cost what a limit forbids."""
    events = left_alone("run(a)->same x10")
    assert [event.type for event in events] == ["loop_detected"] * 2 + ["gate_opened"]
    assert events[-1].rule == "max_iterations"
