"""Overrides: where a turn's phase, agent, kind of task or tool lets a rule judge otherwise."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.ruleset import Override, RuleSet
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.live import LiveEngine
from looptrace.analyzer.engine.live_task import HORIZON_S
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.analyzer.settings.sections import parsed
from looptrace.analyzer.text.payloads import canonical
from looptrace.analyzer.tuning.explain import progress_of
from looptrace.rules.calls.repeated_call import RepeatedCall
from looptrace.rules.calls.repeated_failure import RepeatedFailure
from looptrace.rules.contract import Rung
from looptrace.rules.guards.max_iterations import MaxIterations
from looptrace.rules.phases.phase_visits import PhaseVisits
from looptrace.rules.responses.response_repeat import ResponseRepeat
from tests.drivers import findings_of
from tests.turn_rows import turns_with

LENIENT = RepeatedCall(attempts_min=5)
GATED = RepeatedCall(ladder=(Rung(3, "gate"),))
Step = dict[str, Any]


def steps(count: int, **about: Any) -> list[Step]:
    """Make equal calls that fail the same way."""
    return [about] * count


def turns(*parts: list[Step], gap_s: int = 1) -> pl.DataFrame:
    """Make one task of the parts, so long between its turns."""
    failed = {"failed": True, "error": "expected 42", "error_kind": "other"}
    usual = {"agent": "a", "arguments": "x", "result": "1"} | failed
    return turns_with(*(usual | step for part in parts for step in part), gap_s=gap_s)


def found(table: pl.DataFrame, rule_set: RuleSet) -> list[Finding]:
    """Judge by both drivers, which must agree."""
    engine = LiveEngine(DetectionPolicy(rule_set))
    for row in range(table.height):
        engine.feed(table[row])
    findings = findings_of(table, rule_set)

    assert engine.findings() == findings
    assert len({finding.id for finding in findings}) == len(findings)
    return findings


def spans(findings: list[Finding]) -> list[tuple[str, int, int]]:
    """Return of each finding the rule, and its first and last turn."""
    return [(finding.rule, finding.turn_first, finding.turn_last) for finding in findings]


def overriding(override: Override, *rules: Any) -> RuleSet:
    """Judge by repeated_call, or by other rules, with one override."""
    return RuleSet(rules or (RepeatedCall(),), (override,))


SELECTORS = {"phase": "refine", "agent": "b", "task_kind": "setup", "tool": "get_status"}
COLUMNS = {"tool": "name"}


@pytest.mark.requirement("D5")
@pytest.mark.parametrize(("selector", "value"), SELECTORS.items())
def test_each_selector_chooses_its_turns(selector: str, value: str) -> None:
    """Four calls are no loop where five are allowed, and a loop everywhere else."""
    rule_set = overriding(Override({"repeated_call": LENIENT}, **{selector: value}))
    here = {COLUMNS.get(selector, selector): value}

    assert spans(found(turns(steps(4)), rule_set)) == [("repeated_call", 1, 4)]
    assert found(turns(steps(4, **here)), rule_set) == []
    assert spans(found(turns(steps(5, **here)), rule_set)) == [("repeated_call", 1, 5)]


def test_a_signature_chooses_the_turns_that_findings_name_by_it() -> None:
    """Other arguments of the same tool, and texts of models, have signatures of their own."""
    works = {"failed": False, "error": None, "error_kind": None}
    says = works | {"kind": "model", "name": "m", "arguments": "Go on."}
    pairs = (
        (works | {"arguments": "a"}, works | {"arguments": "b"}),
        (says | {"response": "ab" * 32}, says | {"response": "cd" * 32}),
    )
    rules = (RepeatedCall(), ResponseRepeat())
    for here, other in pairs:
        (finding, *_) = found(turns(steps(9, **here)), RuleSet(rules))
        override = Override({each.name: None for each in rules}, signature=finding.signature)
        assert found(turns(steps(9, **here)), overriding(override, *rules)) == []
        assert found(turns(steps(9, **other)), overriding(override, *rules)) != []


@pytest.mark.parametrize("gap_s", [1, 2 * HORIZON_S])
def test_a_model_chooses_the_turns_of_its_agent_after_a_response(gap_s: int) -> None:
    """A call has no model; that of its agent's last response counts, however long ago that was."""
    rules = (RepeatedCall(), MaxIterations(max_iterations=9))
    override = Override({each.name: None for each in rules}, model="m")
    rule_set = overriding(override, *rules)

    def called(*responses: Step) -> list[str]:
        said = [{"kind": "model", "text": "I try.", "failed": None} | each for each in responses]
        table = turns(said, steps(10, phase="p"), gap_s=gap_s)
        return [finding.rule for finding in found(table, rule_set)]

    both = ["repeated_call", "max_iterations"]
    assert called({"name": "m"}) == []
    assert called({"name": "other"}) == both
    assert called({"name": "m"}, {"name": "other"}) == both
    assert called({"name": "other"}, {"name": "m"}) == []
    assert called({"name": "m", "agent": "b"}) == both
    assert called({"name": "m"}, {"name": None}) == both


