"""Settings: which rules judge, with which thresholds, out of `looptrace.toml`.

A file starts from a profile and says what differs. What it holds is checked key by key, and an
error names the file, the line, what is wrong, and what may stand there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from looptrace.analyzer.labels import did_you_mean, plain
from looptrace.analyzer.ruleset import RuleSet
from looptrace.rules.contract import ACTIONS, RUNG_ATTEMPTS_MAX, Rule, Rung, SettingError
from looptrace.rules.registry import default_rules

FILE_NAME = "looptrace.toml"
THRESHOLD_VARIABLE = "LOOPTRACE_LOOP_THRESHOLD"
ENABLED = "enabled"
ENABLED_DOC = "Whether the rule judges at all."
LADDER = "ladder"
LADDER_DOC = "Which action from how many attempts on; attempts rise, and no action gets weaker."

# A file that says all there is to say has a fiftieth of it.
FILE_BYTES_MAX = 256 * 1024

# The time that the parser takes for a dotted key grows with the square of its parts.
LINE_DOTS_MAX = 50

_NUMBER_BITS_MAX = 63  # A TOML integer has no more.
_SHOWN_LENGTH_MAX = 60
_WHY_LENGTH_MAX = 200

_THRESHOLD = "attempts_min"

# The settings that a profile scales, and with them the ladder of their rule.
_SCALED = (_THRESHOLD, "rounds_min")

# One attempt repeats nothing, so that no profile makes a loop of it.
_SCALED_LEAST = 2

_KEY = r"""(?:[\w-]+|"[^"\\]*"|'[^']*')"""
_KEYS = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_HEADER_OR_KEY = re.compile(
    rf"[ \t]*(?:\[\[?[ \t]*(?P<header>{_KEYS})[ \t]*\]|(?P<keys>{_KEYS})[ \t]*=)"
)
_SYNTAX_PLACE = re.compile(
    r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)"
)

Keys = tuple[str, ...]
Table = dict[str, Any]


class SettingsError(ValueError):
    """Settings that cannot be used; the message is one line, with the file and the line in it."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How soon a loop is found: counts of the rules' defaults are multiplied by `scale`."""

    scale: Fraction
    doc: str


