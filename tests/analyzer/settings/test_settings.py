"""Settings files: what they change, what is wrong with them and where, and what is hostile."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from looptrace.analyzer.detect.counters import Counting
from looptrace.analyzer.detect.phases import METRICS, Convergence
from looptrace.analyzer.detect.rule_plugins import known_rules
from looptrace.analyzer.detect.ruleset import SELECTORS, Override, RuleSet
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.fingerprint.equivalence import Sameness, TextMask, Tool
from looptrace.analyzer.gates.ladders import check_reach
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.settings.docs_page import page, schema
from looptrace.analyzer.settings.file_tables import file_table
from looptrace.analyzer.settings.judge import ChatSettings
from looptrace.analyzer.settings.page import PageSettings
from looptrace.analyzer.settings.profiles import PROFILES, rules_of_profile
from looptrace.analyzer.settings.sections import (
    Settings,
    default,
    load,
    nearest_thresholds,
    overridden,
    parsed,
)
from looptrace.analyzer.settings.tables import settings_in
from looptrace.analyzer.settings.toml_reader import FILE_BYTES_MAX, LINE_DOTS_MAX, SettingsError
from looptrace.analyzer.settings.toml_writer import starter, toml_of
from looptrace.analyzer.settings.webhook import FORMATS, Webhook
from looptrace.analyzer.testing.notation import turns_in
from looptrace.rules.contract import ACTIONS, Action, Rule, Rung, SettingError
from looptrace.rules.prediction.likely_failure import LikelyFailure
from looptrace.rules.registry import RULES, default_rules
from tests.drivers import findings_of
from tests.seeds import seed_count

WARN_GATE = ("warn", "gate")
SCHEMA = Draft202012Validator(json.loads(schema()))
SECTIONS = [setting.name for setting in settings_in(file_table(RULES))]
VARIABLE = "LOOPTRACE_LOOP_THRESHOLD"
PIVOTS = "LOOPTRACE_MAX_PIVOTS"
Laddered = list[tuple[int, str]]


def read(text: str) -> Settings:
    """Read settings from a text."""
    return parsed(text.encode(), "looptrace.toml")


def rule_in(settings: Settings, name: str) -> Rule:
    """Return the one rule of this name."""
    (rule,) = [rule for rule in settings.policy.rule_set.rules if rule.name == name]
    return rule


def ladder_of(rule: Rule) -> Laddered:
    """Return a ladder as pairs."""
    return [(rung.attempts, rung.action) for rung in rule.ladder]


def outcome(data: bytes) -> Settings | str:
    """Return the settings, or the error for unusable ones."""
    try:
        return parsed(data, "looptrace.toml")
    except SettingsError as error:
        return str(error)


def refused(text: str) -> str:
    """Return the error for unusable settings."""
    said = outcome(text.encode())
    assert isinstance(said, str)
    return said


def test_balanced_is_what_holds_without_a_file() -> None:
    """Writing down the default profile changes nothing."""
    assert rules_of_profile("balanced") == known_rules()
    assert read("") == read('profile = "balanced"') == default()


@pytest.mark.requirement("B7")
@pytest.mark.parametrize(
    ("profile", "attempts", "ladder", "rounds", "cycle_ladder"),
    [
        ("conservative", 5, [(5, "warn"), (6, "gate")], 5, [(5, "warn"), (6, "gate")]),
        ("balanced", 3, [(3, "warn"), (4, "gate")], 3, [(3, "warn"), (4, "gate")]),
        ("aggressive", 2, [(2, "warn"), (3, "gate")], 2, [(2, "warn"), (3, "gate")]),
    ],
)
def test_profiles_set_thresholds_and_ladders(
    profile: str, attempts: int, ladder: Laddered, rounds: int, cycle_ladder: Laddered
) -> None:
    """A profile is one word for the numbers of all rules."""
    found = read(f'profile = "{profile}"')
    call, cycle = rule_in(found, "repeated_call"), rule_in(found, "cycle")

    assert call.settings()["attempts_min"][0] == attempts
    assert ladder_of(call) == ladder
    assert cycle.settings()["rounds_min"][0] == rounds
    assert cycle.settings()["period_max"][0] == 40
    assert ladder_of(cycle) == cycle_ladder


@pytest.mark.parametrize("rule", RULES)
def test_profiles_order_every_rule(rule: type[Rule]) -> None:
    """No rule acts later in a profile that promises to act earlier."""
    late, middle, early = [
        rule_in(Settings(name, DetectionPolicy(RuleSet(rules_of_profile(name)))), rule.name)
        for name in ("conservative", "balanced", "aggressive")
    ]
    for name in rule().settings():
        at = [variant.settings()[name][0] for variant in (late, middle, early)]
        assert at == sorted(at, reverse=True)
    for attempts in range(1, 20):
        strength = [ACTIONS.index(variant.action(attempts)) for variant in (late, middle, early)]
        assert strength == sorted(strength)


# A file cannot switch on a rule that needs a model without one; `calibrate --model` tunes it.
NEEDS_NO_FILE = [rule for rule in RULES if rule is not LikelyFailure]


@pytest.mark.requirement("F4")
@pytest.mark.parametrize("rule", NEEDS_NO_FILE)
def test_every_rule_can_be_tuned(rule: type[Rule]) -> None:
    """A file can set the ladder and the numbers of every rule."""
    most = {name: about["le"] for name, (_, about) in rule().settings().items()}
    lines = [f"{name} = {value}" for name, value in most.items()]
    most_of_all = rule_in(
        read("\n".join([f"[rules.{rule.name}]", "enabled = true", *lines])), rule.name
    )

    assert {name: value for name, (value, _) in most_of_all.settings().items()} == most
    later: Action = "pivot" if "pivot" in rule.actions else "warn"
    rungs = f'[{{ attempts = 4, action = "warn" }}, {{ attempts = 9, action = "{later}" }}]'
    tuned = rule_in(read(f"[rules.{rule.name}]\nenabled = true\nladder = {rungs}"), rule.name)

    changes: dict[str, Any] = {"ladder": (Rung(4, "warn"), Rung(9, later))}

    assert tuned == replace(rule(), **changes)
    assert [tuned.action(attempts) for attempts in (4, 8, 9)] == ["warn", "warn", later]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_can_be_switched_off(rule: type[Rule]) -> None:
    """Switching one off leaves all others as they are."""
    found = read(f"[rules.{rule.name}]\nenabled = false")

    assert found.policy.rule_set.rules == tuple(r for r in default_rules() if r.name != rule.name)


def test_a_file_wins_over_its_profile() -> None:
    """What the file says holds, and the rest is the profile's."""
    found = read('profile = "conservative"\n[rules.repeated_call]\nattempts_min = 4')
    call = rule_in(found, "repeated_call")

    assert call.settings()["attempts_min"][0] == 4
    assert ladder_of(call) == [(5, "warn"), (6, "gate")]


