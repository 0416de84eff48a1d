"""The claims of `explain` about settings are checked by evaluating again."""

import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.report.json import explanation_json
from looptrace.analyzer.testing.notation import turns_in
from looptrace.analyzer.tuning.counterfactuals import Change
from looptrace.analyzer.tuning.explain import GATES_EXPLAINED_MAX, Explanation, explain
from looptrace.rules.attempts.completed_task_revisit import CompletedTaskRevisit
from looptrace.rules.calls.cycle import Cycle
from looptrace.rules.calls.external_failure import ExternalFailure
from looptrace.rules.calls.repeated_call import RepeatedCall
from looptrace.rules.calls.repeated_failure import RepeatedFailure
from looptrace.rules.calls.signature_repeat import SignatureRepeat
from looptrace.rules.contract import Rule, Rung
from looptrace.rules.phases.phase_visits import PhaseVisits
from looptrace.rules.responses.response_repeat import ResponseRepeat
from tests.drivers import findings_of, ruleset
from tests.schemas import conflicts
from tests.seeds import seed_count

requirement = pytest.mark.requirement

SAME_RESPONSE = 'say("No way.", given=error)'


def changed(
    change: Change, value: int, rule_set: RuleSet, recovery: Recovery
) -> RuleSet | Recovery:
    """Apply a change as its reader would."""
    section, *path = change.setting.split(".")
    if section == "recovery":
        given: dict[str, Any] = {path[0]: value}
        return replace(recovery, **given)
    if path[1] == "enabled":
        kept = tuple(rule for rule in rule_set.rules if value or rule.name != path[0])
        return replace(rule_set, rules=kept)
    (rule,) = [rule for rule in rule_set.rules if rule.name == path[0]]
    new: dict[str, Any] = {path[1]: value}
    if path[1].startswith("ladder["):
        place = int(path[1][len("ladder[") : -1])
        assert path[2] == "attempts"
        ladder = list(rule.ladder)
        ladder[place] = Rung(value, ladder[place].action)
        new = {"ladder": tuple(ladder)}
    others = {r.name: r for r in rule_set.rules} | {rule.name: replace(rule, **new)}
    return replace(rule_set, rules=tuple(others.values()))


def gates(turns: pl.DataFrame, rule_set: RuleSet, recovery: Recovery) -> list[int]:
    """Return the turns at which gates are opened."""
    events = detect(turns, DetectionPolicy(rule_set, recovery)).events
    return [event.turn for event in events if event.type == "gate_opened"]


def checked(text: str, *rules: Rule, recovery: Recovery | None = None) -> Explanation:
    """Explain turns in the notation, and hold each claim against judging with the value."""
    turns, rule_set, recovery = turns_in(text), ruleset(rules or None), recovery or Recovery()
    found = explain(turns, DetectionPolicy(rule_set, recovery))
    fired = {finding.rule for finding in findings_of(turns, rule_set)}
    assert {rule.rule for rule in found.rules if rule.fired} == fired
    for name, changes in found.changes.items():
        for change in changes:
            next_to_it = change.then + (1 if change.then < change.now else -1)
            for value, differs in ((change.then, True), (next_to_it, False)):
                tried = changed(change, value, rule_set, recovery)
                assert isinstance(tried, RuleSet)
                fires = name in {finding.rule for finding in findings_of(turns, tried)}
                assert (fires != (name in fired)) == differs, (change, value)
    for gate in found.gates:
        for move in gate.moves:
            tried = changed(move.change, move.change.then, rule_set, recovery)
            if isinstance(tried, RuleSet):
                now = gates(turns, tried, recovery)
            else:
                now = gates(turns, rule_set, tried)
            after = [turn for turn in now if turn > gate.event.turn]
            assert gate.event.turn not in now, move
            assert move.turn == min(after, default=None), move
    return found


def brief(changes: tuple[Change, ...]) -> list[str]:
    """Write changes in short."""
    return [f"{c.setting.removeprefix('rules.')} {c.now} {c.then}" for c in changes]


