"""Rows, pairs and lists at a terminal, and rows as JSON."""

import json  # a record may hold any value, and NaN stays NaN
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from rich import box
from rich.console import Console, JustifyMethod
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from looptrace.analyzer.text.display import plain

# A terminal shows no more; the other formats have every row.
ROWS_SHOWN_MAX = 1_000
_CELL_LENGTH_MAX = 120
_LINE_LENGTH_MAX = 500
_INDENT_COLUMNS = 2


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], console: Console) -> bool:
    """Print one row a line, with full numbers and with texts cut to the room.

    Return whether all rows were printed.
    """
    shown = list(islice(rows, ROWS_SHOWN_MAX + 1))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for index, column in enumerate(columns):
        numbers = all(isinstance(row[index], int | float | None) for row in shown)
        justify: JustifyMethod = "right" if numbers else "left"
        table.add_column(_cell(column, console), justify=justify, no_wrap=numbers)
    for row in shown[:ROWS_SHOWN_MAX]:
        table.add_row(*(_cell(value, console) for value in row))
    console.print(table)
    return len(shown) <= ROWS_SHOWN_MAX


def print_pairs(pairs: Iterable[tuple[str, str]], console: Console) -> None:
    """Print one name and value a line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in pairs:
        table.add_row(Text(name, style="dim"), Text(_fitting(value, _LINE_LENGTH_MAX, console)))
    console.print(table)


def print_numbers(columns: Sequence[str], rows: Iterable[Sequence[Any]], console: Console) -> None:
    """Print one row a line: a name, `-` if it is empty, and numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left")
    for name, *numbers in rows:
        named = Text(_fitting(name, _CELL_LENGTH_MAX, console) or "-")
        table.add_row(named, *map(number_text, numbers))
    console.print(table)


def print_section(title: str, lines: Iterable[str], console: Console) -> None:
    """Print a title in bold and its lines, indented."""
    console.print(Text(_fitting(title, _LINE_LENGTH_MAX, console), style="bold"))
    for line in lines:
        text = Text(_fitting(line, _LINE_LENGTH_MAX, console))
        console.print(Padding(text, (0, 0, 0, _INDENT_COLUMNS), expand=False))


def number_text(value: float | None) -> str:
    """Write a whole number as it is, any other with three decimals, and `-` for none."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def json_lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield the lines of an array of objects, one a line."""
    line = "["
    for row in rows:
        record = dict(zip(columns, map(_json_value, row), strict=True))
        text = json.dumps(record, ensure_ascii=False, default=str)
        yield line if line == "[" else f"{line},"
        line = text
    yield from ("[]",) if line == "[" else (line, "]")


def _cell(value: Any, console: Console) -> Text:
    text = "" if value is None else _fitting(str(value), _CELL_LENGTH_MAX, console)
    return Text(text, no_wrap=True, overflow="ellipsis")


def _fitting(text: str, length_max: int, console: Console) -> str:
    return plain(text, max(length_max, console.width))


def _json_value(value: Any) -> Any:
    """Return a value that JSON can write: it has no word for infinity or NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
