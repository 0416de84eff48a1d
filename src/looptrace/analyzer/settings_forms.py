"""Settings in the forms that people and editors read: TOML, a page, and a JSON schema."""

from __future__ import annotations

import json
from typing import Any

from looptrace.analyzer.rule_pages import summary
from looptrace.analyzer.settings import (
    DEFAULT_PROFILE,
    ENABLED,
    ENABLED_DOC,
    FILE_NAME,
    LADDER,
    LADDER_DOC,
    PROFILES,
    THRESHOLD_VARIABLE,
    Settings,
    rules_of_profile,
)
from looptrace.rules.contract import ACTIONS, RUNG_ATTEMPTS_MAX, RUNGS_MAX, Rule, Rung
from looptrace.rules.registry import RULES, default_rules

_PAGE_HEAD = f"""# Settings

<!-- Made from the rules and profiles by `make docs`; edit it in analyzer/settings_forms.py. -->

`looptrace analyze`, `explain` and `ingest` read one file, `{FILE_NAME}`, from the current
directory or from where `--config` says. It starts from a profile and says what differs:

```toml
profile = "conservative"

[rules.repeated_call]
attempts_min = 4
ladder = [{{ attempts = 4, action = "warn" }}, {{ attempts = 6, action = "gate" }}]

[rules.response_repeat]
enabled = false
```

| command | does |
| --- | --- |
| `looptrace config init` | writes a file with every rule, its settings, bounds and meanings |
| `looptrace config check` | says whether a file can be used, and else what is wrong in which line |
| `looptrace config show` | prints the settings in force, as a file that says them all |

What is wrong is an error: an unknown key, a value of the wrong type or outside its bounds, a file
of more than 256 KiB. Editors complete and check the file by
[looptrace.schema.json](looptrace.schema.json).

The variable `{THRESHOLD_VARIABLE}` wins over the file. It sets `attempts_min` of every rule
that has one, and leaves ladders as they are.

Findings in a store were made with the settings of its last ingest; an ingest with other settings
judges all of it anew. `looptrace analyze STORE` and `explain STORE` judge the stored turns with the
settings given to them, and so may find what `looptrace query` does not show, or the reverse.

## Profiles

| profile | meaning |
| --- | --- |
"""

_STARTER_HEAD = f"""# Settings of looptrace. `looptrace config check` says whether they can be used.
# To change a setting, remove the # before it. What is left out is as the profile has it.
# The actions of ladders, the mildest first: {", ".join(ACTIONS)}.
"""


def toml_of(settings: Settings) -> str:
    """Write settings as a file that says every one of them."""
    judging = {rule.name: rule for rule in settings.judging.rules}
    lines = [f'profile = "{settings.profile}"']
    for name in (rule.name for rule in RULES):
        lines += ["", f"[rules.{name}]"]
        lines += _assignments(judging[name]) if name in judging else [f"{ENABLED} = false"]
    return "\n".join([*lines, ""])


def starter() -> str:
    """Write a file that changes nothing, with every setting explained and commented out."""
    lines = [_STARTER_HEAD, *(f"# {name}: {profile.doc}" for name, profile in PROFILES.items())]
    lines.append(f'profile = "{DEFAULT_PROFILE}"')
    for rule in default_rules():
        lines += ["", f"# {summary(type(rule))}", f"[rules.{rule.name}]"]
        lines += [f"# {ENABLED_DOC}", f"#{ENABLED} = true"]
        for name, (value, about) in rule.settings().items():
            lines += [f"# {about['doc']} {about['ge']} to {about['le']}.", f"#{name} = {value}"]
        lines += [f"# {LADDER_DOC}", f"#{LADDER} = {_ladder_toml(rule.ladder)}"]
    return "\n".join([*lines, ""])


def page() -> str:
    """Return the Markdown page: a table for each rule, with what each profile makes of it."""
    profiles = {name: rules_of_profile(name) for name in PROFILES}
    lines = [f"| `{name}` | {profile.doc} |" for name, profile in PROFILES.items()]
    for index, rule in enumerate(default_rules()):
        variants = [rules[index] for rules in profiles.values()]
        lines += [
            "",
            f"## `[rules.{rule.name}]`",
            "",
            f"{summary(type(rule))} [More](rules/{rule.name}.md)",
            "",
            f"| setting | {' | '.join(profiles)} | bounds | meaning |",
            f"| --- |{' --- |' * len(profiles)} --- | --- |",
            _row(ENABLED, ["true"] * len(profiles), "true or false", ENABLED_DOC),
        ]
        for name, (_, about) in rule.settings().items():
            values = [str(getattr(variant, name)) for variant in variants]
            lines.append(_row(name, values, f"{about['ge']} to {about['le']}", about["doc"]))
        ladders = [_ladder_words(variant.ladder) for variant in variants]
        lines.append(_row(LADDER, ladders, f"1 to {RUNGS_MAX} rungs", LADDER_DOC))
    return _PAGE_HEAD + "\n".join([*lines, ""])


def schema() -> str:
    """Return the JSON schema of the file; that ladders rise is more than it can say."""
    rules = {rule.name: _rule_schema(rule) for rule in default_rules()}
    profile = {
        "description": " ".join(f"{name}: {about.doc}" for name, about in PROFILES.items()),
        "enum": list(PROFILES),
        "default": DEFAULT_PROFILE,
    }
    attempts = {"type": "integer", "minimum": 1, "maximum": RUNG_ATTEMPTS_MAX}
    rung = _object({"attempts": attempts, "action": {"enum": list(ACTIONS)}})
    ladder = {
        "type": "array",
        "items": rung | {"required": list(rung["properties"])},
        "minItems": 1,
        "maxItems": RUNGS_MAX,
    }
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:looptrace:settings:1",
        "title": FILE_NAME,
        **_object({"profile": profile, "rules": _object(rules)}),
        "$defs": {LADDER: ladder},
    }
    return f"{json.dumps(whole, indent=2, ensure_ascii=False)}\n"


def _assignments(rule: Rule) -> list[str]:
    numbers = [f"{name} = {value}" for name, (value, _) in rule.settings().items()]
    return [f"{ENABLED} = true", *numbers, f"{LADDER} = {_ladder_toml(rule.ladder)}"]


def _ladder_toml(ladder: tuple[Rung, ...]) -> str:
    rungs = (f'{{ attempts = {rung.attempts}, action = "{rung.action}" }}' for rung in ladder)
    return f"[{', '.join(rungs)}]"


def _ladder_words(ladder: tuple[Rung, ...]) -> str:
    return ", ".join(f"`{rung.action}` from {rung.attempts}" for rung in ladder)


def _row(name: str, values: list[str], bounds: str, doc: str) -> str:
    return f"| `{name}` | {' | '.join(values)} | {bounds} | {doc} |"


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _rule_schema(rule: Rule) -> dict[str, Any]:
    """Describe a rule's table; defaults are those of the default profile."""
    properties: dict[str, Any] = {
        ENABLED: {"type": "boolean", "default": True, "description": ENABLED_DOC}
    }
    for name, (value, about) in rule.settings().items():
        properties[name] = {
            "type": "integer",
            "minimum": about["ge"],
            "maximum": about["le"],
            "default": value,
            "description": about["doc"],
        }
    rungs = [{"attempts": rung.attempts, "action": rung.action} for rung in rule.ladder]
    properties[LADDER] = {
        "$ref": f"#/$defs/{LADDER}",
        "default": rungs,
        "description": LADDER_DOC,
    }
    return {"description": summary(type(rule)), **_object(properties)}