def test_every_selector_must_fit() -> None:
    """Two selectors narrow each other; what a turn does not say fits none."""
    override = Override({"repeated_call": None}, phase="refine", task_kind="setup")
    rule_set = overriding(override)

    assert found(turns(steps(4, phase="refine", task_kind="setup")), rule_set) == []
    assert found(turns(steps(4, phase="refine")), rule_set)
    assert found(turns(steps(4, task_kind="setup")), rule_set)


def test_a_tool_is_no_agent_or_model_of_its_name() -> None:
    """A hand-off to `research` is not a call of the tool `research`."""
    handed = {"kind": "handoff", "name": "research", "phase": "p"}
    visits = overriding(
        Override({"phase_visits": None}, tool="research"), PhaseVisits(max_visits=1)
    )
    rounds = [handed, {"phase": "q"}] * 3

    assert "p" in {f.reason.split("'")[1] for f in found(turns(rounds), visits)}


@pytest.mark.requirement("D5")
def test_a_rule_is_off_where_an_override_says_so() -> None:
    """A rule that is off for a phase never fires there, however long the loop."""
    rule_set = overriding(Override({"repeated_call": None}, phase="refine"))

    assert found(turns(steps(9, phase="refine")), rule_set) == []
    assert spans(found(turns(steps(2), steps(9, phase="refine")), rule_set)) == []
    before = found(turns(steps(3), steps(9, phase="refine")), rule_set)
    assert spans(before) == [("repeated_call", 1, 3)]


@pytest.mark.requirement("D5")
def test_a_rule_is_on_only_where_an_override_says_so() -> None:
    """A rule that is off elsewhere fires for the phase; turns before it count as evidence."""
    rule_set = RuleSet((), (Override({"repeated_call": RepeatedCall()}, phase="refine"),))

    assert found(turns(steps(9)), rule_set) == []
    assert spans(found(turns(steps(4), steps(1, phase="refine")), rule_set)) == [
        ("repeated_call", 3, 5)
    ]


def test_the_last_that_fits_wins_for_each_rule() -> None:
    """A later override of another rule leaves what an earlier one says of this one."""
    overrides = (
        Override({"repeated_call": None, "repeated_failure": None}, phase="refine"),
        Override({"repeated_call": RepeatedCall(attempts_min=2)}, agent="b"),
        Override({"phase_visits": None}, agent="b"),
    )
    rule_set = RuleSet((RepeatedCall(), RepeatedFailure()), overrides)

    assert spans(found(turns(steps(3, phase="refine", agent="b")), rule_set)) == [
        ("repeated_call", 1, 3)
    ]
    assert found(turns(steps(3, phase="refine")), rule_set) == []


