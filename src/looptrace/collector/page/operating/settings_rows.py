"""Settings as rows: what is in force, what its profile has, and what it means."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from looptrace.analyzer.detect.rule_plugins import every_rule
from looptrace.analyzer.settings.file_tables import file_table
from looptrace.analyzer.settings.sections import Settings, of_profile
from looptrace.analyzer.settings.tables import Setting, settings_in
from looptrace.analyzer.settings.toml_writer import item, toml_of


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting by its path in the file; a value is None where the file would not have it."""

    name: str  # as `rules.cycle.enabled`
    value: str | None
    default: str | None  # of the profile, or of a section that the file adds
    doc: str

    @property
    def differs(self) -> bool:
        """Whether the value is not that of the profile."""
        return self.value != self.default

    def fits(self, words: list[str]) -> bool:
        """Return whether all words occur in its name, its values or its meaning."""
        text = f"{self.name} {self.value} {self.default} {self.doc}".lower()
        return all(word in text for word in words)


def rows_of(settings: Settings) -> list[SettingRow]:
    """Return all settings in the order of the file, each with its value in the profile."""
    own = dict(_flat("", tomllib.loads(toml_of(settings))))
    usual = dict(_flat("", tomllib.loads(toml_of(of_profile(settings.profile)))))
    known = dict(_known("", settings_in(file_table(every_rule()))))
    rows = []
    for name in [*own, *(name for name in usual if name not in own)]:
        setting = _setting(name, known)
        default = usual.get(name, _default(setting) if name in own else None)
        rows.append(SettingRow(name, own.get(name), default, setting.doc if setting else ""))
    return rows


def _setting(name: str, known: Mapping[str, Setting]) -> Setting | None:
    """Return a setting, or its section where its name is the user's own."""
    parts = _plain(name).split(".")
    named = [".".join(parts), ".".join([parts[0], *parts[2:]]), parts[0]]
    return next((known[each] for each in named if each in known), None)


def _default(setting: Setting | None) -> str | None:
    """Return the default of a setting as a file has it; None where there is none."""
    default = setting.default if setting else None
    return _written(default) if isinstance(default, str | int | float) else None


def _flat(above: str, value: Any) -> Iterator[tuple[str, str]]:
    """Return each value below a table with its path, written as in a file."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _flat(f"{above}.{name}" if above else name, each)
    elif isinstance(value, list) and value and isinstance(value[0], Mapping) and _is_listed(value):
        for number, each in enumerate(value, start=1):
            yield from _flat(f"{above}[{number}]", each)
    elif isinstance(value, list):
        yield above, ", ".join(_written(each) for each in value)
    else:
        yield above, item(value).as_string()


def _is_listed(value: list[Any]) -> bool:
    """Return whether a list has sections of the file, and not the rungs of a ladder."""
    return "attempts" not in value[0]


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(str(each) for each in value.values())
    return str(item(value).as_string())


def _plain(name: str) -> str:
    """Return a path without the numbers of sections that may be repeated."""
    return "".join(part.partition("]")[2] if n else part for n, part in enumerate(name.split("[")))


def _known(above: str, settings: list[Setting]) -> Iterator[tuple[str, Setting]]:
    for setting in settings:
        if "description" not in setting.about:
            continue  # A rung of a ladder is explained by its ladder.
        path = f"{above}.{setting.name}" if above else setting.name
        yield path, setting
        yield from _known(path, setting.inner)
