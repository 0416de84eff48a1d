"""Tables within JSON, of which each row becomes an object: answers of queries, data frames.

Columns stand beside rows in the answers of Kusto, BigQuery, ClickHouse (`JSONCompact`), ES|QL and
HogQL.
Grafana's frames have a list of values for each column (grafana/grafana@1051092
packages/grafana-data/src/dataframe/DataFrameJSON.ts).
"""

from collections.abc import Collection, Mapping
from typing import Any

_SCHEMA = "schema"
_HEADS = ("columns", "meta", "fields", "Columns")
_BODIES = ("rows", "values", "data", "results", "Rows")
_NAMES = ("name", "ColumnName")
# A row of BigQuery is `{"f": [{"v": value}, ...]}`.
_CELLS, _CELL = "f", "v"


def is_table(names: Collection[str]) -> bool:
    """Return whether an object with these field names may be a table."""
    fields = set(names)
    has_head = not fields.isdisjoint((*_HEADS, _SCHEMA))
    return has_head and (not fields.isdisjoint(_BODIES) or "length" in fields)


def rows_of(table: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of a table as objects without empty cells; None if it is no table."""
    held = table.get(_SCHEMA)
    told = {**table, **held} if isinstance(held, dict) else table
    head = next((told[name] for name in _HEADS if isinstance(told.get(name), list)), None)
    if not head:
        return None
    given = [_name(each) if isinstance(each, dict) else each for each in head]
    names = [name for name in given if isinstance(name, str)]
    if len(names) < len(given):
        return None
    columns, rows = _cells(table, head)
    if columns is not None:
        rows = list(zip(*columns, strict=False)) if len(columns) == len(names) else None
    if rows is None:
        return None
    return [
        {name: value for name, value in zip(names, row, strict=False) if value is not None}
        for row in rows
    ]


def _cells(table: Mapping[str, Any], head: list[Any]) -> tuple[list[Any] | None, list[Any] | None]:
    """Return the columns of a table, or its rows; None for what it does not have."""
    if all(isinstance(each, dict) and isinstance(each.get("values"), list) for each in head):
        return [each["values"] for each in head], None
    body = next((table[name] for name in _BODIES if isinstance(table.get(name), dict | list)), None)
    if isinstance(body, dict):
        columns = body.get("values")
        return (columns if isinstance(columns, list) else None), None
    if not isinstance(body, list):
        return None, None
    rows = [_plain(row) for row in body]
    return None, rows if all(isinstance(row, list) for row in rows) else None


def _name(column: dict[str, Any]) -> Any:
    return next((column[name] for name in _NAMES if name in column), None)


def _plain(row: Any) -> Any:
    held = row.get(_CELLS) if isinstance(row, dict) else None
    return [cell.get(_CELL) for cell in held] if isinstance(held, list) else row
