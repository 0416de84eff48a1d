"""SQL that people type reads the store and nothing else, and its answers come in three forms."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from looptrace import queries
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.sql import connection
from looptrace.collector.store.sql.connection import QueryError, connect
from tests.commands import refused, run
from tests.queries.stores import add, rows_of, trace, typed
from tests.reliability.serving import until

ENDLESS = "SELECT count(*) FROM range(10000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"


query = partial(run, "query")

HOSTILE = "'; DROP VIEW turns; -- \" [red]$task[/red] \x1b[31m\u202e %s {0}"


INTERRUPT_AFTER_S = 0.5


def files_of(folder: Path) -> dict[Path, bytes]:
    """Return what is in the files below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_hostile_values_are_only_values(tmp_path: Path) -> None:
    """Task names come from traces, that is from anybody."""
    task = HOSTILE.replace("$task", "task")
    hostile = trace(task, "2026-03-02T09:00:00+00:00", HOSTILE, [(HOSTILE, HOSTILE, HOSTILE)] * 3)
    add(tmp_path, hostile)
    rows = rows_of(tmp_path, "turns_of_task", {"task": task})
    assert [row["name"] for row in rows if row["kind"] == "tool"] == [HOSTILE] * 3
    shown = query("turns_of_task", "--store", str(tmp_path), "--param", f"task={task}").output
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[red]" in query("--sql", "SELECT '[red]x[/red]'", "--store", str(tmp_path)).output
    whole = query(
        "turns_of_task", "--store", str(tmp_path), "--param", f"task={task}", "--format", "json"
    )
    assert {row["name"] for row in json.loads(whole.output)} == {HOSTILE, "small-1"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{outside}')",
        "SELECT * FROM read_csv('{outside}')",
        "SELECT * FROM '{outside}'",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM read_text('{store}/../secret.txt')",
        "COPY (SELECT 1) TO '{outside}.copy'",
        "COPY (SELECT 1) TO '{store}/copy.csv'",
        "COPY (SELECT 1) TO '{store}/looptrace-store.json'",
        "WITH x AS (COPY (SELECT 1) TO '{store}/copy.csv') SELECT 1",
        "WITH x AS (COPY (SELECT 1) TO '{store}/copy.csv') SELECT * FROM x",
        "SELECT * FROM query('WITH x AS (COPY (SELECT 1) TO ''{store}/c'') SELECT 1')",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{store}/copy.csv'",
        "EXPORT DATABASE '{store}/export'",
        "ATTACH '{outside}.db'",
        "ATTACH ':memory:' AS other",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 64",
        "RESET memory_limit",
        "PRAGMA threads = 64",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "SELECT * FROM enable_logging(storage := 'file')",
        "CREATE TABLE x AS SELECT 1",
        "DROP VIEW turns",
        "DELETE FROM turns",
        "SELECT 1; SELECT 2",
        "SELECT 1; COPY (SELECT 1) TO '{store}/copy.csv'",
        "",
    ],
)
def test_typed_sql_reads_the_store_and_nothing_else(guarded: Path, sql: str) -> None:
    """SQL is copied from anywhere, and may neither read nor write what is not the store's."""
    before = files_of(guarded)
    with pytest.raises(QueryError):
        typed(guarded / "s", sql.format(outside=guarded / "secret.txt", store=guarded / "s"))
    assert files_of(guarded) == before


@pytest.mark.parametrize(
    "sql", ["SET threads = 64", "LOAD httpfs", "FROM read_text('/etc/passwd')"]
)
def test_the_connection_itself_is_hardened(folder: Path, sql: str) -> None:
    """What keeps typed SQL in must not hang on one line of Python alone."""
    with connect(folder) as connection, pytest.raises(duckdb.Error):
        connection.execute(sql).fetchall()


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT count(DISTINCT task) FROM turns", [(7,)]),
        ("FROM turns SELECT task ORDER BY task DESC LIMIT 1 -- the last", [("stuck-3",)]),
        ("WITH x AS (SELECT 1 AS a) SELECT a, a FROM x;", [(1, 1)]),
        (
            "SELECT column_name FROM (DESCRIBE findings) WHERE column_type LIKE 'STRUCT%'",
            [("turns",)],
        ),
        (
            "SELECT DISTINCT day::VARCHAR FROM spans ORDER BY 1",
            [("2026-03-02",), ("2026-03-03",), ("2026-03-04",)],
        ),
    ],
)
def test_typed_sql_answers(folder: Path, sql: str, rows: list[tuple[Any, ...]]) -> None:
    """Every form of a SELECT must work, also where a line ends in a comment."""
    assert typed(folder, sql) == rows


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT tusk FROM turns", ["tusk", "task"]),
        ("SELECT * FROM turn", ["turn does not exist"]),
        ("SELEC 1", ["syntax error", "SELEC"]),
        ("SELECT now()", ["TIMESTAMP WITH TIME ZONE", "cast"]),
        ("SELECT 'a\nb'::INTEGER", ["Could not convert"]),
    ],
)
def test_a_mistake_in_sql_is_explained_in_one_line(
    folder: Path, sql: str, words: list[str]
) -> None:
    """DuckDB knows what is wrong, and a traceback would hide it."""
    result = query("--sql", sql, "--store", str(folder))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert all(word in result.stderr for word in words)


