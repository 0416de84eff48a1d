"""Settings written as TOML: those in force, and a file to start from."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from looptrace.analyzer.detect import rule_plugins
from looptrace.analyzer.engine.outages import OutageSettings
from looptrace.analyzer.fingerprint.equivalence import Tool
from looptrace.analyzer.fingerprint.similarity import Meaning
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.settings.section_docs import (
    _DIRECTIVES_DOC,
    _ENABLED_DOC,
    _EXAMPLES,
    _LADDER_DOC,
    _LIMITS,
    _LISTED_DOCS,
    _MASTER_DOC,
    _MODEL_DOC,
    _SECTION_DOCS,
    _bounds,
    _recovery_rows,
)
from looptrace.analyzer.settings.sections import (
    CONVERGES_ON,
    DEFAULT_PROFILE,
    DIRECTIVES,
    ENABLED,
    LADDER,
    MEANING,
    MODEL,
    PROFILES,
    Settings,
)
from looptrace.analyzer.settings.toml_reader import LINE_DOTS_MAX
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.rules.contract import ACTIONS, Rule, Rung, numbers
from looptrace.rules.docs import summary

_STARTER_HEAD = f"""# Settings of looptrace. `looptrace config check` says whether they can be used.
# To change a setting, remove the # before it. What is left out is as the profile has it.
# The actions of ladders, the mildest first: {", ".join(ACTIONS)}.

# {_MASTER_DOC}
#{ENABLED} = true

# {DIRECTIVES} = "FOLDER": {_DIRECTIVES_DOC}

# {MODEL} = "FILE": {_MODEL_DOC}
"""


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_of(settings: Settings) -> str:
    """Write settings as a file that says every one of them."""
    rule_set, sameness = settings.policy.rule_set, settings.policy.sameness
    forms: dict[str, Rule | None] = {rule.name: None for rule in rule_plugins.known_rules()}
    forms |= {rule.name: rule for rule in rule_set.rules}
    judges = bool(rule_set.rules or rule_set.overrides)
    lines = [f"{ENABLED} = {_toml(judges)}", f"profile = {_toml(settings.profile)}"]
    if settings.directives_dir:
        lines.append(f"{DIRECTIVES} = {_toml(settings.directives_dir)}")
    if settings.model_file:
        lines.append(f"{MODEL} = {_toml(settings.model_file)}")
    values = _recovery_values(settings.policy.recovery)
    values |= {name: value for name, (value, _) in numbers(rule_set.counting).items()}
    lines += _section("[recovery]", values)
    lines += _section("[outages]", asdict(settings.outages))
    if judges:
        lines += _rules_toml("rules", forms)
    for override in rule_set.overrides:
        lines += _section("[[overrides]]", override.selectors)
        lines += _rules_toml("overrides.rules", override.rules)
    for phase, metric in rule_set.counting.converging.items():
        lines += _section(f"[phases.{_key(phase)}]", {CONVERGES_ON: metric})
    if rule_set.meaning:
        values = {item.name: getattr(rule_set.meaning, item.name) for item in fields(Meaning)}
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
    for rule in rule_plugins.known_rules():
        lines += ["", f"# {summary(type(rule))}", f"[rules.{rule.name}]"]
        lines += [f"# {_ENABLED_DOC}", f"#{ENABLED} = {_toml(rule.on_by_default)}"]
        for name, (value, about) in numbers(rule).items():
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
