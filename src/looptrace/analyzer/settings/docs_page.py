"""Settings as a page for people and as a JSON schema for editors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from looptrace.analyzer.detect.rule_plugins import every_rule, known_rules
from looptrace.analyzer.settings.file_tables import (
    DIRECTIVES,
    ENABLED,
    EXAMPLES,
    JUDGE,
    MEANING,
    MODEL,
    PRICES,
    file_table,
)
from looptrace.analyzer.settings.profiles import PROFILES, rules_of_profile
from looptrace.analyzer.settings.sections import (
    FILE_NAME,
    PIVOTS_VARIABLE,
    THRESHOLD_LEAST,
    THRESHOLD_MOST,
    THRESHOLD_VARIABLE,
)
from looptrace.analyzer.settings.tables import Setting, settings_in
from looptrace.analyzer.settings.toml_reader import FILE_BYTES_MAX
from looptrace.analyzer.settings.toml_writer import item, values_of, values_of_rule

_PAGE_HEAD = f"""# All settings

<!-- Made from the rules and profiles by `make docs`; edit it in analyzer/settings/docs_page.py. -->

Start with [the ten settings you need](ten_settings.md). looptrace reads one file, `{FILE_NAME}`,
from the current directory, or the file that `--config` names. The file names a profile and the
differences from it:

```toml
profile = "conservative"

[rules.repeated_call]
attempts_min = 4
ladder = [{{ attempts = 4, action = "warn" }}, {{ attempts = 6, action = "gate" }}]

[rules.response_repeat]
enabled = false

{EXAMPLES["overrides"]}```

| command | does |
| --- | --- |
| `looptrace config init` | writes a file with every setting, its bounds and its meaning |
| `looptrace config check` | checks a file, and names each error with its line |
| `looptrace config show` | prints the settings in force |