# Files and, after each, how its error begins: the line and what is wrong there.
ERRORS = (Path(__file__).parent / "data/errors.txt").read_text(encoding="utf-8")
MISTAKES = [
    (text, said) for text, said in re.findall(r"(.*?)\n#> (.*?)\n\n?", ERRORS, flags=re.DOTALL)
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_errors_say_where_and_what_is_allowed(text: str, said: str) -> None:
    """The error names the line; what can have no effect is as wrong as what cannot be read."""
    with pytest.raises(SettingsError) as caught:
        read(text)
    (message,) = (str(each) for each in caught.value.every if f"looptrace.toml:{said}" in str(each))

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
    assert refused(text).startswith(f"looptrace.toml:{line}: rules.cycle.rounds_min is 99")


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
        (
            b"profile = 0x" + b"f" * 100_000,
            "1: profile is a number of more than 64 bits. Known: conservative,",
        ),
        (b"rules.cycle.rounds_min = 0x" + b"f" * 100_000, "1: rules.cycle.rounds_min is a number"),
        (b"\n\xff = 1", "2: the text is not UTF-8."),
        (b"\xef\xbb\xbfprofile = 'balanced'", None),
        (b'"a\\nb\\u202e' + b"c" * 100_000 + b'" = 1', "1: there is no 'a b\ufffdc"),
    ],
)
def test_hostile_files_are_refused(data: bytes, said: str | None) -> None:
    """A settings file may come with an unreviewed repository."""
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
    """Make tables with mostly valid keys."""
    known = [name for rule in known_rules() for name in rule.settings()]
    known += [*SECTIONS, *SELECTORS, "ladder", "attempts", "action", "", "a.b", 'a"\n']
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
rule_tables = st.dictionaries(
    st.sampled_from([rule.name for rule in RULES]), likely, min_size=1, max_size=3
)
words = st.sampled_from(["fix", "test", 'a.b "c"\\\n', "\x7f" + "." * 60, "", "ö" * 201])
tuned = st.fixed_dictionaries(
    {"profile": st.sampled_from(list(PROFILES))},
    optional={
        "enabled": st.just(value=True) | st.booleans(),
        "rules": rule_tables,
        "recovery": st.dictionaries(
            st.sampled_from([*(item.name for item in fields(Recovery)), "idle_s"]),
            st.integers(0, 110) | st.booleans(),
            max_size=3,
        ),
        "overrides": st.lists(
            st.dictionaries(st.sampled_from(SELECTORS), words, min_size=1, max_size=2).flatmap(
                lambda asked: rule_tables.map(lambda rules: {**asked, "rules": rules})
            ),
            max_size=2,
        ),
        "phases": st.dictionaries(
            words,
            st.fixed_dictionaries(
                {"converges_on": st.sampled_from([*METRICS, "loss"])},
                optional={"better": st.sampled_from(["lower", "higher", "faster"])},
            ),
            max_size=2,
        ),
        "tools": st.dictionaries(
            words,
            st.dictionaries(
                st.sampled_from(["volatile_keys", "same_call", "polling"]),
                st.lists(words, max_size=2) | st.booleans(),
                max_size=2,
            ),
            max_size=2,
        ),
        "masks": st.lists(
            st.fixed_dictionaries({"pattern": words | st.just("(?"), "name": words}), max_size=2
        ),
        "webhooks": st.lists(
            st.fixed_dictionaries(
                {
                    "name": words,
                    "url": st.sampled_from(["https://a/", "http://a/", "env:A", "file:a"]),
                },
                optional={
                    "format": st.sampled_from(FORMATS),
                    "secrets": st.lists(words | st.sampled_from(["env:A", "file:b"]), max_size=3),
                    "allow_private": st.lists(words | st.just("10.0.0.0/8"), max_size=2),
                    "agents": st.lists(words, max_size=2),
                    "rules": st.lists(words | st.just("cycle"), max_size=2),
                },
            ),
            max_size=2,
        ),
    },
)


