"""A settings file as it is checked: each value with the keys and the line that lead to it."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from looptrace.analyzer.text.display import did_you_mean, plain
from looptrace.errors import InputError

# A file that says all there is to say has a fiftieth of it.
FILE_BYTES_MAX = 256 * 1024

# The time that the parser takes for a dotted key grows with the square of its parts.
LINE_DOTS_MAX = 50

# Names of phases, agents, tools and their arguments are words and not essays.
TEXT_CHARS_MAX = 200

_NUMBER_BITS_MAX = 63  # A TOML integer has no more.
_SHOWN_LENGTH_MAX = 60
_WHY_LENGTH_MAX = 200

_KEY = r"""(?:[\w-]+|"[^"\\]*"|'[^']*')"""
_KEYS = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_HEADER_OR_KEY = re.compile(
    rf"[ \t]*(?:\[(?P<array>\[?)[ \t]*(?P<header>{_KEYS})[ \t]*\]|(?P<keys>{_KEYS})[ \t]*=)"
)
_SYNTAX_PLACE = re.compile(
    r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)"
)

Keys = tuple[str | int, ...]  # A number counts the tables of a list from 0.


class SettingsError(InputError):
    """Settings that cannot be used; the message is one line, with the file and the line in it."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a settings file, the keys that lead to it, and the file as its errors need it.

    Raises:
        SettingsError: by every method that returns a value, if it is not of that kind.
    """

    file: str
    text: str
    keys: Keys
    value: Any

    @property
    def name(self) -> str:
        """The keys with dots between them."""
        names = [plain(key, _SHOWN_LENGTH_MAX) for key in self.keys if isinstance(key, str)]
        return ".".join(names)

    def error(self, why: str) -> SettingsError:
        """Return the error of this value."""
        return SettingsError(f"{self.file}:{_line_of(self.text, self.keys)}: {why}")

    def wrong(self, must: str) -> SettingsError:
        """Return the error of a value that must be something else."""
        return self.error(f"{self.name} is {shown(self.value)}; it must be {must}.")

    def at(self, key: str | int, value: Any = None) -> Node:
        """Return what a key of a table leads to, or this value where there is no such key."""
        if isinstance(key, int) or key in self.value:
            value = self.value[key]
        return Node(self.file, self.text, (*self.keys, key), value)

    def table(self, names: Iterable[str]) -> Node:
        """Return the value, which is a table with no other keys."""
        names = list(names)
        for key in self._dict():
            if key not in names:
                where = f" in {self.name}" if self.keys else ""
                why = f"there is no {shown(key)}{where}. {did_you_mean(key, names)}"
                raise self.at(key).error(why)
        return self

    def named(self, most: int) -> dict[str, Node]:
        """Return the values of a table whose keys are names of somebody's own."""
        self._at_most(most, self._dict())
        for key in self.value:
            if not 1 <= len(key) <= TEXT_CHARS_MAX:
                why = f"a name in {self.name} has {len(key)} characters; it must have"
                raise self.at(key).error(f"{why} 1 to {TEXT_CHARS_MAX}.")
        return {key: self.at(key) for key in self.value}

    def items(self, most: int) -> list[Node]:
        """Return the values of a list."""
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        self._at_most(most, self.value)
        return [self.at(index) for index in range(len(self.value))]

    def number(self, least: int, greatest: int) -> int:
        """Return a number of at most 64 bits; its bounds are only named."""
        if type(self.value) is not int or self.value.bit_length() > _NUMBER_BITS_MAX:
            raise self.wrong(f"a whole number between {least} and {greatest}")
        return self.value

    def switch(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def words(self, most: int = TEXT_CHARS_MAX) -> str:
        """Return a text that is not empty and not long."""
        if not isinstance(self.value, str) or not 1 <= len(self.value) <= most:
            raise self.wrong(f"a text of 1 to {most} characters")
        return self.value

    def choice(self, what: str, names: Iterable[str]) -> str:
        """Return a text that is one of the names."""
        names = list(names)
        if self.value not in names:
            meant = did_you_mean(self.value, names)
            raise self.error(f"there is no {what} {shown(self.value)}. {meant}")
        return str(self.value)

    def _dict(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.wrong("a table")
        return self.value

    def _at_most(self, most: int, values: Any) -> None:
        if len(values) > most:
            raise self.error(f"{self.name} has {len(values)} entries; it may have {most}.")


def content(path: Path) -> bytes:
    """Return the content of a file, of one that is too long a little more than may be.

    Raises:
        SettingsError: if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}.") from error


def read(data: bytes, name: str) -> Node:
    """Parse the content of a settings file; `name` is what errors call it.

    Raises:
        SettingsError: if it is no TOML.
    """
    text = _text(data, name)
    try:
        return Node(name, text, (), tomllib.loads(text))
    except RecursionError as error:
        raise SettingsError(f"{name}:1: the values are nested too deeply.") from error
    except ValueError as error:  # It also says that a number has too many digits.
        place = _SYNTAX_PLACE.search(str(error))
        line = place["line"] if place else 1
        column = f", column {place['column']}" if place and place["column"] else ""
        why = plain(_SYNTAX_PLACE.sub("", str(error)), _WHY_LENGTH_MAX)
        line = line or text.count("\n") + 1  # The parser names no line at the end.
        raise SettingsError(f"{name}:{line}: is not TOML: {why}{column}.") from error


def shown(value: object) -> str:
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


def _line_of(text: str, keys: Keys) -> int:
    """Find the line that leads to a key, or, where it is hidden in a value, the nearest to it.

    Lines within texts of several lines are taken for keys; no setting has such a text.
    """
    header: Keys = ()
    line, shared = 1, 0
    lists: defaultdict[Keys, int] = defaultdict(int)  # how often each [[header]] has come
    for number, line_text in enumerate(text.split("\n"), 1):
        if (match := _HEADER_OR_KEY.match(line_text)) is None:
            continue
        if match["array"]:
            lists[_split(match["header"])] += 1
        if match["header"]:
            header = here = _counted(_split(match["header"]), lists)
        else:
            here = header + _split(match["keys"])
        alike = _shared(here, keys)
        if alike > shared:
            line, shared = number, alike
    return line


def _split(keys: str) -> Keys:
    return tuple(key.strip("\"'") for key in re.findall(_KEY, keys))


def _counted(header: Keys, lists: defaultdict[Keys, int]) -> Keys:
    """Add to the first part of a header that is a list the number of its last table."""
    for end in range(1, len(header) + 1):
        if header[:end] in lists:
            return (*header[:end], lists[header[:end]] - 1, *header[end:])
    return header


def _shared(first: Keys, second: Keys) -> int:
    """Count the keys with which both begin."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
