"""Settings are given as an object, a file, a profile or tables, wherever a program gives them."""

from collections.abc import Callable
from pathlib import Path

import pytest

import looptrace
from looptrace.analyzer.settings import SettingsError, SettingsLike, load
from looptrace.analyzer.settings.given import selected, settings_of
from looptrace.collector import LoopSpanProcessor
from looptrace.errors import InputError
from looptrace.testing import assert_no_loops
from tests.paths import ROOT

TRACE = ROOT / "examples/traces/flaky_import_loop.jsonl"
TABLES: SettingsLike = {"rules": {"repeated_failure": {"attempts_min": 5}}}
TEXT = "[rules.repeated_failure]\nattempts_min = 5\n"


def attempts_min(given: SettingsLike) -> int:
    """Return the threshold of the rule that the tests change."""
    rules = {rule.name: rule for rule in settings_of(given).policy.rule_set.rules}
    return int(rules["repeated_failure"].attempts_min)  # type: ignore[attr-defined]


def test_all_forms_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page says `settings`, and a reader gives what is at hand."""
    file = tmp_path / "looptrace.toml"
    file.write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    forms: tuple[SettingsLike, ...] = ("looptrace.toml", file, str(file), TABLES, load(str(file)))

    assert [attempts_min(form) for form in forms] == [5] * len(forms)
    assert settings_of("conservative").profile == "conservative"
    assert settings_of(None) == settings_of("balanced")


def analyze(given: SettingsLike) -> object:
    """Use settings in an analysis."""
    return looptrace.analyze(TRACE, given)


def judge(given: SettingsLike) -> object:
    """Use settings over a store."""
    return looptrace.analyze(TRACE).detect(given)


def local(given: SettingsLike) -> object:
    """Use settings in the agent's own process."""
    return LoopSpanProcessor.local(given)


def instrument(given: SettingsLike) -> object:
    """Use settings with the variables of nobody."""
    return looptrace.instrument({"OTEL_SDK_DISABLED": "true"}, settings=given)


def no_loops(given: SettingsLike) -> None:
    """Use settings in a test."""
    assert_no_loops(TRACE, settings=given)


@pytest.mark.parametrize("use", [analyze, judge, local, instrument, no_loops])
def test_every_place_takes_every_form(
    use: Callable[[SettingsLike], object], tmp_path: Path
) -> None:
    """A place that takes objects alone fails where its page is followed to the letter."""
    file = tmp_path / "looptrace.toml"
    file.write_text("enabled = false\n")

    for given in (file, str(file), {"enabled": False}, load(file)):
        use(given)
    with pytest.raises(SettingsError, match="there is no such file, and no such profile"):
        use("loptrace.toml")


def test_tables_that_are_no_file_are_refused() -> None:
    """What TOML cannot hold is an error that says so."""
    with pytest.raises(SettingsError, match=r"settings cannot be a looptrace\.toml"):
        settings_of({"rules": object()})


def test_rules_are_selected_and_ignored_by_name() -> None:
    """Also in overrides, and a rule that is off is on where it is selected."""
    override = {"phase": "x", "rules": {"stutter": {"attempts_min": 9}}}
    given = settings_of({"rules": {"cycle": {"enabled": False}}, "overrides": [override]})
    names = [rule.name for rule in given.policy.rule_set.rules]

    def left(select: list[str], ignore: list[str]) -> tuple[list[str], int]:
        rule_set = selected(given, select, ignore).policy.rule_set
        return [rule.name for rule in rule_set.rules], len(rule_set.overrides)

    assert selected(given, [], []) is given
    assert left([], ["hang"]) == ([name for name in names if name != "hang"], 1)
    assert {*left(["stutter", "cycle"], [])[0]} == {"stutter", "cycle"}
    assert left(["cycle"], []) == (["cycle"], 0)
    assert left([], ["stutter"])[1] == 0
    with pytest.raises(InputError, match=r"there is no rule 'cycl'\. Did you mean cycle"):
        selected(given, ["cycl"], [])
    with pytest.raises(InputError, match="no rule is left"):
        selected(given, ["hang"], ["hang"])