def may_be_written(form: Rule | None, base: Rule, recovery: Recovery) -> bool:
    """Return whether a file may say this of a rule: its ladder is the profile's, or is reached."""
    try:
        if form is not None and form.ladder != base.ladder:
            check_reach(form, recovery)
    except SettingError:
        return False
    return True


judges = st.none() | st.builds(
    ChatSettings,
    st.sampled_from(["https://judge.example/v1", "http://[::1]:8000/v1"]),
    st.just("small"),
    st.sampled_from([None, "JUDGE_KEY"]),
    timeout_s=st.floats(0.1, 300.0),
    decides=st.booleans(),
)
converges = st.sampled_from(
    [*(Convergence(metric) for metric in METRICS), Convergence("loss", "lower")]
)


@st.composite
def any_settings(draw: st.DrawFn) -> Settings:
    """Make settings in Python, of every section."""
    name = draw(st.sampled_from(list(PROFILES)))
    rules = {rule.name: rule for rule in rules_of_profile(name) if type(rule) in NEEDS_NO_FILE}
    off = draw(st.sets(st.sampled_from(list(rules)), max_size=3))
    others = {rule.name: rule for rule in rules_of_profile(draw(st.sampled_from(list(PROFILES))))}
    text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
    recovery = Recovery(
        max_pivots=draw(st.integers(0, 100)),
        unblock=draw(st.booleans()),
        retry_after_s=draw(st.integers(1, 86_400)),
    )
    overrides: list[Override] = []
    for phase in draw(st.lists(text, max_size=2, unique=True)):
        chosen = draw(st.sets(st.sampled_from(list(rules)), max_size=3))
        forms = {rule: draw(st.sampled_from([None, others[rule]])) for rule in sorted(chosen)}
        bases = {rule: None if rule in off else rules[rule] for rule in chosen}
        forms = {
            rule: form
            for rule, form in forms.items()
            if form != bases[rule] and may_be_written(form, rules[rule], recovery)
        }
        agent = draw(st.none() | text)
        overrides += [Override(forms, phase=phase, agent=agent)] if forms else []
    keys = st.lists(text, max_size=3).map(tuple)
    tools = st.builds(Tool, keys, polling=st.booleans()) | st.builds(Tool, same_call=keys)
    masked = draw(st.lists(st.integers(0, 9), max_size=3, unique=True))
    page = PageSettings(url=draw(st.sampled_from(["", "https://me:8443"])))
    hooks = [
        Webhook(
            hook,
            draw(st.sampled_from(["https://a/?b=c", "http://[::1]:8080", "env:A", "file:b/c d"])),
            draw(st.sampled_from(FORMATS)),
            draw(st.sampled_from([("env:A",), ("file:x", "env:B")])),
            draw(st.sampled_from(["", "https://me/{gate}?t={task}"])),
            error_text=draw(st.booleans()),
            decision_hours=draw(st.integers(0, 720)) if page.url else 0,
            allow_private=("127.0.0.1", "10.0.0.0/8"),
            agents=draw(keys),
        )
        for hook in draw(st.lists(text, max_size=2, unique=True))
    ]
    counting = Counting(
        draw(st.integers(60, 2_592_000)),
        draw(st.dictionaries(text, converges, max_size=3)),
        draw(st.integers(1, 86_400)),
    )
    return Settings(
        name,
        DetectionPolicy(
            RuleSet(
                tuple(r for r in rules.values() if r.name not in off), tuple(overrides), counting
            ),
            recovery,
            Sameness(
                draw(st.dictionaries(text, tools, max_size=3)),
                tuple(TextMask(f"x{number}[.]", draw(text)) for number in masked),
            ),
        ),
        webhooks=tuple(hooks),
        page=page,
        judge=draw(judges),
    )