@requirement("C7")
@pytest.mark.parametrize(
    ("text", "rule", "wanted"),
    [
        ("run(a)->same x2", RepeatedCall(), ["repeated_call.attempts_min 3 2"]),
        ("run(a)->same x7", RepeatedCall(), ["repeated_call.attempts_min 3 8"]),
        ("run(a)->same x7", RepeatedCall(attempts_min=9), ["repeated_call.attempts_min 9 7"]),
        (
            'test()->!"boom" (lint()->!"style {n}" x3 test()->!"boom") x2',
            RepeatedFailure(window=8),
            ["repeated_failure.attempts_min 3 2", "repeated_failure.window 8 9"],
        ),
        (
            "(~3000 attempt(done)) x3",
            CompletedTaskRevisit(),
            [
                "completed_task_revisit.attempts_min 3 2",
                "completed_task_revisit.window_s 3600 6002",
            ],
        ),
        ("(create()->x remove()->y) x4", Cycle(), ["cycle.rounds_min 3 5"]),
        (
            'test()->!"boom" x7',
            RepeatedFailure(),  # Beyond its window attempts are refused.
            ["repeated_failure.attempts_min 3 8"],
        ),
        (
            '(#fix edit({n})->ok #test test()->"{n}") x6',
            PhaseVisits(),
            ["phase_visits.max_visits 10 5"],
        ),
    ],
)
def test_nearest_setting_that_makes_a_difference(text: str, rule: Rule, wanted: list[str]) -> None:
    """A silent rule would fire with it, and one that fired would be silent."""
    assert brief(checked(text, rule).changes[rule.name]) == wanted


@requirement("C7")
@pytest.mark.parametrize("count", range(2, 12))
def test_no_nearer_value_would_do(count: int) -> None:
    """Bisection finds what trying every value finds."""
    turns, rule = turns_in(f"run(a)->same x{count}"), RepeatedCall(attempts_min=5)
    fires = {
        value: bool(findings_of(turns, RuleSet((RepeatedCall(attempts_min=value),))))
        for value in range(2, 14)  # A greater one sees no more.
    }
    nearest = min((v for v in fires if fires[v] != fires[5]), key=lambda v: abs(v - 5))
    (change,) = explain(turns, DetectionPolicy(RuleSet((rule,)))).changes["repeated_call"]

    assert change == Change("rules.repeated_call.attempts_min", 5, nearest)


def test_rule_that_no_setting_silences_says_so() -> None:
    """Beyond the bounds of a setting nothing can be claimed."""
    (change,) = checked("(create()->x remove()->y) x22", Cycle()).changes["cycle"]

    assert change == Change("rules.cycle.enabled", now=True, then=False)


def test_rule_that_saw_nothing_is_not_looked_into() -> None:
    """Fifteen rules with all their settings would take long, and say nothing."""
    found = checked(
        "run(a)->same x2 go({n})->{n} x5", RepeatedCall(), SignatureRepeat(), Cycle(), PhaseVisits()
    )

    assert set(found.changes) == {"repeated_call", "signature_repeat"}


@requirement("C7")
@pytest.mark.parametrize(
    ("text", "rule", "recovery", "wanted"),
    [
        (
            "run(a)->same x9",
            RepeatedCall(),
            Recovery(),
            ["repeated_call.ladder[1].attempts 4 5 at 5", "repeated_call.attempts_min 3 5 at 5"],
        ),
        (
            "run(a)->same x9",
            RepeatedCall(ladder=(Rung(3, "warn"), Rung(4, "pivot"), Rung(6, "gate"))),
            Recovery(max_pivots=0),
            [
                "recovery.max_pivots 0 1 at 6",
                "repeated_call.ladder[1].attempts 4 5 at 5",
                "repeated_call.attempts_min 3 5 at 5",
            ],
        ),
        (
            f"{SAME_RESPONSE} x12",
            ResponseRepeat(),
            Recovery(),
            [
                "recovery.max_pivots 2 3 at 12",
                "response_repeat.ladder[0].attempts 3 4 at 12",
                "response_repeat.attempts_min 3 4 at 12",
            ],
        ),
        (
            "attempt(done) x9",
            CompletedTaskRevisit(),
            Recovery(max_forced=1),
            ["recovery.max_forced 1 2 at 9", "completed_task_revisit.attempts_min 3 4 at 8"],
        ),
    ],
)
def test_what_would_have_moved_a_gate(
    text: str, rule: Rule, recovery: Recovery, wanted: list[str]
) -> None:
    """The setting of recovery, the rung, or the rule's own setting, and where the gate is then."""
    (gate,) = checked(text, rule, recovery=recovery).gates

    assert [f"{brief((move.change,))[0]} at {move.turn}" for move in gate.moves] == wanted


