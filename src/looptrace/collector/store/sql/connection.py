"""A store in SQL: its tables in a DuckDB that can read the store and nothing else."""

import glob
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from looptrace.analyzer.detect.prices import Prices
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.analyzer.text.task_lookup import task_named
from looptrace.collector.store.file_names import NAME_PATTERN
from looptrace.collector.store.layout import COLUMNS_VERSION, require_store
from looptrace.collector.store.locks import StoreError, reading
from looptrace.collector.store.reader import read_loops, tasks_named
from looptrace.collector.store.sql.gate_views import create_gate_views, create_table
from looptrace.collector.store.tables.parquet import (
    TABLES,
    TIES_VERSION,
    TURN_COLUMNS_ADDED,
    file_patterns,
    if_damaged,
)
from looptrace.errors import InputError
from looptrace.queries import Query

# Longer than a store of millions of turns needs, and short enough for a mistake.
QUERY_TIME_MAX_S = 30
_INTERRUPT_AGAIN_S = 0.1
_ROWS_A_BATCH = 1_000
_MEMORY_MAX = "1GB"
_THREADS = 2

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": _MEMORY_MAX,
    "threads": _THREADS,
    "temp_directory": "",  # Nothing is spilled to disk, so that no query fills it.
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}

# An answer is computed as a whole: the store's files are then needed no longer, however slowly its
# rows are read, and the memory limit holds for it.
_ANSWER = "CREATE OR REPLACE TEMP TABLE answer AS "

# DuckDB itself refuses in `query()` everything but one statement that reads. The type of a
# statement would not suffice: a WITH that contains a COPY ... TO counts as a SELECT.
_READ_ONLY = "SELECT * FROM query($sql)"
# A finding that was stored since the loops were computed is a loop by itself.
_FINDINGS = """
    CREATE VIEW findings AS
    SELECT stored.*, coalesce(loop, id) AS loop, coalesce(loop, id) = id AS leads,
        {money} AS cost_money
    FROM parts.findings AS stored LEFT JOIN parts.loops USING (id) {costs}
"""
_COSTS = """
    LEFT JOIN (
        SELECT findings.id, sum(turns.money) AS money FROM parts.findings
        JOIN turns ON turns.task = findings.task
            AND turns.turn BETWEEN findings.turn_first AND findings.turn_last
            AND findings.agent IN ('', turns.agent)
        WHERE turns.money NOT NULL GROUP BY findings.id
    ) AS costs USING (id)
"""
# What a response costs, by the price of its model.
_TURNS = """
    CREATE VIEW turns AS SELECT stored.*, (
        greatest(input_tokens - coalesce(cached_tokens, 0) - coalesce(cache_write_tokens, 0), 0)
            * input_price
        + greatest(coalesce(output_tokens, 0) - coalesce(reasoning_tokens, 0), 0) * output_price
        + coalesce(cached_tokens, 0) * cached_price
        + coalesce(cache_write_tokens, 0) * written_price
        + least(coalesce(reasoning_tokens, 0), coalesce(output_tokens, 0)) * reasoning_price
    ) / 1e6 AS money
    FROM parts.turns AS stored LEFT JOIN parts.prices
        ON kind = 'model' AND name = model AND service_tier IS NOT DISTINCT FROM tier
"""
_UNPRICED_TURNS = "CREATE VIEW turns AS SELECT *, NULL::DOUBLE AS money FROM parts.turns"
_MODELS = """
    SELECT DISTINCT name, service_tier FROM parts.turns
    WHERE kind = 'model' AND name NOT NULL ORDER BY ALL
"""
_PRICES = pl.Schema(
    {
        "model": pl.String(),
        "tier": pl.String(),
        "input_price": pl.Float64(),
        "output_price": pl.Float64(),
        "cached_price": pl.Float64(),
        "written_price": pl.Float64(),
        "reasoning_price": pl.Float64(),
    }
)
# The folders of a row, as columns.
_PLACE = {"day": pl.Date(), "bucket": pl.String()}
# DuckDB takes buckets for numbers where none begins with 0.
_BUCKET = duckdb.ColumnExpression("bucket").cast("VARCHAR").alias("bucket")
_TIME_WITH_ZONE = "TIMESTAMP WITH TIME ZONE"


