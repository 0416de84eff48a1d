"""The contract that every rule keeps, and the examples in its docstring."""

import dataclasses
from collections import Counter
from typing import Any

import pytest

from looptrace.analyzer.testing.notation import tasks_in, turns_in
from looptrace.errors import InstallError
from looptrace.rules.calls.persistent_failure import PersistentFailure
from looptrace.rules.calls.repeated_call import RepeatedCall
from looptrace.rules.calls.repeated_failure import RepeatedFailure
from looptrace.rules.calls.stutter import Stutter
from looptrace.rules.contract import ACTIONS, Evaluation, Rule, Rung, SettingError
from looptrace.rules.docs import examples, summary
from looptrace.rules.registry import RULES
from looptrace.rules.turns import Lane
from tests.drivers import batch
from tests.rules.models import ready


@pytest.mark.parametrize("rule", RULES)
def test_examples_are_what_their_page_calls_them(rule: type[Rule]) -> None:
    """What a rule's page calls a loop is found, and as one finding; all else is left alone."""
    looping, others = examples(rule, "Looping"), examples(rule, "Not looping")
    found = batch(tasks_in({text: text for text in (*looping, *others)}), [ready(rule)])
    assert Counter(finding.task for finding in found) == Counter(looping)
    assert not {*looping} & {*others}


@pytest.mark.parametrize("rule", RULES)
def test_rule_has_a_page(rule: type[Rule]) -> None:
    """A rule without a summary and examples of both kinds cannot be understood or tested."""
    assert summary(rule).endswith(".")
    assert examples(rule, "Looping")
    assert examples(rule, "Not looping")


@pytest.mark.parametrize("rule", RULES)
def test_settings_have_bounds(rule: type[Rule]) -> None:
    """A value outside its bounds is refused with a sentence that names rule, field and bounds."""
    for name, (default, about) in rule().settings().items():
        assert about["ge"] <= default <= about["le"]
        assert str(about["doc"]).endswith(".")
        beyond: dict[str, Any] = {name: about["le"] + 1}
        below: dict[str, Any] = {name: about["ge"] - 1}
        with pytest.raises(SettingError, match=rf"{rule.name}\.{name} is {about['le'] + 1}; it"):
            dataclasses.replace(rule(), **beyond)
        with pytest.raises(SettingError, match="must be between"):
            dataclasses.replace(rule(), **below)


@pytest.mark.parametrize("rule", RULES)
def test_ladder_rises(rule: type[Rule]) -> None:
    """More attempts never lead to a weaker action."""
    rungs = rule().ladder
    assert list(rungs) == sorted(rungs, key=lambda rung: rung.attempts)
    assert [r.action for r in rungs] == sorted((r.action for r in rungs), key=ACTIONS.index)


@pytest.mark.parametrize(
    ("rule", "settings", "why"),
    [
        (RepeatedFailure, {"attempts_min": 11}, "attempts_min is 11, which its window of 10"),
        (PersistentFailure, {"window": 7}, "ladder has gate at 8 attempts, which its window of 7"),
        (Stutter, {"window": 11}, "ladder has gate at 12 attempts, which its window of 11"),
    ],
)
def test_a_window_holds_every_rung(rule: type[Rule], settings: dict[str, int], why: str) -> None:
    """A gate that no count reaches would never open, without any error."""
    with pytest.raises(SettingError, match=why):
        rule(**settings)


@pytest.mark.parametrize(
    ("ladder", "why"),
    [
        ((), "has 0 rungs; it must have 1 to 8"),
        (tuple(Rung(n, "warn") for n in range(1, 10)), "has 9 rungs"),
        ((Rung(3, "stop"),), "has the action 'stop'; the actions are: "),  # type: ignore[arg-type]
        ((Rung(0, "warn"),), "has a rung at 0 attempts; it must be between 1 and 1000"),
        ((Rung(1_001, "warn"),), "has a rung at 1001 attempts"),
        ((Rung(3, "warn"), Rung(3, "gate")), "goes from 3 to 3 attempts; they must rise"),
        ((Rung(3, "gate"), Rung(4, "warn")), "goes from gate to warn; an action must not be"),
        ((Rung(3, "gate", lost_percent=51),), "has lost_percent 51; it must be between 0 and 50"),
        ((Rung(3, "gate", 5, spared_percent=-1),), "has spared_percent -1; it must be between"),
        ((Rung(3, "gate", lost_percent=5),), "has lost_percent, which is for gates at limits"),
        ((Rung(3, "gate", spared_percent=5),), "has spared_percent without lost_percent"),
    ],
)
def test_ladders_that_cannot_be_are_refused(ladder: tuple[Rung, ...], why: str) -> None:
    """A plugin or a program writes ladders without the schema of a file."""
    with pytest.raises(SettingError, match=f"^{RepeatedCall.name}.ladder {why}"):
        RepeatedCall(ladder=ladder)
    RepeatedCall(ladder=tuple(Rung(n, "warn") for n in range(1, 9)))
    RepeatedCall(ladder=(Rung(1, "warn"), Rung(1_000, "warn")))


def test_names_are_unique() -> None:
    """A finding names its rule, so two rules cannot share a name."""
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)


class Reader(RepeatedCall):
    """A call comes again."""

    def evaluate(self, lane: Lane) -> Evaluation:
        """Read the texts of the lane, for which the rule does not ask."""
        assert lane.texts
        return RepeatedCall.evaluate(self, lane)


class Timer(RepeatedCall):
    """A call comes again."""

    def evaluate(self, lane: Lane) -> Evaluation:
        """Read the times of the turns, for which the rule does not ask."""
        assert lane.turns.times
        return RepeatedCall.evaluate(self, lane)


@pytest.mark.parametrize(("rule", "asks"), [(Reader(), "reads_texts"), (Timer(), "reads_times")])
def test_what_no_rule_asked_for_is_refused(rule: Rule, asks: str) -> None:
    """Texts and times are kept for rules that say that they read them; the author learns how."""
    with pytest.raises(InstallError, match=f"`{asks} = True`"):
        batch(turns_in("read(a)->1 x3"), [rule])
    assert rule.seconds_min == 0