@settings(max_examples=80, suppress_health_check=[HealthCheck.filter_too_much])
@given(any_settings())
def test_any_settings_read_back(wanted: Settings) -> None:
    """What is written of any settings reads back as the same settings.

    Settings with a rung that no loop can reach are refused, which has tests of its own.
    """
    try:
        again = read(toml_of(wanted))
    except SettingsError as error:
        assume("which no loop can reach" not in str(error))
        raise
    assert again == wanted


def as_toml(value: Any) -> str:
    """Write a value as TOML."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(k)} = {as_toml(v)}' for k, v in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, datetime.date):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)


@settings(max_examples=80)
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


@settings(max_examples=80)
@given(any_settings(), st.data())
def test_damaged_files_are_read_or_refused(wanted: Settings, data: st.DataObject) -> None:
    """A slip anywhere in a good file ends in other settings or in one line, not in a traceback."""
    text = toml_of(wanted)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 20, len(text))))
    slip = data.draw(st.sampled_from(["", "=", "[", "]", '"', "\n", ".", "0", "true", "x = 1\n"]))
    found = outcome(f"{text[:start]}{slip}{text[end:]}".encode())

    if isinstance(found, Settings):
        assert read(toml_of(found)) == found
    else:
        assert re.fullmatch(r"looptrace\.toml:\d+: .+\.", found)


@pytest.mark.parametrize("profile", PROFILES)
def test_shown_settings_read_back(profile: str) -> None:
    """What `config show` prints can be kept as the file."""
    every = [rule for rule in rules_of_profile(profile) if type(rule) in NEEDS_NO_FILE]
    rules = RuleSet(tuple(every[1:]))
    wanted = Settings(profile, DetectionPolicy(rules, PROFILES[profile].recovery))

    assert read(toml_of(wanted)) == wanted


def test_texts_of_many_dots_read_back() -> None:
    """The parser is kept from lines of many dots, which a pattern or a name may have."""
    dots = "." * (LINE_DOTS_MAX + 10)
    wanted = replace(
        default(),
        policy=DetectionPolicy(
            RuleSet(counting=Counting(converging={dots: Convergence("markers")})),
            sameness=Sameness({dots: Tool(same_call=(dots, "a"))}, (TextMask(dots, dots),)),
        ),
    )

    assert read(toml_of(wanted)) == wanted


def test_starter_file_changes_nothing() -> None:
    """A new file holds what holds without it, commented out or not."""
    text = starter()

    assert read(text) == default()
    assert read(re.sub(r"^#(?! )", "", text, flags=re.MULTILINE)) == default()
    examples = read(re.sub(r"^#(?=    )", "", text, flags=re.MULTILINE))
    assert examples.policy.rule_set.overrides[0].selectors == {"phase": "refine"}
    assert examples.policy.rule_set.counting.converging == {"refine": ("tests_failed", None)}
    assert examples.policy.sameness.tools["get_status"].polling
    assert examples.policy.sameness.masks == (TextMask("build-[0-9]+", "<build>"),)
    assert examples.webhooks[0].actions == ("gate",)
    assert examples.waiting[0].escalate_to == ("lead",)
    for rule in known_rules():
        for _, about in rule.settings().values():
            assert f"# {about['doc']} {about['ge']} to {about['le']}." in text


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
    for value in (2, 60, 100):
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
    ],
)
def test_wrong_variables_are_named(variable: str, value: str, said: str) -> None:
    """Each error names the variable that it is about."""
    with pytest.raises(SettingsError, match=f"^{variable}") as caught:
        overridden(default(), {variable: value})

    assert str(caught.value).endswith(said)


@pytest.mark.requirement("B7")
def test_conservative_unblocks_nothing_by_itself() -> None:
    """A profile is also how loops are brought back, and the file wins over it."""
    assert not read('profile = "conservative"').policy.recovery.unblock
    assert read('profile = "conservative"\nrecovery.unblock = true').policy.recovery.unblock
    assert read('profile = "balanced"').policy.recovery.unblock
    assert read('profile = "aggressive"').policy.recovery.unblock


@pytest.mark.requirement("D5")
def test_master_switch_lets_no_rule_judge() -> None:
    """One line silences looptrace, and what else the file says is still checked."""
    override = "[[overrides]]\nphase = 'a'\n[overrides.rules.cycle]\nrounds_min = 4"
    found = read(f"enabled = false\nrecovery.max_pivots = 3\n{override}")

    assert found.policy.rule_set == RuleSet(())
    assert found.policy.recovery.max_pivots == 3
    assert read(toml_of(found)) == found
    assert "rounds_min is 49" in refused(f"enabled = false\n{override}9")
    assert findings_of(turns_in("read(a)->b x9"), found.policy.rule_set) == []


@pytest.mark.requirement("D5")
def test_overrides_start_from_what_the_file_says() -> None:
    """An override says what differs, also of a rule that is off elsewhere."""
    found = read(
        "[rules.repeated_call]\nenabled = false\nattempts_min = 6\n"
        "[rules.cycle]\nperiod_max = 5\n"
        "[[overrides]]\nphase = 'a'\ntool = 'b'\n"
        "[overrides.rules.repeated_call]\nenabled = true\n"
        "[overrides.rules.cycle]\nrounds_min = 4\n"
        "[[overrides]]\nagent = 'c'\ntask_kind = 'd'\nrules.cycle.enabled = false\n"
    )
    first, second = found.policy.rule_set.overrides
    call, cycle = first.rules["repeated_call"], first.rules["cycle"]

    assert first.selectors == {"phase": "a", "tool": "b"}
    assert second == Override({"cycle": None}, agent="c", task_kind="d")
    assert "repeated_call" not in {rule.name for rule in found.policy.rule_set.rules}
    assert call is not None
    assert call.settings()["attempts_min"][0] == 6
    assert cycle is not None
    assert [value for value, _ in cycle.settings().values()] == [4, 5]


def test_recovery_and_sameness_are_read() -> None:
    """Every section reaches the settings."""
    found = read(
        "recovery = { idle_s = 60, retry_after_s = 5, unblock = false }\n"
        "phases.fix.converges_on = 'coverage'\n"
        "[tools.'a b']\nvolatile_keys = ['x.y', 'z']\n[tools.c]\nsame_call = ['q']\n"
        "[[masks]]\npattern = 'v[0-9]'\nname = '<v>'\n"
    )

    assert found.policy.recovery == Recovery(retry_after_s=5, unblock=False)
    assert found.policy.rule_set.counting == Counting(60, {"fix": Convergence("coverage")})
    assert found.policy.sameness == Sameness(
        {"a b": Tool(("x.y", "z")), "c": Tool(same_call=("q",))}, (TextMask("v[0-9]", "<v>"),)
    )


HOOK = "[[webhooks]]\nname = 'a'\n"
ONE = "[[overrides]]\nphase = 'a'\n[overrides.rules.cycle]\nrounds_min = 4\n"


MANY = (Path(__file__).parent / "data/many_errors.toml").read_text(encoding="utf-8")


def test_every_error_of_a_file_is_named() -> None:
    """Whoever mends one at a time, and runs again, gives up; the file says where each stands."""
    with pytest.raises(SettingsError) as caught:
        read(MANY)
    every = caught.value.every
    lines = [int(str(each).split(":")[1]) for each in every]
    marked = [
        n for n, line in enumerate(MANY.splitlines(), 1) for _ in range(line.count("# wrong"))
    ]

    assert lines == marked
    assert str(caught.value) == f"{every[0]} The file has {len(marked) - 1} more."
    assert all(str(each).isprintable() for each in every)


@pytest.mark.parametrize(
    "text",
    [
        "[[webhooks]]\nname = 'a'\nurl = 'https://a/'\nformat = 'salck'",
        "[page]\nurl = 3\n[[webhooks]]\nname = 'a'\nurl = 'https://a/'\nsecrets = ['env:A']\n"
        "decision_hours = 3",
        "[[overrides]]\ntool = 'a'\n[overrides.rules.cycle]\nrounds_min = 'x'",
        "[[webhooks]]\nname = 3\nurl = 'https://a/'",
        "[rules.cycle]\nladder = [{ attempts = 'x', action = 'gate' }]",
    ],
)
def test_what_follows_from_an_error_is_no_other(text: str) -> None:
    """A value that is left out would make others look wrong."""
    with pytest.raises(SettingsError) as caught:
        read(text)
    assert len(caught.value.every) == 1


def test_an_override_may_set_back_an_earlier_one() -> None:
    """For one agent a phase's exception does not hold, which is no override without effect."""
    back = "[[overrides]]\nphase = 'a'\nagent = 'b'\n[overrides.rules.cycle]\nrounds_min = 3\n"
    found = read(f"{ONE}{back}")

    assert found.policy.rule_set.overrides[1].rules["cycle"] == rule_in(default(), "cycle")
    assert read(toml_of(found)) == found


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("1", "it is 1; it must be between 2 and 100."),
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


