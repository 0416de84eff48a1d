"""Settings files: what they change, what is wrong with them and where, and what is hostile."""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrace.analyzer.ruleset import RuleSet
from looptrace.analyzer.settings import (
    FILE_BYTES_MAX,
    LINE_DOTS_MAX,
    PROFILES,
    Settings,
    SettingsError,
    default,
    load,
    overridden,
    parsed,
    rules_of_profile,
)
from looptrace.analyzer.settings_forms import page, schema, starter, toml_of
from looptrace.rules.contract import ACTIONS, Rule, Rung
from looptrace.rules.registry import RULES, default_rules

WARN_GATE = ("warn", "gate")
VARIABLE = "LOOPTRACE_LOOP_THRESHOLD"
Laddered = list[tuple[int, str]]


def read(text: str) -> Settings:
    """Read settings from a text."""
    return parsed(text.encode(), "looptrace.toml")


def rule_in(settings: Settings, name: str) -> Rule:
    """Return the one rule of this name."""
    (rule,) = [rule for rule in settings.judging.rules if rule.name == name]
    return rule


def ladder_of(rule: Rule) -> Laddered:
    """Return a ladder as pairs."""
    return [(rung.attempts, rung.action) for rung in rule.ladder]


def outcome(data: bytes) -> Settings | str:
    """Return the settings, or what is said of those that cannot be used."""
    try:
        return parsed(data, "looptrace.toml")
    except SettingsError as error:
        return str(error)


def refused(text: str) -> str:
    """Return what is said of settings that cannot be used."""
    said = outcome(text.encode())
    assert isinstance(said, str)
    return said


def test_balanced_is_what_holds_without_a_file() -> None:
    """Whoever writes down the default profile changes nothing."""
    assert rules_of_profile("balanced") == default_rules()
    assert read("") == read('profile = "balanced"') == default()


@pytest.mark.requirement("B7")
@pytest.mark.parametrize(
    ("profile", "attempts", "ladder", "rounds", "cycle_ladder"),
    [
        ("conservative", 5, [(5, "warn"), (8, "gate")], 3, [(3, "warn"), (5, "gate")]),
        ("balanced", 3, [(3, "warn"), (5, "gate")], 2, [(2, "warn"), (3, "gate")]),
        ("aggressive", 2, [(2, "warn"), (3, "gate")], 2, [(2, "gate")]),
    ],
)
def test_profiles_set_thresholds_and_ladders(
    profile: str, attempts: int, ladder: Laddered, rounds: int, cycle_ladder: Laddered
) -> None:
    """A profile is one word for the numbers of all rules."""
    settings = read(f'profile = "{profile}"')
    call, cycle = rule_in(settings, "repeated_call"), rule_in(settings, "cycle")

    assert call.settings()["attempts_min"][0] == attempts
    assert ladder_of(call) == ladder
    assert cycle.settings()["rounds_min"][0] == rounds
    assert cycle.settings()["period_max"][0] == 8
    assert ladder_of(cycle) == cycle_ladder


@pytest.mark.parametrize("rule", RULES)
def test_profiles_order_every_rule(rule: type[Rule]) -> None:
    """No rule acts later in a profile that promises to act earlier."""
    late, middle, early = [
        rule_in(Settings(name, RuleSet(rules_of_profile(name))), rule.name)
        for name in ("conservative", "balanced", "aggressive")
    ]
    for name in rule().settings():
        at = [variant.settings()[name][0] for variant in (late, middle, early)]
        assert at == sorted(at, reverse=True)
    for attempts in range(1, 20):
        strength = [ACTIONS.index(variant.action(attempts)) for variant in (late, middle, early)]
        assert strength == sorted(strength)


@pytest.mark.requirement("F4")
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_can_be_tuned(rule: type[Rule]) -> None:
    """A rule whose ladder or numbers a file cannot set would be set in stone."""
    for name, (_, about) in rule().settings().items():
        settings = read(f"[rules.{rule.name}]\n{name} = {about['le']}")
        assert rule_in(settings, rule.name).settings()[name][0] == about["le"]
    rungs = '[{ attempts = 4, action = "warn" }, { attempts = 9, action = "pivot" }]'
    tuned = rule_in(read(f"[rules.{rule.name}]\nladder = {rungs}"), rule.name)

    changes: dict[str, Any] = {"ladder": (Rung(4, "warn"), Rung(9, "pivot"))}

    assert tuned == replace(rule(), **changes)
    assert [tuned.action(attempts) for attempts in (4, 8, 9)] == ["warn", "warn", "pivot"]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_can_be_switched_off(rule: type[Rule]) -> None:
    """Switching one off leaves all others as they are."""
    settings = read(f"[rules.{rule.name}]\nenabled = false")

    assert settings.judging.rules == tuple(r for r in default_rules() if r.name != rule.name)


