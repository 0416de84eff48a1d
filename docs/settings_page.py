"""Settings as a page for people and as a JSON schema for editors."""

import re
from collections.abc import Collection, Mapping, Sequence
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
from looptrace.rules.contract import Rung

_PAGE_HEAD = f"""# All settings

<!-- Made from the rules and profiles by `make docs`; edit it in docs/settings_page.py. -->

Start with [the ten settings you need](ten_settings.md). looptrace reads one file, `{FILE_NAME}`,
from the current directory, or the one that `--config` names: a profile, and the differences from
it. A number stands here with its default, and its bounds in brackets.

`looptrace config init` writes a file with every setting, explained; `check` names each error with
its line; `show` prints the settings in force.

An override without effect, a threshold that cannot be reached, and a file of more than
{FILE_BYTES_MAX // 1024} KiB are errors, too. Editors check the file with
[looptrace.schema.json](looptrace.schema.json).

Two variables override the file. `{THRESHOLD_VARIABLE}` ({THRESHOLD_LEAST} to {THRESHOLD_MOST})
sets `attempts_min` of every rule, in overrides too, within the rule's bounds, but no ladder;
`{PIVOTS_VARIABLE}` sets `max_pivots`.

An ingest with other settings evaluates the whole store again. `looptrace analyze STORE` and
`explain STORE` use their own settings and may find other loops than those stored.

## At the top of the file

- `profile`: The [profile](#profiles) that all else differs from.
- `{ENABLED}`: With `false` no rule runs.
- `{MODEL}`: The model of `likely_failure`, by [`calibrate --model`](calibrate.md#a-model).
- `{PRICES}`: A file with [prices](backtest.md#prices), `genai-prices`, or a [table](#prices).
- `{DIRECTIVES}`: A folder of your own texts for agents, instead of looptrace's.

Paths are relative to the file. A text in `{DIRECTIVES}` is a Jinja template `NAME.txt.j2`, where
NAME is an action, a rule, or `resolved` (a decision). Templates may use `task`, `rule`, `action`,
`attempts`, `loop_count`, `entropy_count` (attempts since the last pivot), `pivots`, `max_pivots`,
`blockers`, `tools` (those that repeat), `retry_after_s`, `decision`, `note`, `unless_decided` (as
`within 60 minutes, the task is cancelled`) and `unanswered` (whether a default decided).

## Profiles

"""

_OVERRIDES_WORDS = """
A turn matches if it has all given values; at least one must be given. The settings at a turn decide
whether a rule fires there; earlier turns count in any case. A loop that goes on under another
override stays one finding."""
_RULES_WORDS = """
## `[rules.NAME]`

Each rule has `enabled`, thresholds, and a `ladder`: 1 to 8 actions by number of attempts, which
rise while no action gets weaker. [The page of a rule](rules/README.md) has its settings by profile.

A ladder counts attempts since the last reset (a person, a completion, a day without turns) or
`force_next`; a pivot does not reset them. The next pivot comes after as many further attempts as
its rung names, and after `max_pivots` pivots a gate. A rung that no loop can reach is an error.
"""
_BUDGETS_WORDS = """
Each `…_tokens` has a `…_money`, in the currency of the prices. 0, the default, is no limit."""
_NO_LIMIT = "; 0 is no limit."
# A section with a page of its own has its example there.
_MORE = re.compile(r"\[more\]\(", re.IGNORECASE)


