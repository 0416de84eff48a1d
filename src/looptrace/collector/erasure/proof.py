"""The proof that nothing of what was forgotten is left: every file of the store is read again."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import polars as pl

from looptrace.collector.erasure.choice import Choice
from looptrace.collector.erasure.log_rows import logged_spans
from looptrace.collector.store.file_names import BUCKETS
from looptrace.collector.store.tables.parquet import TABLES, read_bucket
from looptrace.collector.store.tables.removal import damaged_files

# Every text that stands alone, or in quotation marks in some JSON; and every id of a trace.
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_TRACE_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
_SQLITE = b"SQLite format 3\x00"


def left_of(store_dir: Path, choice: Choice) -> list[str]:
    """Return the places of a store that still have something that was to be forgotten."""
    found = [*_in_tables(store_dir, choice), *map(str, damaged_files(store_dir))]
    if any(spans.filter(choice.is_chosen()).height for spans in logged_spans(store_dir)):
        found.append("the log")
    files = sorted(path for path in store_dir.iterdir() if path.is_file())
    return found + [p.name for p in files if _in_file(p, choice) or _in_database(p, choice)]


def _in_tables(store_dir: Path, choice: Choice) -> Iterator[str]:
    for table in TABLES:
        for bucket in range(BUCKETS):
            rows = read_bucket(store_dir, table, bucket)
            chosen = choice.is_chosen() if table != "findings" else pl.lit(value=False)
            if "task" in rows.columns and table != "spans":
                chosen |= pl.col("task").is_in(list(choice.tasks))
            if rows.select(chosen.any()).item():
                yield f"{table} of bucket {bucket:02}"


def _in_file(path: Path, choice: Choice) -> bool:
    """Return whether a file has the id of a forgotten trace, in free pages of a database, too."""
    return not choice.traces.isdisjoint(
        found.decode() for found in _TRACE_ID.findall(path.read_bytes())
    )


def _in_database(path: Path, choice: Choice) -> bool:
    """Return whether a text in a database names a forgotten task."""
    with path.open("rb") as file:
        if file.read(len(_SQLITE)) != _SQLITE:
            return False
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as sql:
        tables = sql.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return any(
            not choice.tasks.isdisjoint({value, *_QUOTED.findall(value)})
            for (table,) in tables
            for row in sql.execute(f'SELECT * FROM "{table}"')  # noqa: S608 - It names itself.
            for value in row
            if isinstance(value, str)
        )
