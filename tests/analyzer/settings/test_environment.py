"""Variables of the environment win over the file."""

from dataclasses import replace

import pytest

from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.settings.sections import default, nearest_thresholds, overridden
from looptrace.analyzer.settings.toml_reader import SettingsError
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.rules.contract import Rung
from tests.analyzer.settings.files import read, rule_in

VARIABLE = "LOOPTRACE_LOOP_THRESHOLD"


PIVOTS = "LOOPTRACE_MAX_PIVOTS"


@pytest.mark.requirement("E6")
def test_environment_wins_over_the_file() -> None:
    """A deployment changes the threshold without touching the file."""
    found = read("rules.repeated_call.attempts_min = 9\nrules.signature_repeat.enabled = false")
    changed = overridden(found, {VARIABLE: "7"})

    assert rule_in(changed, "repeated_call").settings()["attempts_min"][0] == 7
    assert rule_in(changed, "cycle") == rule_in(found, "cycle")
    assert overridden(found, {PIVOTS: "0"}) == replace(
        found, policy=replace(found.policy, recovery=Recovery(max_pivots=0))
    )
    assert [r.name for r in changed.policy.rule_set.rules] == [
        r.name for r in found.policy.rule_set.rules
    ]
    assert overridden(found, {}) == overridden(found, {VARIABLE: "", PIVOTS: ""}) == found


@pytest.mark.requirement("E6")
def test_each_rule_takes_the_nearest_threshold() -> None:
    """One number for all rules must not fail because one of them counts in a window of ten."""
    for value in (2, 3, 60, 100):
        changed = overridden(default(), {VARIABLE: str(value)})
        own = {
            r.name: r.settings()["attempts_min"]
            for r in changed.policy.rule_set.rules
            if "attempts_min" in r.settings()
        }
        nearest = nearest_thresholds(changed, {VARIABLE: str(value)})

        assert own["repeated_call"][0] == value
        assert own["degradation"][0] == min(value, 50)
        assert own["repeated_failure"][0] == min(value, 10)
        assert own["monologue"][0] == max(value, 3)
        assert nearest == {name: now for name, (now, _) in own.items() if now != value}
    assert nearest_thresholds(default(), {}) == {}


@pytest.mark.requirement("E6")
def test_environment_wins_over_overrides() -> None:
    """The threshold holds everywhere; overrides that it makes like the rest are left out."""
    found = read(
        "[[overrides]]\nphase = 'a'\nrules.repeated_call = { attempts_min = 9 }\n"
        "[[overrides]]\nphase = 'b'\nrules.repeated_call = { enabled = false }\n"
        "rules.cycle = { rounds_min = 4 }\n"
        "[[overrides]]\nphase = 'c'\nrules.signature_repeat = { attempts_min = 9, "
        "ladder = [{ attempts = 4, action = 'gate' }] }\n"
    )
    changed = overridden(found, {VARIABLE: "7"})
    _, off, gated = found.policy.rule_set.overrides

    assert changed.policy.rule_set.overrides[0] == off
    signature = changed.policy.rule_set.overrides[1].rules["signature_repeat"]
    assert signature is not None
    assert signature.settings()["attempts_min"][0] == 7
    assert signature.ladder == (Rung(4, "gate"),)
    assert changed.policy.rule_set.overrides[1].selectors == gated.selectors
    assert len(changed.policy.rule_set.overrides) == 2
    assert read(toml_of(changed)) == changed


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (PIVOTS, "101", "recovery.max_pivots is 101; it must be between 0 and 100."),
        (PIVOTS, "-1", "recovery.max_pivots is -1; it must be between 0 and 100."),
        (PIVOTS, "two", "'two'; it must be a whole number."),
        (VARIABLE, "101", "it is 101; it must be between 2 and 100."),
        (VARIABLE, "1", "it is 1; it must be between 2 and 100."),
        (VARIABLE, "three", "'three'; it must be a whole number."),
        (VARIABLE, "3.5", "'3.5'; it must be a whole number."),
        (VARIABLE, "9" * 5_000, "it must be a whole number."),
    ],
)
def test_wrong_variables_are_named(variable: str, value: str, said: str) -> None:
    """An error that does not name the variable sends people to the file."""
    with pytest.raises(SettingsError, match=f"^{variable}") as caught:
        overridden(default(), {variable: value})

    assert str(caught.value).endswith(said)