def both(text: str) -> bool:
    """Return whether a file can be used; looptrace and the schema must agree."""
    is_read = isinstance(outcome(text.encode()), Settings)

    assert SCHEMA.is_valid(tomllib.loads(text)) == is_read, text
    return is_read


def test_schema_describes_what_can_be_set() -> None:
    """An editor must neither refuse what looptrace takes nor offer what it refuses."""
    file = {setting.name: setting for setting in settings_in(file_table(RULES))}
    plain = {f"rules.{rule.name}": rule for rule in file["rules"].inner}
    plain |= {name: file[name] for name in ("recovery", "outages", "server")}

    assert len(plain) == len(RULES) + 3
    for header, section in plain.items():
        numbers = [setting for setting in section.inner if setting.kind in (int, float)]
        assert numbers
        for bound, beyond in (("ge", -1), ("le", 1)):
            lines = [f"{setting.name} = {setting.about[bound]}" for setting in numbers]
            assert SCHEMA.is_valid(tomllib.loads("\n".join([f"[{header}]", *lines])))
            for setting in numbers:
                assert not both(f"[{header}]\n{setting.name} = {setting.about[bound] + beyond}")
        assert both(f"[{header}]")
        assert not both(f"[{header}]\nnone = 1")
        assert not both(f"[{header}]\n{numbers[0].name} = true")
    for action in ACTIONS:
        assert both(f"[rules.cycle]\nladder = [{{ attempts = 1000, action = '{action}' }}]")


