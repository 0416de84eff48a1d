"""The JSON schema of settings files refuses what looptrace refuses."""

import json
import tomllib
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from docs.settings_page import schema
from looptrace.analyzer.detect.ruleset import SELECTORS
from looptrace.analyzer.fingerprint.equivalence import TextMask, Tool
from looptrace.analyzer.settings.file_tables import file_table
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.settings.tables import settings_in
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.rules.contract import ACTIONS
from looptrace.rules.registry import RULES
from tests.analyzer.settings.files import any_settings, as_toml, outcome, refused
from tests.seeds import seed_count

SCHEMA = Draft202012Validator(json.loads(schema()))


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