DEFAULT_PROFILE = "balanced"
PROFILES = {
    "conservative": Profile(Fraction(8, 5), "Acts late: from 5 attempts on, and again at 8."),
    DEFAULT_PROFILE: Profile(Fraction(1), "The default: from 3 attempts on, and again at 5."),
    "aggressive": Profile(Fraction(3, 5), "Acts early: from 2 attempts on, and again at 3."),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The rules that judge, and the profile that they were made from."""

    profile: str
    judging: RuleSet


def default() -> Settings:
    """Return the settings that hold where there is no file."""
    return Settings(DEFAULT_PROFILE, RuleSet())


def rules_of_profile(profile: str) -> tuple[Rule, ...]:
    """Return every rule as a profile has it."""
    return tuple(_scaled(rule, PROFILES[profile].scale) for rule in default_rules())


def load(path: Path) -> Settings:
    """Read a settings file.

    Raises:
        SettingsError: if it cannot be read, is no TOML, or says what cannot be.
    """
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}.") from error
    return parsed(data, str(path))


def parsed(data: bytes, name: str) -> Settings:
    """Read the content of a settings file; `name` is what errors call it.

    Raises:
        SettingsError: if it is no TOML, or says what cannot be.
    """
    file = _File(name, _text(data, name))
    top = _toml(file)
    _check_keys(file, (), top, ("profile", "rules"))
    profile = top.get("profile", DEFAULT_PROFILE)
    if not isinstance(profile, str) or profile not in PROFILES:
        raise file.error(
            ("profile",),
            f"there is no profile {_shown(profile)}. {did_you_mean(profile, PROFILES)}",
        )
    tables = _table(file, ("rules",), top.get("rules", {}))
    rules = rules_of_profile(profile)
    _check_keys(file, ("rules",), tables, [rule.name for rule in rules])
    changed = [_rule(file, rule, tables.get(rule.name, {})) for rule in rules]
    return Settings(profile, RuleSet(tuple(rule for rule in changed if rule is not None)))


def overridden(settings: Settings, environment: Mapping[str, str]) -> Settings:
    """Apply the variables of the environment, which win over the file; an empty one is none.

    Raises:
        SettingsError: if a value cannot be; it names the variable.
    """
    value = environment.get(THRESHOLD_VARIABLE, "")
    if not value:
        return settings
    try:
        threshold = int(value)
        rules = [
            replace(rule, **{_THRESHOLD: threshold}) if _THRESHOLD in rule.settings() else rule
            for rule in settings.judging.rules
        ]
    except SettingError as error:
        raise SettingsError(f"{THRESHOLD_VARIABLE}: {error}") from error
    except ValueError as error:
        raise SettingsError(
            f"{THRESHOLD_VARIABLE} is {_shown(value)}; it must be a whole number."
        ) from error
    return replace(settings, judging=replace(settings.judging, rules=tuple(rules)))


@dataclass(frozen=True, slots=True)
class _File:
    """A settings file as its errors need it."""

    name: str
    text: str

    def error(self, keys: Keys, why: str) -> SettingsError:
        """Return the error of what these keys lead to."""
        return SettingsError(f"{self.name}:{_line_of(self.text, keys)}: {why}")


def _scaled(rule: Rule, scale: Fraction) -> Rule:
    """Multiply what a rule counts; of two rungs that fall together the stronger one stays."""
    counts = {name: count for name, count in rule.settings().items() if name in _SCALED}
    if not counts:
        return rule
    changed: Table = {
        name: min(max(_times(count, scale), about["ge"]), about["le"])
        for name, (count, about) in counts.items()
    }
    rungs = {_times(rung.attempts, scale): rung.action for rung in rule.ladder}
    changed[LADDER] = tuple(Rung(*rung) for rung in rungs.items())
    return replace(rule, **changed)


def _times(count: int, scale: Fraction) -> int:
    return max(round(count * scale), min(count, _SCALED_LEAST))


def _text(data: bytes, name: str) -> str:
    """Decode a file, and refuse what the parser would be slow at."""
    if len(data) > FILE_BYTES_MAX:
        raise SettingsError(f"{name}:1: the file has more than {FILE_BYTES_MAX} bytes.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{name}:{line}: the text is not UTF-8.") from error
    for number, line_text in enumerate(text.split("\n"), 1):
        if line_text.count(".") > LINE_DOTS_MAX:
            raise SettingsError(f"{name}:{number}: the line has more than {LINE_DOTS_MAX} dots.")
    return text


def _toml(file: _File) -> Table:
    try:
        return tomllib.loads(file.text)
    except RecursionError as error:
        raise SettingsError(f"{file.name}:1: the values are nested too deeply.") from error
    except ValueError as error:  # It also says that a number has too many digits.
        place = _SYNTAX_PLACE.search(str(error))
        line = place["line"] if place else 1
        column = f", column {place['column']}" if place and place["column"] else ""
        why = plain(_SYNTAX_PLACE.sub("", str(error)), _WHY_LENGTH_MAX)
        line = line or file.text.count("\n") + 1  # The parser names no line at the end.
        raise SettingsError(f"{file.name}:{line}: is not TOML: {why}{column}.") from error


def _rule(file: _File, rule: Rule, value: object) -> Rule | None:
    """Apply a rule's table; None where the table switches the rule off."""
    keys = ("rules", rule.name)
    table = _table(file, keys, value)
    _check_keys(file, keys, table, (ENABLED, *rule.settings(), LADDER))
    enabled = table.get(ENABLED, True)
    if not isinstance(enabled, bool):
        raise file.error(
            (*keys, ENABLED),
            f"{rule.name}.{ENABLED} is {_shown(enabled)}; it must be true or false.",
        )
    for name in (name for name in table if name != ENABLED):
        at = (*keys, name)
        try:
            rule = replace(rule, **{name: _value(file, at, table[name], rule)})
        except SettingError as error:
            raise file.error(at, str(error)) from error
    return rule if enabled else None


def _value(file: _File, keys: Keys, value: object, rule: Rule) -> int | tuple[Rung, ...]:
    if keys[-1] == LADDER:
        return _ladder(file, keys, value)
    about = rule.settings()[keys[-1]][1]
    return _number(file, keys, value, about["ge"], about["le"])


def _number(file: _File, keys: Keys, value: object, least: int, greatest: int) -> int:
    if type(value) is int and value.bit_length() <= _NUMBER_BITS_MAX:
        return value
    raise file.error(
        keys,
        f"{'.'.join(keys[1:])} is {_shown(value)}; "
        f"it must be a whole number between {least} and {greatest}.",
    )


def _ladder(file: _File, keys: Keys, value: object) -> tuple[Rung, ...]:
    if isinstance(value, list) and all(isinstance(rung, dict) for rung in value):
        return tuple(_rung(file, keys, rung) for rung in value)
    raise file.error(
        keys,
        f"{'.'.join(keys[1:])} must be a list of rungs, "
        'such as [{ attempts = 3, action = "warn" }].',
    )


def _rung(file: _File, keys: Keys, table: Table) -> Rung:
    names = [field.name for field in fields(Rung)]
    _check_keys(file, keys, table, names)
    for name in names:
        if name not in table:
            raise file.error(keys, f"{'.'.join(keys)} has a rung without {name}.")
    action = table["action"]
    if action not in ACTIONS:
        raise file.error(
            keys, f"there is no action {_shown(action)}. {did_you_mean(action, ACTIONS)}"
        )
    attempts = _number(file, (*keys, "attempts"), table["attempts"], 1, RUNG_ATTEMPTS_MAX)
    return Rung(attempts, action)


def _table(file: _File, keys: Keys, value: object) -> Table:
    if not isinstance(value, dict):
        raise file.error(keys, f"{'.'.join(keys)} is {_shown(value)}; it must be a table.")
    return value


def _check_keys(file: _File, keys: Keys, table: Table, names: Iterable[str]) -> None:
    for key in table:
        if key not in names:
            where = f" in {'.'.join(keys)}" if keys else ""
            raise file.error(
                (*keys, key), f"there is no {_shown(key)}{where}. {did_you_mean(key, names)}"
            )


def _shown(value: object) -> str:
    """Name a value of a file in one line, as it is written there."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(plain(value, _SHOWN_LENGTH_MAX))
    if isinstance(value, int) and value.bit_length() > _NUMBER_BITS_MAX:
        return "a number of more than 64 bits"
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    return str(value)


def _line_of(text: str, keys: Keys) -> int:
    """Find the line that leads to a key, or, where it is hidden in a value, the nearest to it.

    Lines within texts of several lines are taken for keys; no setting has such a text.
    """
    header: Keys = ()
    line, shared = 1, 0
    for number, line_text in enumerate(text.split("\n"), 1):
        if (match := _HEADER_OR_KEY.match(line_text)) is None:
            continue
        found = _split(match["header"] or match["keys"])
        if match["header"]:
            header, here = found, found
        else:
            here = header + found
        alike = _shared(here, keys)
        if alike > shared:
            line, shared = number, alike
    return line


def _split(keys: str) -> Keys:
    return tuple(key.strip("\"'") for key in re.findall(_KEY, keys))


def _shared(first: Keys, second: Keys) -> int:
    """Count the keys with which both begin."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
