"""Settings in the forms that people and editors read: TOML, a page, and a JSON schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from looptrace.analyzer.detect import rule_plugins as plugins
from looptrace.analyzer.detect.counters import METRICS, Counting
from looptrace.analyzer.detect.ruleset import SELECTORS
from looptrace.analyzer.engine.outages import OutageSettings
from looptrace.analyzer.fingerprint.equivalence import PATTERN_CHARS_MAX, Tool
from looptrace.analyzer.fingerprint.similarity import LETTERS, MEASURES, Meaning
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.settings.sections import (
    CONVERGES_ON,
    DEFAULT_PROFILE,
    DIRECTIVES,
    ENABLED,
    FILE_NAME,
    LADDER,
    MASKS_MAX,
    MEANING,
    MEASURE,
    MODEL,
    OVERRIDES_MAX,
    PHASES_MAX,
    PIVOTS_VARIABLE,
    PRIVATE_MAX,
    PROFILES,
    THRESHOLD_VARIABLE,
    TOOL_KEYS_MAX,
    TOOLS_MAX,
    UNBLOCK,
    WEBHOOKS_MAX,
    Settings,
    rules_of_profile,
)
from looptrace.analyzer.settings.server_limits import Limits
from looptrace.analyzer.settings.toml_reader import FILE_BYTES_MAX, LINE_DOTS_MAX, TEXT_CHARS_MAX
from looptrace.analyzer.settings.webhook import (
    FILTER_MAX,
    FILTERS,
    FORMATS,
    SECRETS_MAX,
    URL_CHARS_MAX,
    Webhook,
)
from looptrace.rules.contract import ACTIONS, RUNG_ATTEMPTS_MAX, RUNGS_MAX, Rule, Rung, numbers
from looptrace.rules.docs import summary
from looptrace.rules.registry import known_rules

_ENABLED_DOC = "Whether the rule judges at all."
_LADDER_DOC = "Which action from how many attempts on; attempts rise, and no action gets weaker."
_DIRECTIVES_DOC = "Folder of templates, beside the file, for what agents are told."
_MODEL_DOC = "File by `looptrace train`, beside the file, for the rule likely_loop."
_MASTER_DOC = "The master switch; false lets no rule judge."
_SECTION_DOCS = {
    "recovery": "How a looping task is brought back, and when counts begin anew.",
    "outages": "When one failure that many sessions meet is told once; [more](outages.md).",
    "rules": "Each rule: whether it judges, its thresholds, and its ladder of actions.",
    "overrides": (
        "Rules that judge otherwise where a turn fits. Each starts from what holds for all turns; "
        "of several that fit a turn, the last wins, rule by rule."
    ),
    "phases": (
        "Iterative phases. While the metric gets better, visits to the phase and transitions to "
        "it count from 1 again."
    ),
    "meaning": (
        "How requests to agents, and searches with one result, are compared that are not the same "
        "word by word; without this section, not at all. [More](near_sameness.md)"
    ),
    "tools": "What makes calls of a tool the same.",
    "masks": "Parts of results and errors that do not make them differ.",
    "server": "What `looptrace serve` may take up: bytes, seconds, and how long things are kept.",
    "webhooks": "Receivers that events of gates are sent on to; [more](webhooks.md).",
}
_SELECTOR_DOCS = {
    "phase": "The turn's phase, as declared.",
    "agent": "The name of the turn's agent.",
    "task_kind": "The kind of the turn's task, as declared.",
    "tool": "The name of the tool that the turn calls.",
}
_CONVERGES_DOC = f"What gets better: {', '.join(METRICS)}."
_MEANING_DOCS = {
    "measure": (
        "sentences: embeddings of a language model, which need the extra `semantic`; letters: "
        "three letters in a row, which only sees the same words in another order or form."
    ),
    **{name: about["doc"] for name, (_, about) in numbers(Meaning(LETTERS)).items()},
}
_TOOL_DOCS = {
    "volatile_keys": "Arguments that do not count, by key or path with dots.",
    "same_call": "The only arguments that count, instead of volatile_keys.",
    "polling": "Whether asking again is what the tool is for, so that its calls never repeat.",
}
_MASK_DOCS = {
    "pattern": "A regular expression in the syntax of Rust's regex, which takes linear time.",
    "name": "What stands for the part.",
}
_WEBHOOK_DOCS = {
    "name": "What it is called in lists, metrics and errors.",
    "url": "Where to send: https://..., or env:VARIABLE or file:PATH that holds the address.",
    "format": f"One of {', '.join(FORMATS)}.",
    "secrets": (
        "Where the secrets lie (env:VARIABLE or file:PATH), the newest first; two while one is "
        "replaced by the other. Of pagerduty the integration key."
    ),
    "gate_url": "Link to a gate for people, with {gate} and {task} in it.",
    "allow_private": "Networks within which the receiver may lie though they are not public.",
    "rules": "Only events of these rules.",
    "actions": "Only events that ask for one of these actions.",
    "agents": "Only events of these agents.",
    "services": "Only events of these services (service.name).",
}
_LISTED_DOCS = {
    "overrides": _SELECTOR_DOCS,
    "phases": {CONVERGES_ON: _CONVERGES_DOC},
    "meaning": _MEANING_DOCS,
    "tools": _TOOL_DOCS,
    "masks": _MASK_DOCS,
    "webhooks": _WEBHOOK_DOCS,
}

_EXAMPLES = {
    "overrides": """[[overrides]]
