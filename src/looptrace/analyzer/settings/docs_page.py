"""Settings as a page for people and as a JSON schema for editors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

_PAGE_HEAD = f"""# Settings

<!-- Made from the rules and profiles by `make docs`; edit it in analyzer/settings/docs_page.py. -->

This page lists every setting with its default, its bounds and its meaning. `looptrace analyze`,
`explain`, `ingest` and `serve` read one file, `{FILE_NAME}`, from the current directory, or the
file that `--config` names. It starts from a profile and lists the differences:

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
| `looptrace config show` | prints the settings in force, as a file with all of them |

These are errors: an unknown key, a value of the wrong type or outside its bounds, a threshold that
cannot be reached, an override that changes nothing or never applies, a file of more than
{FILE_BYTES_MAX // 1024} KiB. Editors complete and check the file with
[looptrace.schema.json](looptrace.schema.json).

Two variables, read once at the start, override the file. `{THRESHOLD_VARIABLE}`, from
{THRESHOLD_LEAST} to {THRESHOLD_MOST}, sets `attempts_min` of every rule that has one, in overrides
too, and does not change ladders. A rule with narrower bounds uses the nearest allowed value, and
`looptrace config show` says which. `{PIVOTS_VARIABLE}` sets `max_pivots`.

A ladder counts attempts since the last reset (a person, a completion, a day without turns) or the
last `force_next`; a pivot does not reset them. A task gets its next pivot after as many further
attempts as the rung names. After `max_pivots` pivots, a gate follows. A rung that no loop can reach
is an error, for example a rung above `force_next`, above a gate, or above the gate that follows the
last pivot.

Findings in a store were made with the settings of its last ingest; an ingest with other settings
evaluates the whole store again. `looptrace analyze STORE` and `explain STORE` evaluate the stored
turns with their own settings, so their findings may differ from those of `looptrace query`.

`{ENABLED} = false` at the top of the file is the master switch: no rule runs.

`{DIRECTIVES} = "folder"` at the top names a folder, relative to the file, with your own templates
for directives. A template is a Jinja file `NAME.txt.j2`. NAME is an action (`warn`, `retry_later`,
`pivot`, `force_next`, `unblock_authority`, `gate`), a rule (for its warnings and pivots), or
`resolved` (for a person's decision). A template may use `task`, `rule`, `action`, `attempts`,
`loop_count`, `entropy_count` (attempts since the last pivot), `pivots`, `max_pivots`, `blockers`,
`tools` (those that repeat), `retry_after_s`, `decision`, `note`, `unless_decided` (of a gate,
as `within 60 minutes, the task is cancelled`) and `unanswered` (whether a default decided).
looptrace has a text for each missing template.

`{MODEL} = "model.json"` at the top names a file of [`looptrace train`](prediction.md) for the rule
`likely_loop`.

`{PRICES} = "prices.toml"` at the top names a file with the [prices](backtest.md#prices) of
models, by which budgets in money are kept, and costs are shown where a command has no `--prices`.

## Profiles

| profile | meaning |
| --- | --- |
"""

_OVERRIDES_WORDS = """
At least one of the first four must be given. A turn matches if all given values are its own; a
value that the turn does not have matches nothing. The settings at a turn decide whether a rule
fires there. Earlier turns count under any settings, even if the rule was off for them. A loop that
continues under another override stays one finding, unless no turn fired for longer than the rule
looks back; its text and its action are those of the last turn that fired."""


def page() -> str:
    """Return the Markdown page: each section, and the rules with the values of each profile."""
    file = {setting.name: setting for setting in settings_in(file_table(every_rule()))}
    parts = [
        _PAGE_HEAD + "\n".join(f"| `{name}` | {about.doc} |" for name, about in PROFILES.items()),
        *_profiles_table(
            "recovery",
            file["recovery"],
            [values_of(profile.recovery) for profile in PROFILES.values()],
        ),
        *_table(file["persons"]),
        *_table(file["outages"]),
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
        *_listed_table(file["attributes"], "[attributes]"),
        *_listed_table(file["page"], "[page]"),
        *_listed_table(file["shards"], "[shards]"),
        *_table(file["server"]),
    ]
    profiles = [rules_of_profile(name) for name in PROFILES]
    for index, (rule, section) in enumerate(zip(known_rules(), file["rules"].inner, strict=True)):
        doc = f"{section.doc} [More](rules/{rule.name}.md)"
        values = [values_of_rule(rules[index]) for rules in profiles]
        parts += _profiles_table(f"rules.{rule.name}", section, values, doc)
    return "\n".join([*parts, ""])


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


def _profiles_table(
    header: str, section: Setting, profiles: Iterable[Mapping[str, Any]], doc: str = ""
) -> list[str]:
    """Return a table with a column for each profile."""
    names = list(PROFILES)
    lines = [
        *("", f"## `[{header}]`", "", doc or section.doc, ""),
        f"| setting | {' | '.join(names)} | bounds | meaning |",
        f"| --- |{' --- |' * len(names)} --- | --- |",
    ]
    for setting in section.inner:
        values = [_value(values.get(setting.name, setting.default)) for values in profiles]
        lines.append(_row(setting, values))
    return lines


def _table(section: Setting) -> list[str]:
    lines = ["", f"## `[{section.name}]`", "", section.doc, ""]
    lines += ["| setting | default | bounds | meaning |", "| --- | --- | --- | --- |"]
    return lines + [_row(setting, [_value(setting.default)]) for setting in section.inner]


def _row(setting: Setting, values: Iterable[str]) -> str:
    return f"| `{setting.name}` | {' | '.join(values)} | {setting.bounds} | {setting.doc} |"


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"`{rung.action}` from {rung.attempts}" for rung in value)
    return item(value).as_string()


def _listed_table(section: Setting, header: str) -> list[str]:
    most = section.about.get("max_length", 1)
    rows = [f"| `{setting.name}` | {setting.doc} |" for setting in section.inner]
    return [
        *("", f"## `{header}`", "", f"{section.doc} There may be {most}.", ""),
        *("```toml", f"{EXAMPLES[section.name]}```", "", "| setting | meaning |", "| --- | --- |"),
        *rows,
    ]
