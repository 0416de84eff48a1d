"""One column of a table, defined once for the schema, a test and a page."""

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl


class Column(NamedTuple):
    """One column: its name, type and unit, what it means, and what null means there."""

    name: str
    dtype: pl.DataType
    unit: str  # `code`: equal codes mean the same thing, and 0 is unknown
    meaning: str
    null: str | None = None  # None: the column is never null


def schema_of(columns: Iterable[Column]) -> pl.Schema:
    """Return the names and types of columns."""
    return pl.Schema({column.name: column.dtype for column in columns})