@pytest.mark.parametrize(
    "text",
    [
        "profile = 'balancd'",
        "enabled = 1",
        "directives = ''",
        "rules.cycle.ladder = []",
        "rules.cycle.ladder = [{ attempts = 2 }]",
        "rules.cycle.ladder = [{ attempts = 0, action = 'warn' }]",
        "rules.cycle.ladder = [{ attempts = 2, action = 'wran' }]",
        "[[overrides]]\nrules.cycle.rounds_min = 4",
        "[[overrides]]\nphase = 'a'",
        "[[overrides]]\nphase = 'a'\n[overrides.rules]",
        "[[overrides]]\nphase = ''\nrules.cycle.rounds_min = 4",
        f"[[overrides]]\nphase = '{'a' * 201}'\nrules.cycle.rounds_min = 4",
        "[phases.fix]",
        "[phases.'']\nconverges_on = 'markers'",
        "[meaning]",
        "[tools.a]\nsame_call = [3]",
        f"[tools.a]\nsame_call = {['a'] * 51}",
        "[[masks]]\nname = 'x'",
        "[[webhooks]]\nname = 'a'",
        "[[webhooks]]\nname = 'a'\nurl = 'env:A'\nformat = 'slack'\nrules = ['cycl']",
        "[[webhooks]]\nname = 'a'\nurl = 'env:A'\nformat = 'slack'\nactions = ['x']",
        "[[webhooks]]\nname = 'a'\nurl = 'env:A'\nformat = 'slack'\ngate_url = ''",
    ],
)
def test_schema_refuses_what_is_refused(text: str) -> None:
    """What an editor lets pass would be an error only where it is deployed."""
    assert not both(text)


