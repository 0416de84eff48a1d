"""The SQL that ships with looptrace: one query a file, with a header that says what it answers.

The header is made of comment lines `-- purpose: TEXT`, `-- parameter: NAME (TYPE) TEXT` and
`-- column: NAME (TYPE) TEXT`, the types being DuckDB's. A parameter is bound as `$NAME`. The
queries read `spans`, `turns` and `findings`, and `events`, `gates`, `incidents`, `pivots`,
`opinions` and `tasks`.
"""

import re
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["Field", "Query", "load", "names"]

_SUFFIX = ".sql"
_HEADER = re.compile(r"-- (?P<key>purpose|parameter|column): (?P<text>.+)")
_FIELD = re.compile(r"(?P<name>\w+) \((?P<type>[^)]+)\) (?P<meaning>.+)")


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter or a column of a query: its name, its DuckDB type, and what it means."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Query:
    """One query: the question that it answers, its parameters and columns, and its SQL."""

    name: str
    purpose: str
    parameters: tuple[Field, ...]
    columns: tuple[Field, ...]
    sql: str


def names() -> tuple[str, ...]:
    """Return the names of all queries, in alphabetical order."""
    paths = (entry.name for entry in files(__name__).iterdir())
    return tuple(sorted(path.removesuffix(_SUFFIX) for path in paths if path.endswith(_SUFFIX)))


def load(name: str) -> Query:
    """Read one query.

    Raises:
        KeyError: if no query has this name.
        ValueError: if the header of the file cannot be read.
    """
    if name not in names():
        raise KeyError(name)
    sql = (files(__name__) / f"{name}{_SUFFIX}").read_text(encoding="utf-8")
    matches = map(_HEADER.match, sql.splitlines())
    header = [(match["key"], match["text"]) for match in matches if match]
    (purpose,) = (text for key, text in header if key == "purpose")
    return Query(name, purpose, _fields(header, "parameter"), _fields(header, "column"), sql)


def _fields(header: list[tuple[str, str]], key: str) -> tuple[Field, ...]:
    return tuple(_field(text) for name, text in header if name == key)


def _field(text: str) -> Field:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"query header: {text!r} is not written as NAME (TYPE) TEXT.")
    return Field(match["name"], match["type"], match["meaning"])