Errors are an unknown key, a value of the wrong type or outside its bounds, a threshold that
cannot be reached, an override without effect, and a file of more than
{FILE_BYTES_MAX // 1024} KiB. Editors check the file with
[looptrace.schema.json](looptrace.schema.json).

Two variables override the file at the start. `{THRESHOLD_VARIABLE}`, from {THRESHOLD_LEAST} to
{THRESHOLD_MOST}, sets `attempts_min` of every rule, in overrides too, but no ladder; a rule
with narrower bounds takes the nearest allowed value. `{PIVOTS_VARIABLE}` sets `max_pivots`.

An ingest with other settings evaluates the whole store again. `looptrace analyze STORE` and
`explain STORE` use their own settings, so their findings may differ from those stored.

## At the top of the file

| key | meaning |
| --- | --- |
| `profile` | The [profile](#profiles) that all else differs from. |
| `{ENABLED}` | The master switch: with `false` no rule runs. |
| `{MODEL}` | The model of `likely_failure`, by [`calibrate --model`](calibrate.md#a-model). |
| `{PRICES}` | A file with [prices](backtest.md#prices) of models, or `genai-prices`. |
| `{DIRECTIVES}` | A folder of your own texts for agents. |

Paths are relative to the file. A text in `{DIRECTIVES}` is a Jinja template `NAME.txt.j2`, where
NAME is an action (`warn`, `retry_later`, `pivot`, `force_next`, `unblock_authority`, `gate`), a
rule, or `resolved` (a decision). Templates may use `task`, `rule`, `action`, `attempts`,
`loop_count`, `entropy_count` (attempts since the last pivot), `pivots`, `max_pivots`, `blockers`,
`tools` (those that repeat), `retry_after_s`, `decision`, `note`, `unless_decided` (of a gate,
as `within 60 minutes, the task is cancelled`) and `unanswered` (whether a default decided).
Where a template is missing, looptrace's own text is used.

## Profiles

| profile | meaning |
| --- | --- |
"""

_OVERRIDES_WORDS = """
At least one of the first five must be given. A turn matches if it has all given values. The
settings at a turn decide whether a rule fires there; earlier turns count under any settings, even
if the rule was off for them. A loop that continues under another override stays one finding,
with the text and action of the last turn that fired."""
_RULES_WORDS = """
## `[rules.NAME]`

Each rule has `enabled`, its thresholds, and a `ladder`: the actions by number of attempts, in 1
to 8 entries; attempts rise, and no action gets weaker. The page of a rule has its values by
profile, bounds and meanings.

A ladder counts attempts since the last reset (a person, a completion, a day without turns) or the
last `force_next`; a pivot does not reset them. The next pivot comes after as many further attempts
as its rung names, and after `max_pivots` pivots a gate. A rung that no loop can reach is an error.

| rule | thresholds |
| --- | --- |"""
# Settings of every rule, which `_RULES_WORDS` explains.
_OF_EVERY_RULE = ("enabled", "ladder")


def page() -> str:
    """Return the Markdown page: each section, and where each rule has its thresholds."""
    file = {setting.name: setting for setting in settings_in(file_table(every_rule()))}
    parts = [
        _PAGE_HEAD + "\n".join(f"| `{name}` | {about.doc} |" for name, about in PROFILES.items()),
        *_head(file["recovery"], "[recovery]"),
        *_profiles_table(
            file["recovery"], [values_of(each.recovery) for each in PROFILES.values()]
        ),
        *_table(file["persons"]),
        *_table(file["outages"]),
        *_table(file["budgets"]),
        *_listed_table(file["overrides"], "[[overrides]]"),
        _OVERRIDES_WORDS,
        *_listed_table(file["phases"], "[phases.NAME]"),
        *_listed_table(file[MEANING], f"[{MEANING}]"),
        *_listed_table(file[JUDGE], f"[{JUDGE}]"),
        *_listed_table(file["tools"], "[tools.NAME]"),
        *_listed_table(file["results"], "[results]"),
        *_table(file["sessions"]),
        *_listed_table(file["masks"], "[[masks]]"),
        *_listed_table(file["webhooks"], "[[webhooks]]"),
        *_listed_table(file["waiting"], "[[waiting]]"),
        *_listed_table(file["retention"], "[[retention]]"),
        *_listed_table(file["attributes"], "[attributes]"),
        *_listed_table(file["page"], "[page]"),
        *_listed_table(file["shards"], "[shards]"),
        *_table(file["server"]),
        _RULES_WORDS,
    ]
    for rule, section in _rules():
        names = [f"`{each.name}`" for each in section.inner if each.name not in _OF_EVERY_RULE]
        parts.append(f"| [`{rule}`](rules/{rule}.md) | {', '.join(names)} |")
    return "\n".join([*parts, ""])


def rule_tables() -> dict[str, str]:
    """Return by rule the table of its settings, with the values of each profile."""
    profiles = [rules_of_profile(name) for name in PROFILES]
    return {
        rule: "\n".join(
            _profiles_table(section, [values_of_rule(each[index]) for each in profiles])
        )
        for index, (rule, section) in enumerate(_rules())
    }


def _rules() -> list[tuple[str, Setting]]:
    (rules,) = (each for each in settings_in(file_table(every_rule())) if each.name == "rules")
    return [(rule.name, part) for rule, part in zip(known_rules(), rules.inner, strict=True)]


def schema() -> str:
    """Return the JSON schema of the file, with which editors complete and check it.

    A schema cannot require that ladders rise.
    """
    file = file_table(every_rule())
    _, tables = msgspec.json.schema_components([file], ref_template="#/$defs/{name}")
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:looptrace:settings:1",
        **tables.pop(file.__name__),
        "title": FILE_NAME,
        "$defs": tables,
    }
    text = msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()
    return f"{text}\n"


def _head(section: Setting, header: str) -> list[str]:
    return ["", f"## `{header}`", "", section.doc, ""]


def _profiles_table(section: Setting, profiles: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table with the values of the profiles in a cell, one where they are equal."""
    lines = [
        f"| setting | {' / '.join(PROFILES)} | bounds | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for setting in section.inner:
        values = [_value(values.get(setting.name, setting.default)) for values in profiles]
        if setting.name != "enabled":
            lines.append(_row(setting, values[:1] if len(set(values)) == 1 else values))
    return lines


def _table(section: Setting) -> list[str]:
    lines = [*_head(section, f"[{section.name}]")]
    lines += ["| setting | default | bounds | meaning |", "| --- | --- | --- | --- |"]
    return lines + [_row(setting, [_value(setting.default)]) for setting in section.inner]


def _row(setting: Setting, values: Iterable[str]) -> str:
    ladder = setting.name == "ladder"
    bounds = (
        ("", "what follows from how many attempts on") if ladder else (setting.bounds, setting.doc)
    )
    return f"| `{setting.name}` | {' / '.join(values)} | {' | '.join(bounds)} |"


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"{rung.attempts} `{rung.action}`" for rung in value)
    return item(value).as_string()


def _listed_table(section: Setting, header: str) -> list[str]:
    most = section.about.get("max_length", 1)
    count = f" There may be {most}." if most > 1 else ""
    rows = [f"| `{setting.name}` | {setting.doc} |" for setting in section.inner]
    return [
        *("", f"## `{header}`", "", f"{section.doc}{count}", ""),
        *("```toml", f"{EXAMPLES[section.name]}```", "", "| setting | meaning |", "| --- | --- |"),
        *rows,
    ]