def test_a_file_wins_over_its_profile() -> None:
    """What the file says holds, and the rest is the profile's."""
    settings = read('profile = "conservative"\n[rules.repeated_call]\nattempts_min = 4')
    call = rule_in(settings, "repeated_call")

    assert call.settings()["attempts_min"][0] == 4
    assert ladder_of(call) == [(5, "warn"), (8, "gate")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'profile = "balancd"',
            "1: there is no profile 'balancd'. Did you mean balanced? "
            "There is: conservative, balanced, aggressive.",
        ),
        ("profile = 1979-05-27", "1: there is no profile 1979-05-27. There is: conservative,"),
        ("\nprofil = 3", "2: there is no 'profil'. Did you mean profile? There is: profile, rules"),
        ("rules = 3", "1: rules is 3; it must be a table."),
        ("[rules]\ncycle = []", "2: rules.cycle is a list; it must be a table."),
        ("[rules.cycl]\n", "1: there is no 'cycl' in rules. Did you mean cycle? There is: "),
        (
            "[rules.cycle]\nround_min = 2",
            "2: there is no 'round_min' in rules.cycle. Did you mean rounds_min? "
            "There is: enabled, rounds_min, period_max, ladder.",
        ),
        ("[rules.cycle]\nenabled = 1", "2: cycle.enabled is 1; it must be true or false."),
        (
            "[rules.cycle]\nrounds_min = true",
            "2: cycle.rounds_min is true; it must be a whole number between 2 and 20.",
        ),
        ("[rules.cycle]\nrounds_min = 21", "2: cycle.rounds_min is 21; it must be between 2 and"),
        ("[rules.cycle]\nrounds_min = 2.0", "2: cycle.rounds_min is 2.0; it must be a whole"),
        ("[rules.cycle]\nladder = 3", "2: cycle.ladder must be a list of rungs, such as [{ att"),
        ("[rules.cycle]\nladder = [3]", "2: cycle.ladder must be a list of rungs"),
        ("[rules.cycle]\nladder = []", "2: cycle.ladder has 0 rungs; it must have 1 to 8."),
        ("[rules.cycle]\nladder = [{ attempts = 2 }]", "2: rules.cycle.ladder has a rung without"),
        (
            '[rules.cycle]\nladder = [{ attempts = 2, action = "wran" }]',
            "2: there is no action 'wran'. Did you mean warn? There is: warn,",
        ),
        (
            '[rules.cycle]\nladder = [{ attempts = 2, action = "warn", then = 1 }]',
            "2: there is no 'then' in rules.cycle.ladder. There is: attempts, action.",
        ),
        (
            '[rules.cycle]\nladder = [{ attempts = "2", action = "warn" }]',
            "2: cycle.ladder.attempts is '2'; it must be a whole number between 1 and 1000.",
        ),
        (
            '[rules.cycle]\nladder = [{ attempts = 0, action = "warn" }]',
            "2: cycle.ladder has a rung at 0 attempts; it must be between 1 and 1000.",
        ),
        (
            '[rules.cycle]\nladder = [{attempts=2,action="warn"},{attempts=2,action="gate"}]',
            "2: cycle.ladder goes from 2 to 2 attempts; they must rise.",
        ),
        (
            '[rules.cycle]\nladder = [{attempts=2,action="gate"},{attempts=3,action="warn"}]',
            "2: cycle.ladder goes from gate to warn; an action must not be gentler than the one",
        ),
        ("\n[rules.cycle\nrounds_min = 2", "2: is not TOML: Expected ']' at the end of a table"),
        ("x = 1\nx = 2\n", "2: is not TOML: Cannot overwrite a value, column 6."),
        ("x = 1\n\nx = '", "3: is not TOML: Expected "),
    ],
)
def test_errors_say_where_and_what_is_allowed(text: str, said: str) -> None:
    """Whoever made a slip finds it by the line, and learns what may stand there."""
    message = refused(text)

    assert message.startswith(f"looptrace.toml:{said}")
    assert message.endswith(".")
    assert message.isprintable()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rules.cycle.rounds_min = 99", 1),
        ("# rounds_min = 99\n[rules]\ncycle.rounds_min = 99", 3),
        ("[rules]\n\ncycle = { rounds_min = 99 }", 3),
        ("[rules.cycle]\nperiod_max = 3\nrounds_min = 99", 3),
        ("[rules.repeated_call]\nattempts_min = 3\n[ rules . 'cycle' ]\n\"rounds_min\" = 99", 4),
        ("[rules.cycle]\nladder = [\n{ attempts = 3,action = 'warn' },\n]\nrounds_min = 99", 5),
        ("[rules.cycle]\r\n\r\nrounds_min = 99\r\n", 3),
        ('[rules.cycle]\n"rounds\\u005fmin" = 99', 1),
    ],
)
def test_line_is_found_however_a_key_is_written(text: str, line: int) -> None:
    """TOML has many ways to write one key; the line is that of the key, or of its table."""
    assert refused(text).startswith(f"looptrace.toml:{line}: cycle.rounds_min is 99")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b" " * FILE_BYTES_MAX, None),
        (b" " * (FILE_BYTES_MAX + 1), "1: the file has more than 262144 bytes."),
        (b"\n#" + b"." * LINE_DOTS_MAX, None),
        (b"\n" + b".".join([b"a"] * 100_000) + b" = 1", "2: the line has more than 50 dots."),
        (b"x = " + b"[" * 100_000, "1: the values are nested too deeply."),
        (b"x = " + b"{a=" * 50_000, "1: the values are nested too deeply."),
        (b"x = " + b"9" * 100_000, "1: is not TOML: "),
        (b"profile = 0x" + b"f" * 100_000, "1: there is no profile a number of more than 64 bits."),
        (b"rules.cycle.rounds_min = 0x" + b"f" * 100_000, "1: cycle.rounds_min is a number of mo"),
        (b"\n\xff = 1", "2: the text is not UTF-8."),
        (b"\xef\xbb\xbfprofile = 'balanced'", None),
        (b'"a\\nb\\u202e' + b"c" * 100_000 + b'" = 1', "1: there is no 'a b\ufffdc"),
    ],
)
def test_hostile_files_are_refused(data: bytes, said: str | None) -> None:
    """A settings file may come with a repository that nobody has looked at."""
    found = outcome(data)

    assert isinstance(found, Settings) if said is None else f"looptrace.toml:{said}" in str(found)
    assert len(str(found)) < 1_000 or said is None


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """A wrong path must not look like the default settings."""
    missing = tmp_path / "none.toml"
    with pytest.raises(SettingsError, match=r"none\.toml: cannot be read: No such file"):
        load(missing)
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load(tmp_path)


