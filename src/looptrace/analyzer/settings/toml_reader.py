"""Reader of settings files: each value with its keys and its line."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from looptrace.analyzer.text.display import plain
from looptrace.errors import InputError

# A file with every setting has a fiftieth of it.
FILE_BYTES_MAX = 256 * 1024

# The parser's time for a dotted key grows with the square of its parts.
LINE_DOTS_MAX = 50

_NUMBER_BITS_MAX = 63  # A TOML integer does not have more.
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

T = TypeVar("T")
Keys = tuple[str | int, ...]  # A number counts the tables of a list from 0.


class SettingsError(InputError):
    """Settings that cannot be used; the message is one line, with the file and the line in it.

    `every` has all errors of the file, in the order of their lines; the message is the first.
    """

    def __init__(
        self, text: str, line: int = 0, keys: Keys = (), every: Sequence[SettingsError] = ()
    ) -> None:
        super().__init__(text)
        self.line = line
        self.keys = keys
        self.every = tuple(every) or (self,)


class Errors:
    """The errors of a settings file, collected while it is read."""

    def __init__(self) -> None:
        self._found: list[SettingsError] = []
        self._left_out: list[Keys] = []

    def add(self, error: SettingsError) -> None:
        """Take an error, but none of a value whose wrong part was left out."""
        for each in error.every:
            if not any(_shared(keys, each.keys) == len(each.keys) for keys in self._left_out):
                self._found.append(each)

    def has(self, keys: Keys) -> bool:
        """Return whether these keys lead to an error."""
        return any(_shared(error.keys, keys) == len(keys) for error in self._found)

    def leave_out(self, value: dict[str, Any], keys: Keys) -> None:
        """Take a wrong value out of the tables, so that the rest can be read."""
        self._left_out.append(keys)
        *path, last = keys
        inner: Any = value
        for key in path:
            inner = inner.get(key, {}) if isinstance(inner, dict) else inner[key]
        inner.pop(last, None)

    def tried(self, make: Callable[[], T], otherwise: T) -> T:
        """Return what is made; where it is refused, take the error and return the other."""
        try:
            return make()
        except SettingsError as error:
            self.add(error)
            return otherwise

    def check(self) -> None:
        """Raise all errors as one.

        Raises:
            SettingsError: if there is one; its message has the first, and how many others.
        """
        if self._found:
            raise all_of(self._found)


def all_of(errors: Iterable[SettingsError]) -> SettingsError:
    """Return one error for several; `every` has each."""
    first, *others = every = sorted(errors, key=lambda error: error.line)
    more = f" The file has {len(others)} more." if others else ""
    return SettingsError(f"{first}{more}", first.line, first.keys, every)


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a settings file, the keys that lead to it, and the file as its errors need it."""

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
        line = _line_of(self.text, self.keys)
        return SettingsError(f"{self.file}:{line}: {why}", line, self.keys)

    def at(self, key: str | int, value: Any = None) -> Node:
        """Return the value of a key of a table, or this value if there is no such key."""
        if isinstance(key, int) or key in self.value:
            value = self.value[key]
        return Node(self.file, self.text, (*self.keys, key), value)


def content(path: Path) -> bytes:
    """Return the content of a file; of a file that is too long, slightly more than allowed."""
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}; check the path.") from error


def read(data: bytes, name: str) -> Node:
    """Parse the content of a settings file; `name` is its name in errors."""
    text = _text(data, name)
    try:
        return Node(name, text, (), tomllib.loads(text))
    except RecursionError as error:
        raise SettingsError(f"{name}:1: the values are nested too deeply.") from error
    except ValueError as error:  # The parser raises it also for a number with too many digits.
        place = _SYNTAX_PLACE.search(str(error))
        line = place["line"] if place else 1
        column = f", column {place['column']}" if place and place["column"] else ""
        why = plain(_SYNTAX_PLACE.sub("", str(error)), _WHY_LENGTH_MAX)
        line = line or text.count("\n") + 1  # The parser gives no line at the end.
        quotes = "; a text needs quotes" if why.startswith("Invalid value") else ""
        raise SettingsError(f"{name}:{line}: is not TOML: {why}{column}{quotes}.") from error


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
    """Decode a file, and refuse content for which the parser would be slow."""
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
    """Find the line of a key, or the nearest line if the key is within a value.

    Lines within multi-line texts are treated as keys; no setting has such a text.
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
    """Add the number of its last table to the first part of a header that is a list."""
    for end in range(1, len(header) + 1):
        if header[:end] in lists:
            return (*header[:end], lists[header[:end]] - 1, *header[end:])
    return header


def _shared(first: Keys, second: Keys) -> int:
    """Count the first keys that both have in common."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
