"""Changes of thresholds in a settings file, which keeps its comments, its order, and the rest."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT

from looptrace.analyzer.detect.ruleset import SELECTORS, Override, RuleSet
from looptrace.analyzer.settings.file_tables import ENABLED, MODEL
from looptrace.analyzer.settings.outcomes.sources import OutcomeSources
from looptrace.analyzer.settings.profiles import rules_of_profile
from looptrace.analyzer.settings.sections import Settings, parsed
from looptrace.analyzer.settings.toml_reader import SettingsError
from looptrace.analyzer.settings.toml_writer import item, values_of, values_of_rule
from looptrace.errors import LooptraceError
from looptrace.rules.contract import Rule


def with_thresholds(text: str, name: str, wanted: Settings) -> str | None:
    """Return the text of a settings file, changed to have the rules of other settings.

    Overrides for kinds of task come before all others. The result is None if the change would move
    or lose other content of the file.
    """
    try:
        document = tomlkit.parse(text)
        _change(document, wanted)
        changed = tomlkit.dumps(document)
        rule_set = parsed(changed.encode(), name).policy.rule_set
    except (TOMLKitError, SettingsError, _CannotBeKeptError):
        return None
    return changed if _in_effect(rule_set) == _in_effect(wanted.policy.rule_set) else None


def with_override(text: str, name: str, override: Override, said: str) -> str:
    """Return the text of a settings file with one more override, below a comment; the last wins.

    Without a selector the rules are those of all turns.
    """
    settings = parsed(text.encode(), name)
    document = tomlkit.parse(text)
    bases = {rule.name: rule for rule in rules_of_profile(settings.profile)}
    on = {rule.name: rule for rule in settings.policy.rule_set.rules}
    bases |= on
    if override.selectors:
        added: Any = item({**override.selectors, "rules": {}})
        _say(added, override.rules, bases)
        if "overrides" not in document:
            document.add(tomlkit.nl())
        tables = document.setdefault("overrides", tomlkit.aot())
        _take_out(tables, override)
        tables.append(added)
    else:
        _say(document, override.rules, bases)
        added = document["rules"][next(iter(override.rules))]
    for off in override.rules.keys() - on:
        (added["rules"][off] if override.selectors else added)[ENABLED] = True
    added.comment(said)
    changed = tomlkit.dumps(document)
    parsed(changed.encode(), name)
    return changed


def _take_out(tables: Any, override: Override) -> None:
    """Remove the rules of an override from earlier ones for the same turns."""
    for table in [*tables]:
        if {name: table[name] for name in SELECTORS if name in table} == override.selectors:
            for name in override.rules:
                table["rules"].pop(name, None)
            if not table["rules"]:
                tables.remove(table)


def with_model(text: str, model_file: str) -> str:
    """Return the text of a settings file that names a file of a model."""
    document = tomlkit.parse(text)
    document[MODEL] = model_file
    return tomlkit.dumps(document)


def with_outcomes(text: str, outcomes: OutcomeSources) -> str:
    """Return the text of a settings file that names what says of runs how they ended."""
    document = tomlkit.parse(text)
    document["outcomes"] = item(values_of(outcomes))
    return tomlkit.dumps(document)


class _CannotBeKeptError(LooptraceError):
    """A change would lose a comment, or the order of the file."""


def _change(document: tomlkit.TOMLDocument, wanted: Settings) -> None:
    """Write the rules of other settings, in force and of overrides, into a file."""
    rule_set = wanted.policy.rule_set
    bases = {rule.name: rule for rule in rules_of_profile(wanted.profile)}
    _say(document, {rule.name: rule for rule in rule_set.rules}, bases)
    bases |= {rule.name: rule for rule in rule_set.rules}
    kinds: dict[str, dict[str, Rule | None]] = {}
    others = []
    for override in rule_set.overrides:
        if _is_for_kind(override.selectors):
            kinds.setdefault(override.selectors["task_kind"], {}).update(override.rules)
        else:
            others.append(override)
    tables = document.get("overrides", tomlkit.aot())
    if not isinstance(tables, AoT):
        raise _CannotBeKeptError
    for table in list(tables):
        if not _is_for_kind(table):
            _say(table, others.pop(0).rules, bases)
        else:
            rules = kinds.pop(str(table["task_kind"]), {})
            _drop(tables, table, rules)
            _say(table, rules, bases)
    for kind, rules in reversed(kinds.items()):
        added: Any = item({"task_kind": kind, "rules": {}})
        _say(added, rules, bases)
        added.add(tomlkit.nl())
        tables.insert(0, added)
    if tables and "overrides" not in document:
        document.add("overrides", tables)
    if not tables and "overrides" in document:
        del document["overrides"]


def _is_for_kind(table: Mapping[str, Any]) -> bool:
    """Return whether an override is for a kind of task alone."""
    return [name for name in SELECTORS if name in table] == ["task_kind"]


def _say(owner: Any, rules: Mapping[str, Rule | None], bases: Mapping[str, Rule]) -> None:
    """Write the differences from the base into the tables of rules that do not have them yet."""
    for name, rule in rules.items():
        if rule is None:
            continue
        base = values_of_rule(bases[name])
        table = owner.get("rules", {}).get(name, {})
        for key, value in values_of_rule(rule).items():
            plain = tomlkit.item(item(value)).unwrap()
            if (table[key].unwrap() != plain) if key in table else (base[key] != value):
                rule_tables = owner.setdefault("rules", tomlkit.table(is_super_table=True))
                rule_tables.setdefault(name, tomlkit.table())[key] = item(value)


def _drop(tables: AoT, table: Any, rules: Mapping[str, Rule | None]) -> None:
    """Remove from an override the rules that it does not change, and an empty override."""
    for name in [name for name in table["rules"] if name not in rules]:
        if "#" in table["rules"][name].as_string():
            raise _CannotBeKeptError
        del table["rules"][name]
    if not rules:
        if "#" in table.as_string():
            raise _CannotBeKeptError
        tables.remove(table)


def _in_effect(rule_set: RuleSet) -> tuple[object, ...]:
    """Return the effect of rules, however their overrides are grouped in tables."""
    by_rule: dict[str, list[Any]] = {}
    for override in rule_set.overrides:
        for name, rule in override.rules.items():
            by_rule.setdefault(name, []).append((override.selectors, rule))
    for name, forms in by_rule.items():
        runs = groupby(forms, key=lambda form: _is_for_kind(form[0]))
        by_rule[name] = [
            form
            for for_kinds, run in runs  # No turn has two kinds, so their order has no meaning.
            for form in (sorted(run, key=lambda each: each[0]["task_kind"]) if for_kinds else run)
        ]
    return rule_set.rules, by_rule, rule_set.counting, rule_set.meaning