def page() -> str:
    """Return the Markdown page: each section, and where each rule has its thresholds."""
    file = {setting.name: setting for setting in settings_in(file_table(every_rule()))}
    parts = [
        _PAGE_HEAD + "\n".join(f"- `{name}`: {about.doc}" for name, about in PROFILES.items()),
        *_head(file["recovery"], "[recovery]"),
        *_profiles_list(file["recovery"], [values_of(each.recovery) for each in PROFILES.values()]),
        *_list(file["persons"]),
        *_list(file["outages"]),
        *_example_list(file[PRICES], f"[{PRICES}]"),
        *_budgets(file["budgets"]),
        *_example_list(file["overrides"], "[[overrides]]"),
        _OVERRIDES_WORDS,
        *_example_list(file["phases"], "[phases.NAME]"),
        *_example_list(file[MEANING], f"[{MEANING}]"),
        *_example_list(file[JUDGE], f"[{JUDGE}]"),
        *_example_list(file["tools"], "[tools.NAME]"),
        *_example_list(file["results"], "[results]"),
        *_list(file["sessions"]),
        *_example_list(file["masks"], "[[masks]]"),
        *_example_list(file["webhooks"], "[[webhooks]]"),
        *_example_list(file["waiting"], "[[waiting]]"),
        *_example_list(file["retention"], "[[retention]]"),
        *_example_list(file["attributes"], "[attributes]", lists=("kinds",)),
        *_example_list(file["outcomes"], "[outcomes]"),
        *_example_list(file["page"], "[page]"),
        *_example_list(file["shards"], "[shards]"),
        *_list(file["server"]),
        _RULES_WORDS,
    ]
    return "\n".join([*parts, ""])


def rule_tables() -> dict[str, str]:
    """Return by rule the list of its settings, with the values of each profile."""
    profiles = [rules_of_profile(name) for name in PROFILES]
    return {
        rule: "\n".join(_profiles_list(section, [values_of_rule(each[index]) for each in profiles]))
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


def _profiles_list(section: Setting, profiles: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a list with the values of the profiles, one where they are equal."""
    items, differ = [], False
    for setting in section.inner:
        values = [values.get(setting.name, setting.default) for values in profiles]
        if setting.name != "enabled":
            one = len(set(values)) == 1
            differ |= not one
            items.append(_item(setting, values[:1] if one else values))
    return [f"Settings ({'/'.join(PROFILES)}):" if differ else "Settings:", "", *items]


def _list(section: Setting) -> list[str]:
    items = [_item(setting, [setting.default]) for setting in section.inner]
    return [*_head(section, f"[{section.name}]"), *items]


def _budgets(section: Setting) -> list[str]:
    """Return the budgets in tokens; those in money have the same words."""
    tokens = [each for each in section.inner if each.name.endswith("_tokens")]
    items = [f"- `{each.name}`: {each.doc.removesuffix(_NO_LIMIT)}." for each in tokens]
    return [*_head(section, f"[{section.name}]"), *items, _BUDGETS_WORDS]


def _item(setting: Setting, values: Sequence[Any]) -> str:
    """Return a setting with its value in each profile, or with the one that all have."""
    if setting.name == "ladder":
        return f"- `ladder`: {_ladders(values)}"
    shown = "/".join(item(value).as_string() for value in values)
    bounds = "" if setting.kind is bool else f" ({setting.bounds.replace(' to ', '–')})"
    return f"- `{setting.name}`: {shown}{bounds}. {setting.doc}"


def _ladders(ladders: Sequence[Sequence[Rung]]) -> str:
    """Return the ladders of the profiles as one if they have the same actions."""
    if len({tuple(rung.action for rung in ladder) for ladder in ladders}) > 1:
        return " / ".join(_ladders([ladder]) for ladder in ladders)
    rungs = zip(*ladders, strict=True)
    return ", ".join(
        f"{'/'.join(str(each.attempts) for each in rung)} `{rung[0].action}`" for rung in rungs
    )


def _example_list(section: Setting, header: str, lists: Collection[str] = ()) -> list[str]:
    """Return a section, with its example if no page has it; with `lists` only these settings."""
    most = section.about.get("max_length", 1)
    count = f" There may be {most}." if most > 1 else ""
    return [
        *("", f"## `{header}`", "", f"{section.doc}{count}", ""),
        *(() if _MORE.search(section.doc) else ("```toml", f"{EXAMPLES[section.name]}```", "")),
        *(_plain_item(each) for each in section.inner if not lists or each.name in lists),
    ]


def _plain_item(setting: Setting) -> str:
    """Return a setting; of a number also its default and its bounds."""
    if isinstance(setting.default, int | float) and setting.kind is not bool:
        return _item(setting, [setting.default])
    return f"- `{setting.name}`: {setting.doc}"
