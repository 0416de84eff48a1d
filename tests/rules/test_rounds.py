"""What goes round between phases, agents and tasks, in the words of the requirements."""

from pathlib import Path

import pytest

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.testing.notation import turns_in
from looptrace.collector.files.reader import read_spans
from looptrace.rules.agents.agent_cycle import AgentCycle
from looptrace.rules.agents.collaboration_loop import CollaborationLoop
from looptrace.rules.attempts.cross_task_cycle import CrossTaskCycle
from looptrace.rules.calls.cycle import Cycle
from looptrace.rules.phases.phase_cycle import PhaseCycle
from looptrace.rules.registry import RULES
from tests.drivers import batch, live, ruleset
from tests.otlp import Trace

requirement = pytest.mark.requirement


@requirement("D3")
def test_message_of_a_phase_cycle() -> None:
    """The pattern is written twice, as it was seen, and asks for a gate."""
    turns = turns_in("(#fix edit(a, {n})->ok #test test({n})->ok) x2")
    (finding,) = batch(turns, [PhaseCycle()])

    assert finding.reason == "Oscillating cycle detected: fix→test→fix→test, turns 1–4"
    assert finding.action == "gate"
    assert live(turns, [PhaseCycle()]) == [finding]


@requirement("D3")
def test_a_single_pass_is_no_cycle() -> None:
    """However long it is, and with one step back."""
    turns = turns_in("#a x()->1 #b x()->1 #c x()->1 #d x()->1 #c x()->1 #e x()->1")

    assert batch(turns, [PhaseCycle(max_cycle_length=8)]) == []


@requirement("D6")
def test_tool_names_are_states_where_no_phases_are_declared() -> None:
    """A round of tools is a cycle where its calls and results come again; else it is work."""
    stuck = "(edit(a)->ok test(a)->failed) x3"
    at_work = "(edit(a, {n})->ok test(a)->failed) x3"

    assert [f.period for f in batch(turns_in(stuck), [Cycle(), PhaseCycle()])] == [2]
    assert batch(turns_in(at_work), [Cycle(), PhaseCycle()]) == []


@requirement("D6")
def test_agent_names_are_states_of_several_agents() -> None:
    """A ping-pong of equal requests is found by its answers, or by its length without them."""
    told = '(@a handoff(b, "Fix it.")->no @b handoff(a, "Try it.")->yes) x2'
    untold = told.replace("->no", "").replace("->yes", "").replace("x2", "x4")
    rules = [AgentCycle(), CollaborationLoop()]

    assert [f.rule for f in batch(turns_in(told), rules)] == ["agent_cycle"]
    assert [f.rule for f in batch(turns_in(untold), rules)] == ["collaboration_loop"] * 2


def between_tasks(folder: Path, work: str) -> list[Finding]:
    """Record attempts at two tasks of one session, in turn, and judge the spans."""
    trace = Trace("session-1")
    for number in range(4):
        for task, blocker in (("form", "mail"), ("mail", "form")):
            said = {
                "looptrace.task.id": task,
                "looptrace.task.status": "blocked",
                "looptrace.blockers": [blocker],
                "looptrace.completed_work": work.format(number),
            }
            trace.span("attempt", attributes=said)
    path = folder / "trace.jsonl"
    path.write_text(trace.lines())
    return list(
        analyse(
            read_spans([str(path)]).spans, policy=DetectionPolicy(ruleset([CrossTaskCycle()]))
        ).findings
    )


@requirement("B10")
def test_a_loop_across_tasks_belongs_to_their_session(tmp_path: Path) -> None:
    """Two tasks that wait for each other are attempted in turn, and neither gets on."""
    (finding,) = between_tasks(tmp_path, "nothing")

    assert (finding.task, finding.period, finding.attempts) == ("session-1", 2, 4)
    assert finding.action == "warn"


@requirement("B10")
def test_tasks_that_get_on_are_no_loop(tmp_path: Path) -> None:
    """Going to and fro is a way of working."""
    assert between_tasks(tmp_path, "page {}") == []


@requirement("C5")
def test_guards_stand_around_the_loops() -> None:
    """First the turns and the time of a task, then loops, then failures in a row."""
    names = [rule.name for rule in RULES]

    assert names[:2] == ["max_iterations", "max_runtime"]
    assert names[-1] == "consecutive_errors"


@requirement("C5")
@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ('read({n})->"text {n}" x1001', "max_iterations (1000) with 1001 turns"),
        ('(~200 read({n})->"text {n}") x145', "max_runtime (28800 s) with 145 turns"),
        ('run({n})->!"boom {n}" x11', "consecutive_errors (10) with 11"),
    ],
)
def test_a_guard_says_which_one_it_is(turns: str, said: str) -> None:
    """What was exceeded, the bound, and by how much."""
    guards = [rule() for rule in RULES if rule.name.startswith(("max_", "consecutive_"))]
    (finding,) = batch(turns_in(turns), guards)

    assert said in finding.reason
    assert finding.action == "gate"