@requirement("C7")
def test_switch_of_recovery_is_a_setting_too() -> None:
    """A task that was gated without authority would have got some."""
    found = checked("attempt(blocked, no key) x6", recovery=Recovery(unblock=False))
    (gate,) = found.gates

    assert gate.moves[0].change.setting == "recovery.unblock"
    assert (gate.moves[0].change.then, gate.moves[0].turn) == (True, 4)


def test_second_gate_is_explained_by_itself() -> None:
    """What a person resolved before is over; the setting must move this gate, not that one."""
    found = checked('run(a)->same x7 user("Use b.") run(b)->same x4', RepeatedCall())

    first, second = found.gates
    assert (first.event.turn, second.event.turn) == (4, 11)
    assert second.moves[0].change == Change("rules.repeated_call.ladder[1].attempts", 4, 5)
    assert second.moves[0].turn is None


def test_gate_that_another_rule_would_open_says_which() -> None:
    """No setting of one rule alone moves it, and a reader must know why."""
    rules = (RepeatedCall(ladder=SignatureRepeat().ladder), SignatureRepeat())
    (gate,) = checked("run(a)->same x6", *rules).gates

    assert gate.moves == ()
    assert gate.without_rule is not None
    assert (gate.without_rule.rule, gate.without_rule.turn) == ("signature_repeat", 5)


def test_gates_explained_are_bounded() -> None:
    """A task that a person sent on a hundred times is explained in seconds."""
    found = checked('(run(a)->same x5 user("Go on.")) x6', RepeatedCall())

    assert len(found.gates) == GATES_EXPLAINED_MAX


PIECES = [
    "run(a)->same x4",
    'test()->!"boom"',
    "look({n})->{n} x2",
    SAME_RESPONSE,
    'user("Go on.")',
    "attempt(blocked, key)",
    "attempt(in_progress)->page",
    "(make()->x drop()->y) x2",
    'fetch()->!"429 Too Many Requests" x2',
]


@given(pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=12))
@settings(max_examples=seed_count(10))
def test_every_claim_holds(pieces: list[str]) -> None:
    """Whatever the turns: with the value it differs, and with the one before it does not."""
    checked(" ".join(pieces))


def test_gate_after_a_while_of_failures_from_outside() -> None:
    """A ladder that asks for time as well as attempts has a setting that moves it too."""
    text = '(~59 fetch(a)->!"429 Too Many Requests") x40'
    (gate,) = checked(text, ExternalFailure()).gates

    assert "rules.external_failure.gate_after_s" in {move.change.setting for move in gate.moves}


@requirement("C7")
def test_explanation_for_machines_keeps_to_its_schema() -> None:
    """It has a turn with what was reached, changes, events, and a gate with what moves it."""
    text = f'go()->1 {SAME_RESPONSE} x10 user("Go.") run(a)->same x6'
    turns = turns_in(text)
    report = json.loads(explanation_json("example", turns, explain(turns)))

    assert conflicts(report, "explain.schema.json") == []
    three_of_three = {"rule": "response_repeat", "attempts": 3, "needed": 3}
    assert three_of_three in report["turns"][3]["reached"]
    assert {rule["rule"]: rule["turn"] for rule in report["rules"]}["response_repeat"] == 11
    assert report["events"][0]["type"] == "pivot_issued"
    assert report["gates"][0]["moves"][0]["setting"] == "recovery.max_pivots"
    del report["gates"][0]["moves"][0]["turn"]
    assert conflicts(report, "explain.schema.json") == [
        "$.gates[0].moves[0]: 'turn' is a required property"
    ]
