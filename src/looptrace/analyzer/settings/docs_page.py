"""Settings in the forms that people and editors read: a page, and a JSON schema."""

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

`looptrace analyze`, `explain` and `ingest` read one file, `{FILE_NAME}`, from the current
directory or from where `--config` says. It starts from a profile and says what differs:

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
| `looptrace config check` | says whether a file can be used, and else what is wrong in which line |
| `looptrace config show` | prints the settings in force, as a file that says them all |

What is wrong is an error: an unknown key, a value of the wrong type or outside its bounds, a
threshold that cannot be reached, an override that changes nothing or never holds, a file of more
than {FILE_BYTES_MAX // 1024} KiB. Editors complete and check the file by
[looptrace.schema.json](looptrace.schema.json).

Two variables, read once at the start, win over the file. `{THRESHOLD_VARIABLE}`, from
{THRESHOLD_LEAST} to {THRESHOLD_MOST}, sets `attempts_min` of every rule that has one, in overrides
too, and leaves ladders as they are. A rule with narrower bounds takes the nearest value within
them, and `looptrace config show` says which. `{PIVOTS_VARIABLE}` sets `max_pivots`.

The attempts that a ladder names are counted since the last reset (a person, a completion, a day of
rest) or order to move on, and a pivot does not begin them anew. The next pivot of a task comes when
its rung's attempts have come again since the last one; after `max_pivots` of them it is a gate. A
rung that no loop can reach is an error, as one above `force_next`, above a gate, or above the gate
that follows the last pivot.

Findings in a store were made with the settings of its last ingest; an ingest with other settings
judges all of it anew. `looptrace analyze STORE` and `explain STORE` judge the stored turns with the
settings given to them, and so may find what `looptrace query` does not show, or the reverse.

`{ENABLED} = false` at the top of the file is the master switch: no rule judges.

`{DIRECTIVES} = "folder"` at the top, a folder named from where the file lies, has templates of your
own for what agents are told. A template is a Jinja file `NAME.txt.j2`, where NAME is an action
(`warn`, `retry_later`, `pivot`, `force_next`, `unblock_authority`, `gate`), a rule, whose warnings
and pivots it then words, or `resolved`, for what a person decided. It may use `task`, `rule`,
`action`, `attempts`, `loop_count`, `entropy_count` (attempts since the last pivot), `pivots`,
`max_pivots`, `blockers`, `retry_after_s`, `decision` and `note`. What is not there is worded by
looptrace.

`{MODEL} = "model.json"` at the top is a file that [`looptrace train`](prediction.md) wrote, for the
rule `likely_loop`.

## Profiles

| profile | meaning |
| --- | --- |
"""

_OVERRIDES_WORDS = """
At least one of the four must be given, and a turn fits where all that are given are its own; what a
turn does not say fits none. What holds at a turn decides whether a rule fires there. The turns
before it count whatever held at them, also where the rule was off. A loop that goes on under
another override stays one finding, unless no turn fired for longer than a rule looks back; its
words and its action are those of the last turn that fired."""


def page() -> str:
    """Return the Markdown page: each section, and for rules what each profile makes of them."""
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
    """Return the JSON schema of the file, by which editors complete and check it.

    That ladders rise is more than it can say.
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
    """Return a table with a column for what each profile has."""
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
