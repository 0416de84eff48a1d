"""Settings from texts, and any settings and tables for tests with random ones."""

import datetime
import json
from dataclasses import fields
from typing import Any

from hypothesis import strategies as st

from looptrace.analyzer.detect.counters import Counting
from looptrace.analyzer.detect.phases import METRICS, Convergence
from looptrace.analyzer.detect.rule_plugins import known_rules
from looptrace.analyzer.detect.ruleset import SELECTORS, Override, RuleSet
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.fingerprint.equivalence import Sameness, TextMask, Tool
from looptrace.analyzer.gates.ladders import check_reach
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.settings.file_tables import file_table
from looptrace.analyzer.settings.judge import ChatSettings
from looptrace.analyzer.settings.page import PageSettings
from looptrace.analyzer.settings.profiles import PROFILES, rules_of_profile
from looptrace.analyzer.settings.sections import Settings, parsed
from looptrace.analyzer.settings.tables import settings_in
from looptrace.analyzer.settings.toml_reader import SettingsError
from looptrace.analyzer.settings.webhook import FORMATS, Webhook
from looptrace.rules.contract import ACTIONS, Rule, SettingError
from looptrace.rules.prediction.likely_failure import LikelyFailure
from looptrace.rules.registry import RULES

SECTIONS = [setting.name for setting in settings_in(file_table(RULES))]


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


# A file cannot switch on a rule that needs a model without one; `calibrate --model` tunes it.
NEEDS_NO_FILE = [rule for rule in RULES if rule is not LikelyFailure]


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


def as_toml(value: Any) -> str:
    """Write a value as TOML."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(k)} = {as_toml(v)}' for k, v in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, datetime.date):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)