def tables(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Make tables whose keys are the right ones more often than not."""
    known = [name for rule in default_rules() for name in rule.settings()]
    known += ["profile", "rules", "enabled", "ladder", "attempts", "action", "", "a.b", 'a"\n']
    names = st.sampled_from([*known, *(rule.name for rule in RULES)])
    return st.dictionaries(names, inner, max_size=5)


values = st.recursive(
    st.booleans()
    | st.integers()
    | st.floats()
    | st.dates(min_value=datetime.date(1000, 1, 1))
    | st.sampled_from([*ACTIONS, *PROFILES])
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x7f"), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | tables(inner),
    max_leaves=20,
)


rungs = st.fixed_dictionaries({"attempts": st.integers(0, 12), "action": st.sampled_from(ACTIONS)})
likely = st.dictionaries(
    st.sampled_from(["enabled", "ladder", "attempts_min"]),
    st.booleans() | st.integers(0, 110) | st.lists(rungs, max_size=3) | values,
    max_size=2,
)
tuned = st.fixed_dictionaries(
    {
        "profile": st.sampled_from(list(PROFILES)),
        "rules": st.dictionaries(
            st.sampled_from([rule.name for rule in RULES]), likely, max_size=3
        ),
    }
)


def as_toml(value: Any) -> str:
    """Write a value as TOML."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(k)} = {as_toml(v)}' for k, v in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, datetime.date):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)


@given(tables(values) | tuned)
def test_any_tables_are_read_or_refused(table: dict[str, Any]) -> None:
    """Whatever a file says, the answer is settings that read back, or an error in one line."""
    text = "\n".join(f"{json.dumps(key)} = {as_toml(value)}" for key, value in table.items())
    found = outcome(text.encode())

    if isinstance(found, Settings):
        assert read(toml_of(found)) == found
    else:
        assert re.fullmatch(r"looptrace\.toml:\d+: .+\.", found)
        assert "is not TOML" not in found


@given(st.binary() | st.text(alphabet="[]{}=.\"'\n #arules", max_size=80).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """No file ends in a traceback."""
    found = outcome(data)

    assert isinstance(found, Settings) or re.fullmatch(r"looptrace\.toml:\d+: .+\.", found)


@pytest.mark.parametrize("profile", PROFILES)
def test_shown_settings_read_back(profile: str) -> None:
    """What `config show` prints can be kept as the file."""
    settings = Settings(profile, RuleSet(rules_of_profile(profile)[1:]))

    assert read(toml_of(settings)) == settings


def test_starter_file_changes_nothing() -> None:
    """A new file holds what holds without it, commented out or not."""
    text = starter()

    assert read(text) == default()
    assert read(re.sub(r"^#(?! )", "", text, flags=re.MULTILINE)) == default()
    for rule in default_rules():
        for _, about in rule.settings().values():
            assert f"# {about['doc']} {about['ge']} to {about['le']}." in text


@pytest.mark.requirement("E6")
def test_environment_wins_over_the_file() -> None:
    """A deployment changes the threshold without touching the file."""
    settings = read("rules.repeated_call.attempts_min = 9\nrules.signature_repeat.enabled = false")
    changed = overridden(settings, {VARIABLE: "7"})

    assert rule_in(changed, "repeated_call").settings()["attempts_min"][0] == 7
    assert rule_in(changed, "cycle") == rule_in(settings, "cycle")
    assert [r.name for r in changed.judging.rules] == [r.name for r in settings.judging.rules]
    assert overridden(settings, {}) == overridden(settings, {VARIABLE: ""}) == settings


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("1", "repeated_call.attempts_min is 1; it must be between 2 and 100."),
        ("three", "'three'; it must be a whole number."),
        ("3.5", "'3.5'; it must be a whole number."),
        ("9" * 5_000, "it must be a whole number."),
    ],
)
def test_wrong_variable_is_named(value: str, said: str) -> None:
    """An error that does not name the variable sends people to the file."""
    with pytest.raises(SettingsError, match=f"^{VARIABLE}") as caught:
        overridden(default(), {VARIABLE: value})

    assert str(caught.value).endswith(said)


