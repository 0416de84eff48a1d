"""What people read of a gate: its agent, its silence, its decision, and what was decided before."""

from dataclasses import replace

import pytest

from looptrace.analyzer.fingerprint.equivalence import Sameness
from looptrace.analyzer.fingerprint.similarity import Meaning
from looptrace.analyzer.gates.agent_states import AgentState, by_agent
from looptrace.analyzer.gates.decisions import (
    NOTE_CHARS_MAX,
    GateError,
    check_decision,
    decision_text,
)
from looptrace.analyzer.gates.notes import Signs, likeness
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.gates.resolutions import Resolution, added_in, with_decisions
from looptrace.analyzer.gates.silences import Matchers
from looptrace.analyzer.gates.waiting import Waiting
from looptrace.analyzer.testing.notation import turns_in

AT_NS = 1_767_225_600 * 1_000_000_000
AT = "2026-01-01 00:00:00 UTC"


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (AgentState("waits", AT_NS), f"its agent waits since {AT}"),
        (AgentState("waits", AT_NS, "ada"), f"its agent waits since {AT}, on ada"),
        (AgentState("ended", AT_NS), f"its agent ended at {AT}"),
        (
            AgentState("ended", AT_NS, calls=1),
            f"its agent ended at {AT}, 1 call since the gate opened",
        ),
        (
            AgentState("went_on", AT_NS, calls=2),
            f"its agent went on without asking: 2 calls since the gate opened, the last at {AT}",
        ),
        (AgentState(), "not known whether an agent waits"),
    ],
)
def test_a_gate_says_where_its_agent_is(state: AgentState, text: str) -> None:
    """A person decides first where somebody waits."""
    assert state.text == text
    assert by_agent(AgentState("waits")) <= by_agent(state)
    assert by_agent(None) == by_agent(AgentState())


def test_decisions_are_known_and_notes_are_short() -> None:
    """An unknown word would resolve a gate as if it were a decision."""
    assert [decision_text(word) for word in ("continue", "continue + note", "progress")] == [
        "Go on",
        "Go on, with a note",
        "progress",
    ]
    check_decision("continue", "x" * NOTE_CHARS_MAX)
    with pytest.raises(GateError, match=r"there is no decision 'continu'\. Did you mean continue"):
        check_decision("continu", None)
    with pytest.raises(GateError, match=f"the note has more than {NOTE_CHARS_MAX} characters"):
        check_decision("continue", "x" * (NOTE_CHARS_MAX + 1))


def test_a_silence_and_a_wait_are_said_in_words() -> None:
    """Only what was set is said."""
    assert Matchers(rule="cycle", agent="scout").text == "rule cycle, agent scout"
    assert Waiting().for_agent == Waiting().for_people == ""
    waiting = Waiting(escalate_minutes=9, escalate_to=("pager", "chat"), decide_minutes=20)
    assert waiting.for_people.startswith("pager, chat gets it after 9 minutes; the task ")
    assert waiting.for_agent.startswith("within 20 minutes, the task ")


def test_loops_are_alike_by_their_signatures() -> None:
    """Letters compare the words of signatures; other figures are another loop."""
    letters = Meaning("letters", 60)
    tax = Signs("error:no rate for tax#0123456789abcdef", "")
    other = Signs("error:no rates for taxes#fedcba9876543210", "")
    assert likeness(tax, tax, None) == "same"
    assert likeness(tax, other, letters) == "meaning"
    assert likeness(tax, other, None) is None
    assert likeness(tax, Signs("error:no rate for tax 7", ""), letters) is None
    assert likeness(Signs("", "a"), Signs("", "a"), letters) is None
    assert likeness(tax._replace(coarse="tax"), other._replace(coarse="tax"), None) == "type"
    assert likeness(tax._replace(coarse="tax"), other._replace(coarse="rate"), None) is None


def test_waits_grow_up_to_the_longest() -> None:
    """However many retries there were."""
    recovery = Recovery(retry_after_s=10, retry_factor=3, retry_after_max_s=50)
    assert [recovery.wait_s(retries) for retries in (0, 1, 2, 10**9)] == [10, 30, 50, 50]
    least = Recovery(retry_after_s=1, retry_factor=1, retry_after_max_s=1, history_max=1)
    assert least.wait_s(9) == 1


def test_a_decision_becomes_a_turn_of_the_task_that_its_gate_is_of() -> None:
    """Its task may have got another name since; decisions on other tasks are left out."""
    turns = turns_in("a()->ok")
    ((trace_id, span_id),) = turns.select("trace_id", "span_id").rows()
    said_first = (8, "continue", "Go on.", "tokens", 5.0)
    more = Resolution("g1", "a trace", "s", trace_id, span_id, *said_first)
    here = replace(more, id="g2", at_ns=9, budget="")
    elsewhere = Resolution("g3", "other", "s", "f" * 32, "e" * 16, 9, "cancel", None)
    decided = with_decisions(turns, [more, here, elsewhere], Sameness())
    said = decided.filter(kind="user").sort("start_ns")

    assert set(said["task"]) == set(turns["task"])
    assert said.select("call_id", "name", "text").rows() == [
        ("g1", "continue", "Go on."),
        ("g2", "continue", "Go on."),
    ]
    assert [added_in(result).added for result in said["result"]] == [5.0, None]
    assert with_decisions(decided, [here], Sameness()).equals(decided)
