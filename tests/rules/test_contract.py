"""The contract that every rule keeps, and the examples in its docstring."""

from __future__ import annotations

import dataclasses
from collections import Counter
from functools import cache
from typing import Any

import pytest

from looptrace.analyzer.testing.notation import tasks_in, turns_in
from looptrace.errors import InstallError
from looptrace.rules.calls.persistent_failure import PersistentFailure
from looptrace.rules.calls.repeated_call import RepeatedCall
from looptrace.rules.calls.repeated_failure import RepeatedFailure
from looptrace.rules.calls.stutter import Stutter
from looptrace.rules.contract import ACTIONS, Evaluation, Rule, SettingError
from looptrace.rules.docs import examples, summary
from looptrace.rules.registry import RULES
from looptrace.rules.turns import Lane
from tests.drivers import batch
from tests.rules.models import ready

LOOPING = [(rule, text) for rule in RULES for text in examples(rule, "Looping")]
NOT_LOOPING = [(rule, text) for rule in RULES for text in examples(rule, "Not looping")]


@cache
def counts(rule: type[Rule]) -> Counter[str]:
    """Judge all examples of a rule side by side, each a task; return the findings of each text."""
    texts = [text for other, text in (*LOOPING, *NOT_LOOPING) if other is rule]
    return Counter(
        finding.task for finding in batch(tasks_in({t: t for t in texts}), [ready(rule)])
    )


@pytest.mark.parametrize(("rule", "text"), LOOPING)
def test_example_loops(rule: type[Rule], text: str) -> None:
    """What a rule's page calls a loop is found, and as one finding."""
    assert counts(rule)[text] == 1


@pytest.mark.parametrize(("rule", "text"), NOT_LOOPING)
def test_example_does_not_loop(rule: type[Rule], text: str) -> None:
    """What a rule's page calls no loop is left alone."""
    assert counts(rule)[text] == 0


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


def test_texts_that_no_rule_asked_for_are_refused() -> None:
    """Texts are kept for rules that say that they read them; the author learns what to write."""
    with pytest.raises(InstallError, match=r"`reads_texts = True`"):
        batch(turns_in("read(a)->1 x3"), [Reader()])