def test_a_query_that_takes_too_long_is_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A join without a condition must not keep a machine busy for the night."""
    monkeypatch.setattr(connection, "QUERY_TIME_MAX_S", INTERRUPT_AFTER_S)
    with pytest.raises(QueryError, match=r"takes longer than 0\.5 s"):
        typed(folder, ENDLESS)


def test_a_query_that_takes_too_much_memory_is_stopped(folder: Path) -> None:
    """The limit is DuckDB's own, so that nothing else on the machine suffers."""
    with pytest.raises(QueryError, match="Out of Memory"):
        typed(folder, "SELECT list(range) FROM range(1000000000)")


@pytest.fixture
def hears_ctrl_c() -> Iterator[None]:
    """Let the process hear Ctrl-C, which a shell lets those ignore that it starts with `&`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("hears_ctrl_c")
def test_ctrl_c_stops_a_query(folder: Path) -> None:
    """DuckDB on the main thread would not always hear it."""
    before = {*threading.enumerate(), threading.current_thread()}

    def interrupt() -> None:
        until(lambda: {*threading.enumerate()} - before - {threading.current_thread()})
        time.sleep(INTERRUPT_AFTER_S)  # The query has begun, on a thread of its own.
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        typed(folder, ENDLESS)
    thread.join()
    assert typed(folder, "SELECT 1") == [(1,)]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """A user must learn which file to move away."""
    folder = add(tmp_path, trace("s", "2026-03-02T09:00:00+00:00", "a", [("t", "x", None)]))
    (victim,) = folder.glob("turns/day=2026-03-02/*/data.parquet")
    victim.write_bytes(b"garbage")
    with pytest.raises(StoreError, match="move it away") as caught:
        rows_of(folder, "recurring_failures")
    assert str(victim) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_list_names_every_query_with_purpose_and_parameters() -> None:
    """It is the only place where a user sees what there is."""
    shown = query().output
    for each in map(queries.load, queries.names()):
        assert each.name in shown
        assert each.purpose in shown
        assert all(f"--param {p.name}=" in shown for p in each.parameters)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["turn_of_task"], ["There is no query 'turn_of_task'", "Did you mean turns_of_task?"]),
        (["xyz"], ["recurring_failures", "agents_that_loop"]),
        (["turns_of_task"], ["--param task="]),
        (["turns_of_task", "--param", "tsk=1"], ["no parameter 'tsk'", "Did you mean task?"]),
        (["turns_of_task", "--param", "task"], ["KEY=VALUE"]),
        (["recurring_failures", "--param", "task=1"], ["no parameter 'task'", "Known: none."]),
        (["--sql", "SELECT 1", "--param", "task=1"], ["no parameter 'task'"]),
        (["recurring_failures", "--sql", "SELECT 1"], ["either NAME or --sql"]),
    ],
)
def test_wrong_use_says_what_there_is(folder: Path, arguments: list[str], words: list[str]) -> None:
    """Nobody remembers the names of queries and parameters."""
    said = refused("query", *arguments, "--store", str(folder))
    assert all(word in said for word in words)


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    """An empty answer would look like good news."""
    assert "is not a store" in refused("query", "recurring_failures", "--store", str(tmp_path))
    assert "--store" in query("recurring_failures").stderr


def test_rows_come_as_table_json_and_csv(folder: Path) -> None:
    """People read tables, and programs read the other two, with the same rows."""
    sql = """
        SELECT task, count(*) AS turns, [1, 2] AS list, 'a,"b"' AS text, NULL AS nothing,
            'NaN'::DOUBLE AS nan, day
        FROM turns GROUP BY task, day ORDER BY task LIMIT 2
    """
    told = {form: query("--sql", sql, "--store", str(folder), "--format", form) for form in FORMS}
    assert [result.exit_code for result in told.values()] == [0, 0, 0]
    assert all(word in told["table"].output for word in ("task", "fine-1", "fine-2", 'a,"b"'))
    expected = {"task": "fine-1", "turns": 8, "list": [1, 2], "text": 'a,"b"', "nothing": None}
    assert json.loads(told["json"].output)[0] == {**expected, "nan": None, "day": "2026-03-02"}
    header, first, second = csv.reader(io.StringIO(told["csv"].output))
    assert header == ["task", "turns", "list", "text", "nothing", "nan", "day"]
    assert first == ["fine-1", "8", "[1, 2]", 'a,"b"', "", "nan", "2026-03-02"]
    assert second[0] == "fine-2"
    nothing = query("--sql", "FROM turns LIMIT 0", "--store", str(folder), "--format", "json")
    assert json.loads(nothing.output) == []


FORMS = ("table", "json", "csv")


def test_a_long_table_is_cut_and_says_so(folder: Path) -> None:
    """Nobody reads a terminal that scrolls for a minute, and silence about a cut would mislead."""
    sql = ["--sql", "SELECT range AS n FROM range(1001)", "--store", str(folder)]
    table, whole = query(*sql), query(*sql, "--format", "csv")
    assert "999" in table.stdout
    assert " 1000" not in table.stdout
    assert "Only the first 1000 rows" in table.stderr
    assert len(whole.stdout.splitlines()) == 1 + 1001


def test_the_process_ends_quietly(folder: Path) -> None:
    """What libraries print on the way out would end up in scripts' logs."""
    code = "from looptrace.cli.query import query; query()"
    done = subprocess.run(
        [sys.executable, "-c", code, "recurring_failures", "--store", str(folder)],
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    assert b"2026-03-03" in done.stdout