def test_one_loop_stays_one_finding_when_what_holds_changes() -> None:
    """The words and the action are those that hold at its last firing turn."""
    override = Override({"phase_visits": PhaseVisits(max_visits=4)}, task_kind="setup")
    rule_set = overriding(override, PhaseVisits(max_visits=1))
    rounds = [{"phase": "p"}, {"phase": "q"}]
    setup = [step | {"task_kind": "setup"} for step in rounds]
    visits = found(turns(rounds * 3, setup * 3), rule_set)

    assert [(f.attempts, f.turn_first, "(4)" in f.reason) for f in visits] == [
        (6, 3, True),
        (6, 4, True),
    ]
    gated = overriding(Override({"repeated_call": GATED}, phase="refine"))
    ends = [found(turns(steps(3), steps(n, phase="refine")), gated)[0] for n in (0, 1)]
    assert [end.action for end in ends] == ["warn", "gate"]
    assert len({end.id for end in ends}) == 1


def test_live_keeps_as_many_turns_as_any_form_looks_back_on() -> None:
    """Where turns settle one by one, the most lenient form still sees its whole loop."""
    rule_set = overriding(Override({"repeated_call": LENIENT}, phase="refine"))
    # A gate shows failures, so that they are kept whatever the rules look back on.
    fine = {"failed": False, "error": None, "error_kind": None, "tests_failed": 1}
    apart = turns(steps(6, phase="refine", **fine), gap_s=2 * HORIZON_S)

    assert spans(found(apart, rule_set)) == [("repeated_call", 1, 6)]


def told(table: pl.DataFrame, rule_set: RuleSet) -> list[tuple[str | None, int]]:
    """Return which actions were told at which turn, by both drivers."""
    engine = LiveEngine(DetectionPolicy(rule_set))
    live = [event for row in range(table.height) for event in engine.feed(table[row]).events]

    assert tuple(live) == detect(table, DetectionPolicy(rule_set)).events
    return [(event.action, event.turn) for event in live]


@pytest.mark.requirement("D5")
def test_gates_decide_by_what_holds_at_the_turn() -> None:
    """Ladder and threshold of an action are those of the turn, and not those of the first."""
    gated = overriding(Override({"repeated_call": GATED}, phase="refine"))
    assert told(turns(steps(3), steps(2, phase="refine")), gated) == [("warn", 3), ("gate", 4)]
    pivots = RepeatedCall(ladder=(Rung(3, "pivot"),))
    later = replace(pivots, attempts_min=5)
    lenient = overriding(Override({"repeated_call": later}, phase="refine"), pivots)
    assert told(turns(steps(3), steps(6, phase="refine")), lenient) == [("pivot", 3), ("pivot", 8)]


def test_failures_count_across_phases_of_other_windows() -> None:
    """What fails where the rule is off is evidence for where it is on."""
    rule_set = overriding(Override({"repeated_failure": None}, phase="refine"), RepeatedFailure())
    (one,) = found(turns(steps(2), steps(3, phase="refine"), steps(1)), rule_set)

    assert (one.attempts, one.turn_first, one.turn_last) == (6, 1, 6)


def test_explain_shows_what_was_needed_at_each_turn() -> None:
    """An explanation names the threshold that held, and where the rule was off."""
    overrides = (
        Override({"repeated_call": LENIENT}, phase="refine"),
        Override({"repeated_call": None}, phase="talk"),
    )
    table = turns(steps(2), steps(1, phase="refine"), steps(1, phase="talk"))
    (one,) = progress_of(table, RuleSet((RepeatedCall(),), overrides))

    assert one.reached == (1, 2, 3, None)
    assert one.needed[:3] == (3, 3, 5)
    assert one.furthest == 2
    fired = turns(steps(3), steps(1, phase="refine"))
    (one,) = progress_of(fired, RuleSet((RepeatedCall(),), overrides))
    assert one.furthest == 2


ITERATIVE = b"""
[phases.refine]
converges_on = "tests_failed"
[rules.phase_visits]
max_visits = 3
[rules.transition_repeats]
max_transitions = 3
"""


COUNTING = ("phase_visits", "transition_repeats")


def rounds_of(failing: list[int]) -> pl.DataFrame:
    """Refine and look again, with so many failing tests in each round."""
    visits: list[list[Step]] = [
        [{"phase": "refine", "tests_failed": n, "result": str(i)}, {"phase": "look", "name": "ls"}]
        for i, n in enumerate(failing)
    ]
    return turns(*visits)