phase = "refine"

[overrides.rules.phase_visits]
max_visits = 20
""",
    "phases": """[phases.refine]
converges_on = "tests_failed"
""",
    "meaning": """[meaning]
measure = "letters"
similar_percent = 85
""",
    "tools": """[tools.get_status]
polling = true

[tools.search]
volatile_keys = ["session_token"]
""",
    "masks": """[[masks]]
pattern = "build-[0-9]+"
name = "<build>"
""",
    "webhooks": """[[webhooks]]
name = "on-call"
url = "https://hooks.example.com/looptrace"
secrets = ["env:LOOPTRACE_WEBHOOK_SECRET"]
actions = ["gate"]
""",
}

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

_STARTER_HEAD = f"""# Settings of looptrace. `looptrace config check` says whether they can be used.
# To change a setting, remove the # before it. What is left out is as the profile has it.
# The actions of ladders, the mildest first: {", ".join(ACTIONS)}.

# {_MASTER_DOC}
#{ENABLED} = true

# {DIRECTIVES} = "FOLDER": {_DIRECTIVES_DOC}

# {MODEL} = "FILE": {_MODEL_DOC}
"""

_LIMITS = numbers(Limits())
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_of(settings: Settings) -> str:
    """Write settings as a file that says every one of them."""
    judging, sameness = settings.judging, settings.sameness
    forms: dict[str, Rule | None] = {rule.name: None for rule in plugins.known_rules()}
    forms |= {rule.name: rule for rule in judging.rules}
    judges = bool(judging.rules or judging.overrides)
    lines = [f"{ENABLED} = {_toml(judges)}", f"profile = {_toml(settings.profile)}"]
    if settings.directives_dir:
        lines.append(f"{DIRECTIVES} = {_toml(settings.directives_dir)}")
    if settings.model_file:
        lines.append(f"{MODEL} = {_toml(settings.model_file)}")
    values = _recovery_values(settings.recovery)
    values |= {name: value for name, (value, _) in numbers(judging.counting).items()}
    lines += _section("[recovery]", values)
    lines += _section("[outages]", asdict(settings.outages))
    if judges:
        lines += _rules_toml("rules", forms)
    for override in judging.overrides:
        lines += _section("[[overrides]]", override.selectors)
        lines += _rules_toml("overrides.rules", override.rules)
    for phase, metric in judging.counting.converging.items():
        lines += _section(f"[phases.{_key(phase)}]", {CONVERGES_ON: metric})
    if judging.meaning:
        values = {item.name: getattr(judging.meaning, item.name) for item in fields(Meaning)}
        lines += _section(f"[{MEANING}]", values)
    for name, tool in sameness.tools.items():
        values = {item.name: getattr(tool, item.name) for item in fields(Tool)}
        lines += _section(f"[tools.{_key(name)}]", values)
    for mask in sameness.masks:
        lines += _section("[[masks]]", {"pattern": mask.pattern, "name": mask.name})
    for webhook in settings.webhooks:
        values = {item.name: getattr(webhook, item.name) for item in fields(Webhook)}
        lines += _section("[[webhooks]]", {name: value for name, value in values.items() if value})
    lines += _section("[server]", asdict(settings.server))
    return "\n".join([*lines, ""])


def starter() -> str:
    """Write a file that changes nothing, with every setting explained and commented out.

    Examples of what a file may list are set off, so that they do not look like settings in force.
    """
    lines = [_STARTER_HEAD, *(f"# {name}: {profile.doc}" for name, profile in PROFILES.items())]
    lines.append(f'profile = "{DEFAULT_PROFILE}"')
    lines += ["", f"# {_SECTION_DOCS['recovery']}", "[recovery]"]
    for name, value, bounds, doc in _recovery_rows():
        lines += [f"# {doc} {bounds.capitalize()}.", f"#{name} = {_toml(value)}"]
    lines += ["", f"# {_SECTION_DOCS['outages']}", "[outages]"]
    for name, (value, about) in numbers(OutageSettings()).items():
        lines += [f"# {about['doc']} {_bounds(about)}.", f"#{name} = {value}"]
    for rule in plugins.known_rules():
        lines += ["", f"# {summary(type(rule))}", f"[rules.{rule.name}]"]
        lines += [f"# {_ENABLED_DOC}", f"#{ENABLED} = {_toml(rule.on_by_default)}"]
        for name, (value, about) in rule.settings().items():
            lines += [f"# {about['doc']} {_bounds(about)}.", f"#{name} = {value}"]
        lines += [f"# {_LADDER_DOC}", f"#{LADDER} = {_toml(rule.ladder)}"]
    lines += ["", f"# {_SECTION_DOCS['server']}", "[server]"]
    for name, (value, about) in _LIMITS.items():
        lines += [f"# {about['doc']} {_bounds(about)}.", f"#{name} = {value}"]
    for section, example in _EXAMPLES.items():
        lines += ["", f"# {_SECTION_DOCS[section]}"]
        lines += [f"# {key}: {doc}" for key, doc in _LISTED_DOCS[section].items()]
        lines += [f"#    {line}".rstrip() for line in example.splitlines()]
    return "\n".join([*lines, ""])


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


def schema() -> str:
    """Return the JSON schema of the file; that ladders rise is more than it can say."""
    rules = _object({rule.name: _rule_schema(rule) for rule in known_rules()})
    attempts = {"type": "integer", "minimum": 1, "maximum": RUNG_ATTEMPTS_MAX}
    rung = _object({"attempts": attempts, "action": {"enum": list(ACTIONS)}})
    definitions = {
        LADDER: _list(rung | {"required": list(rung["properties"])}, RUNGS_MAX, least=1),
        "rules": rules,
        "text": _text_schema(TEXT_CHARS_MAX),
    }
    profile = {
        "description": " ".join(f"{name}: {about.doc}" for name, about in PROFILES.items()),
        "enum": list(PROFILES),
        "default": DEFAULT_PROFILE,
    }
    sections: dict[str, Any] = {
        ENABLED: {"type": "boolean", "default": True, "description": _MASTER_DOC},
        "profile": profile,
        DIRECTIVES: {**_text_schema(TEXT_CHARS_MAX), "description": _DIRECTIVES_DOC},
        MODEL: {**_text_schema(TEXT_CHARS_MAX), "description": _MODEL_DOC},
        "recovery": _recovery_schema(),
        "outages": _object(
            {name: _number_schema(*one) for name, one in numbers(OutageSettings()).items()}
        ),
        "rules": _ref("rules", "rules"),
        "overrides": _list(_override_schema(), OVERRIDES_MAX),
        "phases": _names(_phase_schema(), PHASES_MAX),
        MEANING: _meaning_schema(),
        "tools": _names(_tool_schema(), TOOLS_MAX),
        "masks": _list(_mask_schema(), MASKS_MAX),
        "webhooks": _list(_webhook_schema(), WEBHOOKS_MAX),
        "server": _object({name: _number_schema(*one) for name, one in _LIMITS.items()}),
    }
    for name, doc in _SECTION_DOCS.items():
        sections[name]["description"] = doc
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:looptrace:settings:1",
        "title": FILE_NAME,
        **_object(sections),
        "$defs": definitions,
    }
    return f"{json.dumps(whole, indent=2, ensure_ascii=False)}\n"


def _recovery_values(recovery: Recovery) -> dict[str, Any]:
    return {item.name: getattr(recovery, item.name) for item in fields(recovery)}


def _rules_toml(prefix: str, forms: Mapping[str, Rule | None]) -> list[str]:
    lines = []
    for name, rule in forms.items():
        values: dict[str, Any] = {ENABLED: rule is not None}
        if rule is not None:
            values |= {key: value for key, (value, _) in rule.settings().items()}
            values[LADDER] = rule.ladder
        lines += _section(f"[{prefix}.{name}]", values)
    return lines


def _section(header: str, values: Mapping[str, Any]) -> list[str]:
    return ["", header, *(f"{name} = {_toml(value)}" for name, value in values.items())]


def _toml(value: Any) -> str:
    """Write a value; texts of a list have a line each."""
    if isinstance(value, Rung):
        return f'{{ attempts = {value.attempts}, action = "{value.action}" }}'
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        return "\n".join(["[", *(f"    {_toml(text)}," for text in value), "]"])
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if not isinstance(value, str):
        return str(value).lower()
    quoted = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return quoted if quoted.count(".") < LINE_DOTS_MAX else quoted.replace(".", "\\u002e")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _toml(name)


def _bounds(about: Mapping[str, Any]) -> str:
    return f"{about['ge']} to {about['le']}"


def _ladder_words(ladder: tuple[Rung, ...]) -> str:
    return ", ".join(f"`{rung.action}` from {rung.attempts}" for rung in ladder)


def _row(name: str, values: Iterable[str], bounds: str, doc: str) -> str:
    return f"| `{name}` | {' | '.join(values)} | {bounds} | {doc} |"


def _recovery_rows() -> list[tuple[str, Any, str, str]]:
    """Return name, default, bounds and meaning of everything in the section `recovery`."""
    counts = {**numbers(Recovery()), **numbers(Counting())}
    rows = [(name, value, _bounds(about), about["doc"]) for name, (value, about) in counts.items()]
    (unblock,) = [item for item in fields(Recovery) if item.name == UNBLOCK]
    return [*rows, (UNBLOCK, Recovery().unblock, "true or false", unblock.metadata["doc"])]


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


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _list(items: dict[str, Any], most: int, least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def _names(values: dict[str, Any], most: int) -> dict[str, Any]:
    """Describe a table whose keys are names of somebody's own."""
    names = {"minLength": 1, "maxLength": TEXT_CHARS_MAX}
    about = {"propertyNames": names, "additionalProperties": values, "maxProperties": most}
    return {"type": "object", **about}