def test_schema_describes_what_can_be_set() -> None:
    """An editor must neither refuse what looptrace takes nor offer what it refuses."""
    described = json.loads(schema())
    rules = described["properties"]["rules"]["properties"]

    assert described["properties"]["profile"]["enum"] == list(PROFILES)
    assert list(rules) == [rule.name for rule in RULES]
    for rule in default_rules():
        keys = rules[rule.name]["properties"]
        assert list(keys) == ["enabled", *rule.settings(), "ladder"]
        for name in rule.settings():
            for bound in (keys[name]["minimum"], keys[name]["maximum"]):
                read(f"[rules.{rule.name}]\n{name} = {bound}")
            assert "must be between" in refused(
                f"[rules.{rule.name}]\n{name} = {keys[name]['maximum'] + 1}"
            )
    rung = described["$defs"]["ladder"]["items"]
    for action in rung["properties"]["action"]["enum"]:
        most = rung["properties"]["attempts"]["maximum"]
        read(f"[rules.cycle]\nladder = [{{ attempts = {most}, action = '{action}' }}]")


def test_example_of_the_page_can_be_used() -> None:
    """People copy the example before they read the tables."""
    example = re.search(r"```toml\n(.*?)```", page(), re.DOTALL)

    assert example is not None
    assert read(example[1]).profile == "conservative"