def first_flagged(table: pl.DataFrame, rule_set: RuleSet) -> dict[str, int]:
    """Return by rule the first turn at which entering `refine` was once too often."""
    entered = [f for f in found(table, rule_set) if table["phase"][f.turn_last - 1] == "refine"]
    return {f.rule: f.turn_first for f in entered if f.rule in COUNTING}


@pytest.mark.requirement("D7")
def test_an_iterative_phase_is_flagged_when_it_stops_getting_better() -> None:
    """Ten visits that each fix a test are work; the fourth without a better figure is a loop."""
    declared = parsed(ITERATIVE, "looptrace.toml").policy.rule_set
    plain = parsed(ITERATIVE.replace(b"refine", b"other"), "looptrace.toml").policy.rule_set
    better = rounds_of(list(range(10, 0, -1)))
    stuck = rounds_of([5, 4, 3, 3, 3, 3, 3])

    assert first_flagged(better, plain) == {"phase_visits": 7, "transition_repeats": 9}
    assert first_flagged(better, declared) == {}
    assert first_flagged(stuck, plain) == {"phase_visits": 7, "transition_repeats": 9}
    assert first_flagged(stuck, declared) == {"phase_visits": 11, "transition_repeats": 11}


@pytest.mark.parametrize(("better", "sign"), [("lower", 1), ("higher", -1)])
def test_a_phase_converges_on_a_metric_of_ones_own(better: str, sign: int) -> None:
    """Each round with a better figure counts from 1 again; figures of other phases do not count."""
    text = ITERATIVE.replace(b'"tests_failed"', f'"loss"\nbetter = "{better}"'.encode())
    declared = parsed(text, "looptrace.toml").policy.rule_set

    def rounds(losses: list[float]) -> pl.DataFrame:
        told = [canonical({"loss": sign * loss}) for loss in losses]
        visits: list[list[Step]] = [
            [
                {"phase": "refine", "metrics": metrics, "result": str(i)},
                {"phase": "look", "name": "ls", "metrics": '{"loss":-99.5}'},
            ]
            for i, metrics in enumerate(told)
        ]
        return turns(*visits)

    better_each = [0.9 - n / 10 for n in range(10)]
    assert first_flagged(rounds(better_each), declared) == {}
    assert first_flagged(rounds([0.5, 0.4, 0.3, 0.3, 0.3, 0.3, 0.3]), declared) == {
        "phase_visits": 11,
        "transition_repeats": 11,
    }
    worse = rounds(better_each[::-1])
    assert first_flagged(worse, declared) == {"phase_visits": 7, "transition_repeats": 9}


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("metric", ["tests_failed", "loss"])
def test_a_visit_to_an_iterative_phase_is_judged_when_it_ends(metric: str) -> None:
    """A figure that ends a visit is better than the last visit's, whatever was asked for it."""
    own = f'"{metric}"' + ('\nbetter = "lower"' if metric == "loss" else "")
    declared = parsed(ITERATIVE.replace(b'"tests_failed"', own.encode()), "looptrace.toml")
    rules = ("phase_cycle", *COUNTING)

    def flagged(figures: list[int]) -> set[str]:
        """Return the rules that flag rounds with these figures, but for visits to `look`."""
        visits = [
            [
                {"phase": "refine", "name": "edit", "arguments": f"{i}", "result": f"{i}"},
                {"phase": "refine", "name": "measure", "arguments": f"{i}", "result": f"{i}"}
                | ({metric: n} if metric in TURN_SCHEMA else {"metrics": canonical({metric: n})}),
                {"phase": "look", "name": "ls", "arguments": f"{i}", "result": f"{i}"},
            ]
            for i, n in enumerate(figures)
        ]
        table = turns(*visits)
        every = found(table, declared.policy.rule_set)
        at = {(f.rule, table["phase"][f.turn_last - 1]) for f in every if f.rule in rules}
        return {rule for rule, phase in at if (rule, phase) != ("phase_visits", "look")}

    assert flagged([10 - n for n in range(10)]) == set()
    assert flagged([5, 4, 3, 3, 3, 3, 3, 3]) == set(rules)
