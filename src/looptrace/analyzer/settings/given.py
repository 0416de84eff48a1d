"""Settings as they are given: an object, a file, a profile or tables, and a selection of rules."""

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from looptrace.analyzer.detect.rule_plugins import known_rules
from looptrace.analyzer.settings.profiles import PROFILES
from looptrace.analyzer.settings.rule_forms import effective_overrides
from looptrace.analyzer.settings.sections import (
    FILE_NAME,
    Settings,
    default,
    load,
    of_profile,
    parsed,
    with_rules,
)
from looptrace.analyzer.settings.toml_reader import SettingsError
from looptrace.analyzer.text.near_names import did_you_mean
from looptrace.errors import InputError

# A text is the name of a profile or the path of a file; a mapping has the tables of a file.
SettingsLike: TypeAlias = Settings | str | os.PathLike[str] | Mapping[str, object]


def settings_of(given: SettingsLike | None) -> Settings:
    """Return the settings that are given; None means the defaults."""
    if given is None:
        return default()
    if isinstance(given, Settings):
        return given
    if isinstance(given, Mapping):
        import tomlkit  # noqa: PLC0415 - Commands are given files.
        from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

        try:
            text = tomlkit.dumps(dict(given))
        except (TOMLKitError, TypeError, ValueError) as error:
            raise SettingsError(f"settings cannot be a {FILE_NAME}: {error}.") from error
        return parsed(text.encode(), "settings")
    name = os.fspath(given)
    if name in PROFILES:
        return of_profile(name)
    if not Path(name).exists():
        names = ", ".join(PROFILES)
        raise SettingsError(f"{name}: there is no such file, and no such profile ({names}).")
    return load(name)


def selected(settings: Settings, select: Collection[str], ignore: Collection[str]) -> Settings:
    """Return the settings with the rules that are selected and not ignored.

    Raises:
        InputError: if no rule has a given name, or none is left.
    """
    known = {rule.name: rule for rule in known_rules()}
    for name in (*select, *ignore):
        if name not in known:
            raise InputError(f"there is no rule {name!r}. {did_you_mean(name, known)}")
    if not select and not ignore:
        return settings
    rule_set = settings.policy.rule_set
    in_force = {rule.name: rule for rule in rule_set.rules}
    wanted = [name for name in select or in_force if name not in ignore]
    if not wanted:
        raise InputError("no rule is left of those that are selected or on; ignore fewer.")
    # Rules keep their order, by which findings of equal strength are ordered.
    rules = tuple((in_force.get(name) or known[name]) for name in known if name in wanted)
    overrides = [
        replace(
            override,
            rules={
                name: rule
                for name, rule in override.rules.items()
                if name not in ignore and (not select or name in select)
            },
        )
        for override in rule_set.overrides
    ]
    still = tuple(each for each in effective_overrides(rules, overrides) if each.rules)
    return with_rules(settings, replace(rule_set, rules=rules, overrides=still))
