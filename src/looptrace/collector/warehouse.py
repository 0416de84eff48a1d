"""The store as SQL sees it: three views in a DuckDB that can read the store and nothing else."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from looptrace.collector.store import TABLES, StoreError, files_pattern, require_store

# The limits of every query. Nothing is spilled to disk, so the first is the memory of it all.
_MEMORY_MAX = "1GB"
_THREADS = 2
QUERY_TIME_MAX_MS = 30_000

_ROWS_A_BATCH = 1_000

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
            files = connection.read_parquet(
                files_pattern(store_dir, table), hive_partitioning=True, union_by_name=True
            )
            files.select(*schema, "day", "bucket").create_view(table)
    except duckdb.Error as error:
        connection.close()
        raise StoreError(
            f"{store_dir}: cannot be read ({_first_line(error)}); "
            "move that file away and ingest the traces of its day again."
        ) from error
    connection.execute("SET lock_configuration = true")
    return connection


def read(connection: duckdb.DuckDBPyConnection, sql: str) -> Answer:
    """Run SQL that somebody typed: one statement, which can only read.

    Raises:
        QueryError: if DuckDB refuses it, at once or while the rows are read.
    """
    return ask(connection, _READ_ONLY, {"sql": sql})