def _ref(name: str, doc: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}", "description": doc}


def _text_schema(most: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most}


def _number_schema(value: int, about: Mapping[str, Any]) -> dict[str, Any]:
    bounds = {"minimum": about["ge"], "maximum": about["le"]}
    return {"type": "integer", **bounds, "default": value, "description": about["doc"]}


def _recovery_schema() -> dict[str, Any]:
    known = {**numbers(Recovery()), **numbers(Counting())}
    properties = {name: _number_schema(*one) for name, one in known.items()}
    ((_, default, _, doc),) = [row for row in _recovery_rows() if row[0] == UNBLOCK]
    properties[UNBLOCK] = {"type": "boolean", "default": default, "description": doc}
    return _object(properties)


def _override_schema() -> dict[str, Any]:
    selectors = {name: _ref("text", doc) for name, doc in _SELECTOR_DOCS.items()}
    rules = {**_ref("rules", _SECTION_DOCS["rules"]), "minProperties": 1}
    described = _object({**selectors, "rules": rules})
    asked = [{"required": [name]} for name in SELECTORS]
    return {**described, "required": ["rules"], "anyOf": asked}


def _phase_schema() -> dict[str, Any]:
    metric = {"enum": list(METRICS), "description": _CONVERGES_DOC}
    return {**_object({CONVERGES_ON: metric}), "required": [CONVERGES_ON]}