# The parameter of a query that names a task.
TASK = "task"


class QueryError(InputError):
    """DuckDB refuses the SQL, or it takes too much; the message is one line."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The names of the columns, and the rows in batches."""

    columns: tuple[str, ...]
    batches: Iterator[list[tuple[Any, ...]]]


def connect(*stores: Path, prices: Prices | None = None) -> duckdb.DuckDBPyConnection:
    """Open `spans`, `turns` and `findings` of stores, as if they were one, and its `GATE_VIEWS`.

    With prices the columns `turns.money` and `findings.cost_money` say what models cost; they are
    empty in a store of an earlier version that no writer has migrated yet.

    The connection reads no file outside the stores and loads no extension, and its settings cannot
    be changed. Its SQL could still write into a store's folder, which `ask_typed` prevents. The
    caller keeps writers from the stores, because a table may lose its last file.
    """
    tables: Mapping[str, Iterable[str]] = TABLES
    version = min(map(require_store, stores))  # It may have been migrated meanwhile.
    if version < COLUMNS_VERSION:
        known = [name for name in TURN_SCHEMA if TURN_COLUMNS_ADDED.get(name, 1) <= version]
        spans = SPAN_SCHEMA if version < TIES_VERSION else TABLES["spans"]
        tables = {**TABLES, "spans": spans, "turns": known}
    folders = [store_dir.resolve() for store_dir in stores]
    loops = pl.concat(map(read_loops, folders)).unique("id")
    connection = duckdb.connect(config=_CONFIG)
    create_gate_views(connection, folders)
    connection.execute("CREATE SCHEMA parts")
    create_table(connection, "parts.loops", loops)
    # DuckDB also compares patterns of files with the allowed folders.
    names = [str(folder) for folder in folders]
    allowed = ", ".join(map(_quoted, {*names, *map(glob.escape, names)}))
    connection.execute(f"SET allowed_directories = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    try:
        for table, columns in tables.items():
            connection.execute(f"USE {'main' if table == 'spans' else 'parts'}")
            if patterns := [each for folder in folders for each in file_patterns(folder, table)]:
                files = connection.read_parquet(patterns, hive_partitioning=True)
                files.select(*columns, "day", _BUCKET).create_view(table)
            else:
                empty = pl.Schema({**TABLES[table], **_PLACE}).to_frame()
                create_table(connection, table, empty.select(*columns, *_PLACE))
        connection.execute("USE main")
        _create_priced_views(connection, prices if version >= COLUMNS_VERSION else None)
    except duckdb.Error as error:
        connection.close()
        raise _explained(error) from error
    connection.execute("SET lock_configuration = true")
    return connection


def _create_priced_views(connection: duckdb.DuckDBPyConnection, prices: Prices | None) -> None:
    """Create `turns` and `findings`, with money where prices are known."""
    if prices is None:
        connection.execute(_UNPRICED_TURNS)
        connection.execute(_FINDINGS.format(money="NULL::DOUBLE", costs=""))
        return
    models = connection.execute(_MODELS).fetchall()
    priced = prices.of([model for model, _ in models])
    rows = [
        (model, tier, *priced[model].by_kind(tier)) for model, tier in models if model in priced
    ]
    create_table(connection, "parts.prices", pl.DataFrame(rows, _PRICES, orient="row"))
    connection.execute(_TURNS)
    connection.execute(_FINDINGS.format(money="costs.money", costs=_COSTS))


@contextmanager
def _reading_all(stores: Iterable[Path]) -> Iterator[None]:
    """Keep writers from all stores."""
    with ExitStack() as stack:
        for store_dir in stores:
            stack.enter_context(reading(store_dir))
        yield


@contextmanager
def ask(
    stores: Path | Sequence[Path], sql: str, values: Mapping[str, str], prices: Prices | None = None
) -> Iterator[QueryResult]:
    """Run one of looptrace's own queries on a store, or several, with values of its parameters.

    The whole answer is computed first, so that the store's files are no longer needed.

    Raises:
        QueryError: if DuckDB refuses it, or it takes too much time or memory.
    """
    folders = [stores] if isinstance(stores, Path) else stores
    with ExitStack() as stack:
        with _reading_all(folders):
            connection = stack.enter_context(connect(*folders, prices=prices))
            answer = _answered(connection, sql, values)
        yield answer


def ask_query(
    stores: Path | Sequence[Path],
    query: Query,
    values: Mapping[str, str],
    prices: Prices | None = None,
) -> AbstractContextManager[QueryResult]:
    """Run a query with its parameters; a task may be named by its session. Raises what `ask` does.

    Raises:
        NoTaskError: if no store has a task of this name.
        SeveralServicesError: if several services have a session of this name.
    """
    if name := values.get(TASK):
        folders = [stores] if isinstance(stores, Path) else stores
        named = {task for folder in folders for task in tasks_named(folder, name)}
        values = {**values, TASK: task_named(name, named)}
    return ask(stores, query.sql, values, prices)


def ask_each(
    store_dir: Path, queries: Mapping[str, str], prices: Prices | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Run several of looptrace's own queries by name; return the rows of each.

    Raises:
        QueryError: if DuckDB refuses one, or it takes too much time or memory.
    """
    answers: dict[str, list[dict[str, Any]]] = {}
    with reading(store_dir), connect(store_dir, prices=prices) as connection:
        for name, sql in queries.items():
            result = _answered(connection, sql, {})
            rows = chain.from_iterable(result.batches)
            answers[name] = [dict(zip(result.columns, row, strict=True)) for row in rows]
    return answers


def _answered(
    connection: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, str]
) -> QueryResult:
    """Compute the whole answer, so that the stores' files are no longer needed."""
    _heard(connection, lambda: connection.execute(f"{_ANSWER}{sql}", dict(values)))
    answer = connection.execute("FROM answer")
    columns = answer.description or []
    for name, kind, *_ in columns:
        if str(kind) == _TIME_WITH_ZONE:
            raise QueryError(f"Column {name} is a {_TIME_WITH_ZONE}; cast it to TIMESTAMP.")
    batches = iter(lambda: answer.fetchmany(_ROWS_A_BATCH), [])
    return QueryResult(tuple(name for name, *_ in columns), batches)


def ask_typed(
    stores: Path | Sequence[Path], sql: str, prices: Prices | None = None
) -> AbstractContextManager[QueryResult]:
    """Run a user's SQL: one statement, which can only read. Raises what `ask` does."""
    return ask(stores, _READ_ONLY, {"sql": sql}, prices)


def _heard(connection: duckdb.DuckDBPyConnection, work: Callable[[], object]) -> None:
    """Run DuckDB on another thread, because it ignores Ctrl-C on this one."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(work)
        try:
            future.result(timeout=QUERY_TIME_MAX_S)
        except TimeoutError as error:
            raise QueryError(
                f"The query takes longer than {QUERY_TIME_MAX_S} s; ask for less."
            ) from error
        except duckdb.Error as error:
            raise _explained(error) from error
        finally:
            # A query that has not begun cannot be interrupted, so that one try may be too early.
            while not future.done():
                connection.interrupt()
                wait([future], timeout=_INTERRUPT_AGAIN_S)


def _explained(error: duckdb.Error) -> QueryError | StoreError:
    """Turn DuckDB's error into one line, without its excerpt of SQL that the user did not type."""
    message = " ".join(str(error).partition("\n\nLINE ")[0].split())
    if re.search(NAME_PATTERN, message):
        return StoreError(f"{message}; {if_damaged(message)}.")
    return QueryError(message)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
