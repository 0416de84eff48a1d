"""The store as SQL sees it: three views in a DuckDB that can read the store and nothing else."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from looptrace.collector.store import require_store
from looptrace.collector.store_files import DATA, TABLES, StoreError, files_pattern

T = TypeVar("T")

# The limits of every query. Nothing is spilled to disk, so that a query never fills one.
_MEMORY_MAX = "1GB"
_THREADS = 2
QUERY_TIME_MAX_MS = 30_000

_ROWS_A_BATCH = 1_000
_TIME_WITH_ZONE = "TIMESTAMP WITH TIME ZONE"

# DuckDB itself refuses in `query()` whatever is not one statement that reads. The type of a
# statement would not do: a WITH that holds a COPY ... TO counts as a SELECT.
_READ_ONLY = "SELECT * FROM query($sql)"


class QueryError(Exception):
    """SQL that DuckDB refuses, or that takes too much; the message is one line."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The names of the columns, and the rows in batches, which are computed as they are read."""

    columns: tuple[str, ...]
    batches: Iterator[list[tuple[Any, ...]]]


def connect(store_dir: Path) -> duckdb.DuckDBPyConnection:
    """Open the views `spans`, `turns` and `findings` of a store.

    The connection reads no file outside the store and loads no extension, and its settings cannot
    be changed. Its SQL could still write into the store's folder: `read` keeps it from that.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    require_store(store_dir)
    store_dir = store_dir.resolve()
    connection = duckdb.connect(
        config={
            "memory_limit": _MEMORY_MAX,
            "threads": _THREADS,
            "max_execution_time": QUERY_TIME_MAX_MS,
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )
    # DuckDB compares the patterns of files, too, with the folders that are allowed.
    allowed = ", ".join(map(_quoted, {str(store_dir), glob.escape(str(store_dir))}))
    connection.execute(f"SET allowed_directories = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    try:
        for table, schema in TABLES.items():
            pattern = files_pattern(store_dir, table)
            files = connection.read_parquet(pattern, hive_partitioning=True)
            files.select(*schema, "day", "bucket").create_view(table)
    except duckdb.Error as error:
        connection.close()
        raise _explained(error) from error
    connection.execute("SET lock_configuration = true")
    return connection


def read(connection: duckdb.DuckDBPyConnection, sql: str) -> Answer:
    """Run SQL that somebody typed: one statement, which can only read.

    Raises:
        QueryError: if DuckDB refuses it, or it takes too long.
        StoreError: if a file of the store cannot be read.
    """
    return ask(connection, _READ_ONLY, {"sql": sql})


def ask(connection: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, str]) -> Answer:
    """Run one of looptrace's own queries with the values of its parameters.

    The rows may raise what this function raises, while they are iterated over.

    Raises:
        QueryError: if DuckDB refuses it, or it takes too long.
        StoreError: if a file of the store cannot be read.
    """
    result = _heard(connection, lambda: connection.execute(sql, dict(values)))
    columns = result.description or []
    for name, kind, *_ in columns:
        if str(kind) == _TIME_WITH_ZONE:
            raise QueryError(f"Column {name} is a {_TIME_WITH_ZONE}; cast it to TIMESTAMP.")
    return Answer(tuple(name for name, *_ in columns), _batches(result))


def _batches(result: duckdb.DuckDBPyConnection) -> Iterator[list[tuple[Any, ...]]]:
    while rows := _heard(result, lambda: result.fetchmany(_ROWS_A_BATCH)):
        yield rows


def _heard(connection: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Let DuckDB work on another thread: on this one it would not always hear Ctrl-C."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            connection.interrupt()
            raise
        except duckdb.Error as error:
            raise _explained(error) from error


def _explained(error: duckdb.Error) -> QueryError | StoreError:
    """Put DuckDB's message on one line, without its excerpt of SQL that nobody typed."""
    message = " ".join(str(error).partition("\n\nLINE ")[0].split())
    if DATA in message:
        return StoreError(f"{message}; move that file away and ingest the traces of its day again.")
    return QueryError(message)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
