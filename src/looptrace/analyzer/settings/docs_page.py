"""Settings in the forms that people and editors read: TOML, a page, and a JSON schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from looptrace.analyzer.engine.outages import OutageSettings
from looptrace.analyzer.settings.section_docs import (
    _ENABLED_DOC,
    _EXAMPLES,
    _LADDER_DOC,
    _LISTED_DOCS,
    _SECTION_DOCS,
    _bounds,
    _recovery_rows,
)
from looptrace.analyzer.settings.sections import (
    DIRECTIVES,
    ENABLED,
    FILE_NAME,
    LADDER,
    MASKS_MAX,
    MEANING,
    MODEL,
    OVERRIDES_MAX,
    PHASES_MAX,
    PIVOTS_VARIABLE,
    PROFILES,
    THRESHOLD_VARIABLE,
    TOOLS_MAX,
    WEBHOOKS_MAX,
    rules_of_profile,
)
from looptrace.analyzer.settings.server_limits import Limits
from looptrace.analyzer.settings.toml_reader import FILE_BYTES_MAX
from looptrace.analyzer.settings.toml_writer import _toml
from looptrace.rules.contract import RUNGS_MAX, Rung, numbers
from looptrace.rules.docs import summary
from looptrace.rules.registry import known_rules

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

{_EXAMPLES["overrides"]}```

| command | does |
| --- | --- |
| `looptrace config init` | writes a file with every setting, its bounds and its meaning |
| `looptrace config check` | says whether a file can be used, and else what is wrong in which line |
| `looptrace config show` | prints the settings in force, as a file that says them all |

What is wrong is an error: an unknown key, a value of the wrong type or outside its bounds, a
threshold that cannot be reached, an override that changes nothing or never holds, a file of more
than {FILE_BYTES_MAX // 1024} KiB. Editors complete and check the file by
[looptrace.schema.json](looptrace.schema.json).

Two variables, read once at the start, win over the file. `{THRESHOLD_VARIABLE}` sets
`attempts_min` of every rule that has one, in overrides too, and leaves ladders as they are.
`{PIVOTS_VARIABLE}` sets `max_pivots`.

Findings in a store were made with the settings of its last ingest; an ingest with other settings
judges all of it anew. `looptrace analyze STORE` and `explain STORE` judge the stored turns with the
settings given to them, and so may find what `looptrace query` does not show, or the reverse.

`{ENABLED} = false` at the top of the file is the master switch: no rule judges.

`{DIRECTIVES} = "folder"` at the top, a folder named from where the file lies, has templates of your
own for what agents are told. A template is a Jinja file `NAME.txt.j2`, where NAME is an action
(`warn`, `retry_later`, `pivot`, `force_next`, `unblock_authority`, `gate`) or a rule, whose
warnings and pivots it then words. It may use `task`, `rule`, `action`, `attempts`, `loop_count`,
`pivots`, `max_pivots`, `blockers` and `retry_after_s`. What is not there is worded by looptrace.

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
    parts = [
        _PAGE_HEAD + "\n".join(f"| `{name}` | {about.doc} |" for name, about in PROFILES.items()),
        *_recovery_page(),
        *_numbers_page("outages", OutageSettings()),
        *_listed_page("overrides", "[[overrides]]", OVERRIDES_MAX),
        _OVERRIDES_WORDS,
        *_listed_page("phases", "[phases.NAME]", PHASES_MAX),
        *_listed_page(MEANING, f"[{MEANING}]", 1),
        *_listed_page("tools", "[tools.NAME]", TOOLS_MAX),
        *_listed_page("masks", "[[masks]]", MASKS_MAX),
        *_listed_page("webhooks", "[[webhooks]]", WEBHOOKS_MAX),
        *_numbers_page("server", Limits()),
        *_rules_page(),
    ]
    return "\n".join([*parts, ""])


def _ladder_words(ladder: tuple[Rung, ...]) -> str:
    return ", ".join(f"`{rung.action}` from {rung.attempts}" for rung in ladder)


def _row(name: str, values: Iterable[str], bounds: str, doc: str) -> str:
    return f"| `{name}` | {' | '.join(values)} | {bounds} | {doc} |"


def _recovery_page() -> list[str]:
    lines = _table_head("`[recovery]`", _SECTION_DOCS["recovery"], PROFILES)
    for name, value, bounds, doc in _recovery_rows():
        values = [getattr(profile.recovery, name, value) for profile in PROFILES.values()]
        lines.append(_row(name, map(_toml, values), bounds, doc))
    return lines


def _numbers_page(section: str, owner: Any) -> list[str]:
    lines = ["", f"## `[{section}]`", "", _SECTION_DOCS[section], ""]
    lines += ["| setting | default | bounds | meaning |", "| --- | --- | --- | --- |"]
    for name, (value, about) in numbers(owner).items():
        lines.append(_row(name, [str(value)], _bounds(about), about["doc"]))
    return lines


def _listed_page(section: str, header: str, most: int) -> list[str]:
    rows = [f"| `{key}` | {doc} |" for key, doc in _LISTED_DOCS[section].items()]
    return [
        *("", f"## `{header}`", "", f"{_SECTION_DOCS[section]} There may be {most}.", ""),
        *("```toml", f"{_EXAMPLES[section]}```", "", "| setting | meaning |", "| --- | --- |"),
        *rows,
    ]


def _rules_page() -> list[str]:
    """Return a table for each rule, with what each profile makes of it."""
    profiles = {name: rules_of_profile(name) for name in PROFILES}
    lines = []
    for index, rule in enumerate(known_rules()):
        variants = [rules[index] for rules in profiles.values()]
        words = f"{summary(type(rule))} [More](rules/{rule.name}.md)"
        lines += _table_head(f"`[rules.{rule.name}]`", words, profiles)
        lines.append(
            _row(
                ENABLED, [_toml(rule.on_by_default)] * len(profiles), "true or false", _ENABLED_DOC
            )
        )
        for name, (_, about) in rule.settings().items():
            values = [str(getattr(variant, name)) for variant in variants]
            lines.append(_row(name, values, _bounds(about), about["doc"]))
        ladders = [_ladder_words(variant.ladder) for variant in variants]
        lines.append(_row(LADDER, ladders, f"1 to {RUNGS_MAX} rungs", _LADDER_DOC))
    return lines


def _table_head(header: str, words: str, profiles: Iterable[str]) -> list[str]:
    names = list(profiles)
    return [
        *("", f"## {header}", "", words, ""),
        f"| setting | {' | '.join(names)} | bounds | meaning |",
        f"| --- |{' --- |' * len(names)} --- | --- |",
    ]
