"""Which findings are one loop, which comes first, and which are known from a baseline."""

from dataclasses import replace
from pathlib import Path

import pytest

from looptrace.analyzer.detect.loops import CountedLoop, loops_in
from looptrace.analyzer.report.ci import Loops, baseline_of
from looptrace.analyzer.report.html import html_report
from looptrace.analyzer.report.json import json_report
from looptrace.analyzer.report.wording import GROUPS_SHOWN_MAX, shown_of
from tests.analyzer.report.contents import analysis, finding, printed


def test_rules_that_see_the_same_loop_are_one_block() -> None:
    """The model turns that ask and the tool turns that fail are one loop, though none is shared."""
    call = finding()
    signature = finding("signature_repeat", action="warn")
    response = finding("response_repeat", (1, 3, 5, 7, 9), "pivot")

    shown = loops_in([signature, response, call])

    assert shown == [CountedLoop(call, (response, signature))]
    assert shown[0].also == "response_repeat, signature_repeat"


@pytest.mark.parametrize(
    ("turns", "count"), [((5, 6, 7, 8), 1), ((8, 9), 1), ((9, 10, 11, 12), 2), ((20, 21), 2)]
)
def test_half_of_the_smaller_stretch_makes_one_loop(turns: tuple[int, ...], count: int) -> None:
    """Two loops that follow one another may touch, and stay two."""
    lead = finding(turns=(1, 2, 3, 4, 5, 6, 7, 8, 9))
    if turns == (8, 9):
        lead = finding(turns=(1, 2, 3, 4, 5, 6, 7, 8))

    assert len(loops_in([lead, finding("cycle", turns, "warn")])) == count


def test_agents_side_by_side_are_two_loops() -> None:
    """Two sub-agents that loop at the same time need two people to look, or one to look twice."""
    other = finding(turns=(3, 5, 7, 9), agent="reviewer")

    assert len(loops_in([finding(), other])) == 2


def test_counters_of_the_whole_task_join_the_agent_that_shares_their_turns() -> None:
    """A rule whose lane is the task may name no agent, and still sees the same turns."""
    assert len(loops_in([finding(), finding("signature_repeat", agent="")])) == 1


def test_tasks_are_never_one_loop() -> None:
    """Turn numbers start again in every task."""
    assert len(loops_in([finding(), finding(task="other")])) == 2


def test_strongest_loop_comes_first() -> None:
    """Action counts before attempts, and attempts before the name of the rule."""
    warn = finding("a", (1, 2, 3, 4, 5, 6), "warn", task="a")
    gate = finding("c", (1, 2, 3), "gate", task="b")
    more = finding("d", (1, 2, 3, 4), "gate", task="c")
    named = finding("b", (1, 2, 3), "gate", task="d")

    shown = loops_in([warn, gate, more, named])

    assert [group.lead for group in shown] == [more, named, gate, warn]


def test_loops_beyond_the_bound_are_counted_and_told() -> None:
    """A page of ten thousand loops is useless, but no loop may vanish in silence."""
    many = [finding(task=f"task-{number}") for number in range(GROUPS_SHOWN_MAX + 3)]

    groups = loops_in(many)
    shown, left_over = shown_of(groups)
    assert len(groups) == len(many)

    assert (len(shown), left_over) == (GROUPS_SHOWN_MAX, 3)
    assert "and 3 more loops: all are in --format json" in printed(analysis(*many))
    assert "and 3 more loops: all are in --format json" in html_report(analysis(*many))


def test_the_loop_that_a_guard_stopped_leads() -> None:
    """That a task took too many turns says nothing about why."""
    guard = finding("max_iterations", turns=(1, 2, 3, 4, 5, 6), action="gate")
    loop = finding("repeated_call", turns=(2, 3, 4), action="warn")

    (group,) = loops_in([guard, loop])

    assert (group.lead, group.others) == (loop, (guard,))
    assert [group.lead for group in loops_in([guard])] == [guard]


def test_a_loop_without_a_signature_is_known_in_its_task_alone(tmp_path: Path) -> None:
    """Else one of them in a baseline would let all others of its rule pass."""
    blank = replace(finding(), signature="")
    baseline = tmp_path / "known.json"
    for task, count in (("fix-cart", 0), ("another", 1)):
        baseline.write_text(json_report(analysis(replace(blank, task=task))))
        assert len(Loops(analysis(blank), baseline_of(baseline)).new) == count