@settings(max_examples=seed_count(60))
@given(any_settings())
def test_schema_accepts_any_settings(wanted: Settings) -> None:
    """An editor that marks a good file as bad is switched off."""
    assert SCHEMA.is_valid(tomllib.loads(toml_of(wanted)))


@pytest.mark.parametrize(
    ("section", "known"),
    [
        ("overrides", (*SELECTORS, "rules")),
        ("phases", ("converges_on", "better")),
        ("tools", tuple(item.name for item in fields(Tool))),
        ("masks", tuple(item.name for item in fields(TextMask))),
        ("webhooks", tuple(item.name for item in fields(Webhook))),
    ],
)
def test_schema_describes_what_can_be_listed(section: str, known: tuple[str, ...]) -> None:
    """The keys of the listed sections are those that are read, and no others."""
    (about,) = [each for each in settings_in(file_table(RULES)) if each.name == section]
    most = about.about["max_length"]

    assert tuple(setting.name for setting in about.inner) == known
    assert not both(f"{section} = {as_toml([{'none': 1}])}")
    many: Any = [{}] * (most + 1) if section in ("overrides", "masks", "webhooks") else None
    text = f"{section} = {as_toml(many or {f'n{i}': {} for i in range(most + 1)})}"
    assert not both(text)
    assert f"{section} has {most + 1} entries; it may have 0 to {most}." in refused(text)


