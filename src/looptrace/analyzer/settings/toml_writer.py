"""Writer of settings as TOML: the settings in force, and a file to start from."""

from collections.abc import Mapping
from typing import Any

import tomlkit
from tomlkit.items import Item, KeyType, SingleKey

from looptrace.analyzer.detect.rule_plugins import every_rule
from looptrace.analyzer.fields.dialect_table import Dialect, rows_of_names
from looptrace.analyzer.settings.file_tables import (
    BETTER,
    CONVERGES_ON,
    DIRECTIVES,
    ENABLED,
    EXAMPLES,
    JUDGE,
    MEANING,
    MODEL,
    PRICES,
    file_table,
)
from looptrace.analyzer.settings.prices import table_of
from looptrace.analyzer.settings.profiles import DEFAULT_PROFILE, LADDER, PROFILES
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.settings.tables import Setting, names_of, settings_in
from looptrace.analyzer.settings.toml_reader import LINE_DOTS_MAX
from looptrace.rules.contract import ACTIONS, Rule, Rung


def toml_of(settings: Settings) -> str:
    """Return a file with every setting."""
    rule_set, sameness = settings.policy.rule_set, settings.policy.sameness
    rules: dict[str, Rule | None] = {rule.name: None for rule in every_rule()}
    rules |= {rule.name: rule for rule in rule_set.rules}
    evaluates = bool(rule_set.rules or rule_set.overrides)
    counting = values_of(rule_set.counting)
    sections = {
        ENABLED: evaluates,
        "profile": settings.profile,
        DIRECTIVES: settings.directives_dir,
        MODEL: settings.model_file,
        PRICES: settings.prices_file or (table_of(settings.prices) if settings.prices else ""),
        "recovery": values_of(settings.policy.recovery) | counting,
        "persons": values_of(rule_set.counting.persons),
        "outages": values_of(settings.outages),
        "budgets": values_of(settings.policy.budgets),
        "rules": _rules(rules) if evaluates else {},
        "overrides": [
            {**override.selectors, "rules": _rules(override.rules)}
            for override in rule_set.overrides
        ],
        "phases": {
            phase: {CONVERGES_ON: metric} | ({BETTER: better} if better else {})
            for phase, (metric, better) in rule_set.counting.converging.items()
        },
        MEANING: values_of(rule_set.meaning) if rule_set.meaning else {},
        JUDGE: values_of(settings.judge) if settings.judge else {},
        "tools": {name: values_of(tool) for name, tool in sameness.tools.items()},
        "results": values_of(sameness.results),
        "sessions": values_of(sameness.sessions),
        "masks": [values_of(mask) for mask in sameness.masks],
        "webhooks": [values_of(webhook) for webhook in settings.webhooks],
        "waiting": [values_of(waiting) for waiting in settings.waiting],
        "retention": [values_of(each) for each in settings.retention],
        "attributes": _attributes(settings.policy.dialects.own),
        "outcomes": values_of(settings.outcomes),
        "page": values_of(settings.page),
        "shards": values_of(settings.shards),
        "server": values_of(settings.server),
    }
    document = tomlkit.document()
    for name, value in sections.items():
        if value not in ("", [], {}):
            document.add(name, item(value))
    return tomlkit.dumps(document)


def _attributes(own: Dialect | None) -> dict[str, Any]:
    """Return a user's own keys and kinds; those that follow from the keys are left out."""
    if own is None:
        return {}
    rows = [row.given for row in own.kinds if row not in rows_of_names(own.fields)]
    return dict(own.fields) | ({"kinds": rows} if rows else {})


def values_of(owner: Any) -> dict[str, Any]:
    """Return the settings of a dataclass that a file can express; empty ones are left out."""
    values = {name: getattr(owner, name) for name in names_of(owner.__class__)}
    return {name: value for name, value in values.items() if value not in (None, "", ())}


def values_of_rule(rule: Rule) -> dict[str, Any]:
    """Return the numbers of a rule, and its ladder."""
    return {**{name: value for name, (value, _) in rule.settings().items()}, LADDER: rule.ladder}


def _rules(rules: Mapping[str, Rule | None]) -> dict[str, Any]:
    return {
        name: {ENABLED: rule is not None, **(values_of_rule(rule) if rule else {})}
        for name, rule in rules.items()
    }


def item(value: Any) -> Item:
    """Return a value as TOML; each text of a list has its own line."""
    if isinstance(value, Rung):
        rung = tomlkit.inline_table()
        rung.append("attempts", value.attempts)
        rung.append("action", value.action)
        if value.lost_percent:
            rung.append("lost_percent", value.lost_percent)
        if value.spared_percent:
            rung.append("spared_percent", value.spared_percent)
        return rung
    if isinstance(value, tuple):
        array = tomlkit.array().multiline(multiline=isinstance(value[0], str))
        array.extend(map(item, value))
        return array
    if isinstance(value, list):
        tables = tomlkit.aot()
        for each in value:
            tables.append(item(each))
        return tables
    if isinstance(value, dict):
        table = tomlkit.table(is_super_table=all(isinstance(each, dict) for each in value.values()))
        for name, each in value.items():
            table.add(_key(name), item(each))
        return table
    if isinstance(value, str) and value.count(".") >= LINE_DOTS_MAX:
        escaped: Item = tomlkit.value(_without_dots(value))
        return escaped
    plain: Item = tomlkit.item(value)
    return plain


def _key(name: str) -> SingleKey:
    if name.count(".") < LINE_DOTS_MAX:
        return SingleKey(name)
    return SingleKey(name, KeyType.Basic, original=_without_dots(name))


def _without_dots(text: str) -> str:
    """Return a quoted text with its dots escaped, since the reader counts those of a line."""
    return tomlkit.item(text).as_string().replace(".", "\\u002e")


def starter() -> str:
    """Return a file that changes nothing, with every setting explained and commented out.

    Examples are set off, so that they do not look like settings in force.
    """
    file = {setting.name: setting for setting in settings_in(file_table(every_rule()))}
    lines = [
        "# Settings of looptrace. `looptrace config check` checks them.",
        "# To change a setting, remove the # before it. The profile sets all others.",
        f"# The actions of ladders, from the mildest to the strongest: {', '.join(ACTIONS)}.",
        *("", f"# {file[ENABLED].doc}", f"#{ENABLED} = true"),
        *("", f'# {DIRECTIVES} = "FOLDER": {file[DIRECTIVES].doc}'),
        *("", f'# {MODEL} = "FILE": {file[MODEL].doc}'),
        *("", f'# {PRICES} = "FILE": {file[PRICES].doc}'),
        *("", *(f"# {name}: {profile.doc}" for name, profile in PROFILES.items())),
        f'profile = "{DEFAULT_PROFILE}"',
    ]
    for section in ("recovery", "persons", "outages", "budgets", "server"):
        lines += _starter_section(section, file[section])
    for rule in file["rules"].inner:
        lines += _starter_section(f"rules.{rule.name}", rule)
    for section, example in EXAMPLES.items():
        lines += ["", f"# {file[section].doc}"]
        lines += [f"# {setting.name}: {setting.doc}" for setting in file[section].inner]
        lines += [f"#    {line}".rstrip() for line in example.splitlines()]
    return "\n".join([*lines, ""])


def _starter_section(header: str, section: Setting) -> list[str]:
    lines = ["", f"# {section.doc}", f"[{header}]"]
    for setting in section.inner:
        lines.append(f"# {setting.doc} {setting.bounds.capitalize()}.")
        lines.append(f"#{setting.name} = {item(setting.default).as_string()}")
    return lines