def _meaning_schema() -> dict[str, Any]:
    known = numbers(Meaning(LETTERS))
    properties: dict[str, Any] = {
        MEASURE: {"enum": list(MEASURES), "description": _MEANING_DOCS[MEASURE]},
        **{name: _number_schema(*one) for name, one in known.items()},
    }
    return {**_object(properties), "required": [MEASURE]}


def _tool_schema() -> dict[str, Any]:
    properties: dict[str, Any] = {
        name: {**_list(_ref("text", "A key."), TOOL_KEYS_MAX), "description": doc}
        for name, doc in _TOOL_DOCS.items()
    }
    doc = _TOOL_DOCS["polling"]
    properties["polling"] = {"type": "boolean", "default": False, "description": doc}
    return _object(properties)


def _mask_schema() -> dict[str, Any]:
    lengths = {"pattern": PATTERN_CHARS_MAX, "name": TEXT_CHARS_MAX}
    texts = {
        name: {**_text_schema(most), "description": _MASK_DOCS[name]}
        for name, most in lengths.items()
    }
    return {**_object(texts), "required": list(texts)}


def _webhook_schema() -> dict[str, Any]:
    named: dict[str, Any] = {"actions": list(ACTIONS), "rules": [r.name for r in known_rules()]}
    filters = {
        name: _list({"enum": named[name]} if name in named else _text_schema(TEXT_CHARS_MAX), most)
        for name, most in dict.fromkeys(FILTERS, FILTER_MAX).items()
    }
    properties = {
        "name": _text_schema(TEXT_CHARS_MAX),
        "url": _text_schema(URL_CHARS_MAX),
        "format": {"enum": list(FORMATS), "default": FORMATS[0]},
        "secrets": _list(_text_schema(URL_CHARS_MAX), SECRETS_MAX),
        "gate_url": _text_schema(URL_CHARS_MAX),
        "allow_private": _list(_text_schema(TEXT_CHARS_MAX), PRIVATE_MAX),
        **filters,
    }
    described = {
        name: {**about, "description": _WEBHOOK_DOCS[name]} for name, about in properties.items()
    }
    return {**_object(described), "required": ["name", "url"]}


def _rule_schema(rule: Rule) -> dict[str, Any]:
    """Describe a rule's table; defaults are those of the default profile."""
    properties: dict[str, Any] = {
        ENABLED: {"type": "boolean", "default": rule.on_by_default, "description": _ENABLED_DOC}
    }
    for name, (value, about) in rule.settings().items():
        properties[name] = _number_schema(value, about)
    rungs = [{"attempts": rung.attempts, "action": rung.action} for rung in rule.ladder]
    properties[LADDER] = {**_ref(LADDER, _LADDER_DOC), "default": rungs}
    return {"description": summary(type(rule)), **_object(properties)}