def test_examples_of_the_page_can_be_used() -> None:
    """People copy the examples before they read the lists."""
    examples = re.findall(r"```toml\n(.*?)```", page(), re.DOTALL)

    assert any(read(example).policy.rule_set.overrides for example in examples)
    assert len(examples) == 15
    for example in examples:
        assert read(example) != default()


def test_a_folder_of_directives_is_named_from_the_file(tmp_path: Path) -> None:
    """Its templates are tried when the settings are read, and then agents receive them."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "warn.txt.j2").write_text("Stop, {{ attempts }} times is enough.")
    file = tmp_path / "looptrace.toml"
    file.write_text('directives = "own"\n')
    settings = load(file)
    (warning,) = detect(turns_in("run(a)->b x3")).events

    assert settings.directives.text_of(warning) == "Stop, 3 times is enough."
    assert read(toml_of(settings)) == settings
    (own / "gate.txt.j2").write_text("{{ reason }}")
    with pytest.raises(SettingsError, match=r"looptrace\.toml:1: .*'reason' is undefined"):
        load(file)
    file.write_text('\ndirectives = "none"\n')
    with pytest.raises(SettingsError, match=r"looptrace\.toml:2: .*none: is not a folder"):
        load(file)


def test_a_secret_in_the_wrong_place_is_not_quoted() -> None:
    """An error ends up in logs, where no secret belongs."""
    for line in ("url = 'https://a/'\nsecrets = ['whsec_hush']", "url = 'https://u:hush@a/'"):
        assert "hush" not in refused(f"{HOOK}{line}")


def test_files_of_secrets_lie_beside_the_settings(tmp_path: Path) -> None:
    """A service is started anywhere; the settings and what they name stay together."""
    path = tmp_path / "looptrace.toml"
    path.write_text(f"{HOOK}url = 'file:url'\nsecrets = ['file:new', 'env:OLD']\n")

    (webhook,) = load(path).webhooks

    assert webhook.url == f"file:{tmp_path / 'url'}"
    assert webhook.secrets == (f"file:{tmp_path / 'new'}", "env:OLD")
    assert read(toml_of(load(path))).webhooks == (webhook,)


SHARDS = '[shards]\nurls = ["http://a:4318", "https://b:4318/looptrace"]\n'


def test_servers_are_known_by_host_and_port_unless_they_have_names() -> None:
    """Names are for those whom a load balancer reaches at another port."""
    assert read("").shards.urls == ()
    assert read(SHARDS).shards.ring == ("a:4318", "b:4318")
    named = read(f'{SHARDS}names = ["a:4317", "b:4317"]\nby = "trace"\n').shards
    assert (named.ring, named.by) == (("a:4317", "b:4317"), "trace")
    assert read(toml_of(read(SHARDS))).shards == read(SHARDS).shards


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SHARDS.replace("http://a", "ftp://a"), "looptrace.toml:2: shards.urls has 'ftp://a:4318'"),
        (f'{SHARDS}names = ["a:4317"]\n', "shards.names must have one name for each"),
        (f'{SHARDS}names = ["a:4317", "a:4317"]\n', "names a server twice"),
        (SHARDS.replace("https://b:4318/looptrace", "http://a:4318/other"), "a server twice"),
    ],
)
def test_servers_that_cannot_be_are_errors(text: str, words: str) -> None:
    """Two servers of one name would have the same sessions."""
    assert words in str(outcome(text.encode()))
