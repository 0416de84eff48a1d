from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

from looptrace import queries
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.cli.main import main
from looptrace.collector.store import sql, writer
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.reader import open_gates
from looptrace.collector.store.sql import QueryError, ask, ask_each, ask_typed, connect
from looptrace.collector.store.tables.parquet import TABLES
from tests.collector.store.stored import spans_of
from tests.otlp import Attributes, Trace

ENDLESS = "SELECT count(*) FROM range(10000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"
requirement = pytest.mark.requirement
HOSTILE = "'; DROP VIEW turns; -- \" [red]$task[/red] \x1b[31m\u202e %s {0}"
INTERRUPT_AFTER_S = 0.5

Tool = tuple[str, str, str | None]  # name, argument, error


def trace(session: str, at: str, agent: str, tools: Sequence[Tool]) -> Trace:
    """Return a trace of one agent in which a model, with 100 + 10 tokens, asks for each tool."""
    made = Trace(session, at=at)
    named = {"gen_ai.agent.name": agent}
    for n, (name, argument, error) in enumerate(tools):
        made.span(
            "chat",
            None,
            {
                **named,
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "small-1",
                "gen_ai.usage.input_tokens": 100,
                "gen_ai.usage.output_tokens": 10,
                "gen_ai.output.messages": json.dumps(
                    [{"role": "assistant", "parts": [{"type": "text", "content": f"Step {n}."}]}]
                ),
            },
        )
        failure = {"error.type": "ValueError", "error.message": error} if error else {}
        made.span(
            f"execute_tool {name}",
            None,
            {
                **named,
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.arguments": json.dumps({"path": argument}),
                **({} if error else {"gen_ai.tool.call.result": f"contents of {argument}"}),
                **failure,
            },
            status="error" if error else "ok",
        )
    return made


def attempts(session: str, *said: tuple[str, list[str] | None, str | None]) -> Trace:
    """Return a trace of attempts at a task of the session's name: status, blockers, work."""
    made = Trace(session, at="2026-03-04T09:00:00+00:00")
    for status, blockers, work in said:
        about = {} if work is None else {"looptrace.completed_work": work}
        blocked = {} if blockers is None else {"looptrace.blockers": blockers}
        made.span("attempt", None, {"looptrace.task.status": status, **about, **blocked})
    return made


def add(folder: Path, *traces: Trace, policy: DetectionPolicy = DEFAULT) -> Path:
    """Put traces into a store."""
    writer.ingest(spans_of(*traces), folder, policy=policy)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of three tasks that loop, on two days, and of two that do not."""
    stuck = [("read_file", "a.py", "no such file")] * 5
    twice = [("read_file", "b.py", "no such file")] * 3
    fine = [("read_file", f"{n}.py", None) for n in range(4)]
    return add(
        tmp_path_factory.mktemp("stores") / "it's a [store]*",
        trace("stuck-1", "2026-03-02T09:00:00+00:00", "coder", stuck),
        trace("stuck-2", "2026-03-03T09:00:00+00:00", "coder", stuck),
        trace("stuck-3", "2026-03-03T10:00:00+00:00", "tester", twice),
        trace("fine-1", "2026-03-02T11:00:00+00:00", "coder", fine),
        trace("fine-2", "2026-03-02T12:00:00+00:00", "tester", fine),
        attempts(
            "page", ("in_progress", None, "head"), ("blocked", ["key"], None), ("done", None, None)
        ),
        attempts("shop", ("blocked", ["key", "host"], None)),
    )


def rows_of(folder: Path, name: str, values: Mapping[str, str] | None = None) -> list[Any]:
    """Run a query that ships, and give its rows as dictionaries."""
    with ask(folder, queries.load(name).sql, values or {}) as answer:
        return [
            dict(zip(answer.columns, row, strict=True)) for batch in answer.batches for row in batch
        ]


def typed(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    """Run SQL as a person would type it."""
    with ask_typed(folder, sql) as answer:
        return [row for batch in answer.batches for row in batch]


def run(*arguments: str) -> Result:
    """Run the command, which may never end with a traceback."""
    result = CliRunner().invoke(main, ["query", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store, `s`, and a file outside of it, `secret.txt`."""
    folder = tmp_path_factory.mktemp("guarded")
    add(folder / "s", trace("s", "2026-03-02T09:00:00+00:00", "a", [("t", "x", None)]))
    (folder / "secret.txt").write_text("secret")
    return folder


def files_of(folder: Path) -> dict[Path, bytes]:
    """Return what is in the files below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def down(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store in which a service is down for three sessions."""
    calls = [("fetch", "a", "503 Service Unavailable")] * 2
    sessions = [trace(f"s{n}", f"2026-03-02T09:00:0{n}+00:00", "coder", calls) for n in range(3)]
    return add(tmp_path_factory.mktemp("stores") / "down", *sessions)


@pytest.fixture(scope="module")
def pivoted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of a task to which a pivot was issued: each call is made twice."""
    calls: list[Tool] = [("run", f"{n // 2}", None) for n in range(10)]
    made = trace("lost", "2026-03-02T09:00:00+00:00", "coder", calls)
    return add(tmp_path_factory.mktemp("stores") / "pivoted", made)


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of two gates that were resolved: after the one the same loop came back."""
    folder = tmp_path_factory.mktemp("stores") / "decided"
    same: list[Tool] = [("run", "a", "no key")]
    for session, times in (("comes-back", 12), ("goes-on", 5)):
        made = trace(session, "2026-03-02T09:00:00+00:00", "coder", same * times)
        add(folder, made)
        with open_gates(folder) as gates:
            (gate,) = gates.gates("open", task=session)
            note = "Use the other key." if times == 5 else None
            gates.resolve(gate.id, "continue", note, gate.opened_ns + 1)
        add(folder, made)
    return folder


def test_a_decision_worked_where_the_loop_did_not_come_back(decided: Path) -> None:
    """A person who decides the same again and again sees that it does not help."""
    (row,) = rows_of(decided, "decisions_that_worked")
    assert (row["decision"], row["gates"], row["worked"], row["share"]) == ("continue", 2, 1, 0.5)
    assert (row["with_note"], row["minutes"]) == (1, 0.0)
    (day,) = rows_of(decided, "gates_by_day")
    assert (str(day["day"]), day["opened"], day["resolved"]) == ("2026-03-02", 3, 2)
    assert (day["false_alarms"], day["minutes"]) == (0, 0.0)


def test_an_intervention_helped_where_something_new_came_of_it(tmp_path: Path) -> None:
    """Of two warned runs one finds another way; the other one says the same again."""
    stuck: list[Tool] = [("read_file", "a.py", None)]
    mends = [*stuck * 3, *(("read_file", f"{n}.py", None) for n in range(3))]
    store = add(
        tmp_path / "s",
        trace("mends", "2026-03-02T09:00:00+00:00", "coder", mends),
        trace("does-not", "2026-03-02T09:00:00+00:00", "coder", stuck * 5),
        trace("ends", "2026-03-02T09:00:00+00:00", "coder", stuck * 3),
    )
    warned = [row for row in rows_of(store, "interventions") if row["intervention"] == "warn"]
    assert warned
    for row in warned:
        assert (row["times"], row["recovered"], row["stopped"]) == (3, 1, 1)
        assert row["share"] == 0.5
        # Wilson's interval of one of two.
        assert (row["share_min"], row["share_max"]) == pytest.approx((0.0945, 0.9055), abs=0.001)


def test_what_is_known_of_a_run_is_listed(tmp_path: Path, decided: Path) -> None:
    """Evaluations, the author's attribute and decisions stand side by side, by task."""
    made = trace("s", "2026-03-02T09:00:00+00:00", "coder", [("read_file", "a.py", None)])
    score: Attributes = {
        "gen_ai.evaluation.name": "correctness",
        "gen_ai.evaluation.score.label": "pass",
        "gen_ai.evaluation.score.value": 0.9,
        "gen_ai.evaluation.explanation": "All tests pass.",
    }
    ended = {"looptrace.task.outcome": "solved"}
    made.span("attempt", None, ended, [("gen_ai.evaluation.result", score)])
    store = add(tmp_path / "s", made)
    found = {row["source"]: row for row in rows_of(store, "outcomes")}
    by_source = {source: (row["name"], row["label"]) for source, row in found.items()}
    assert by_source == {
        "attribute": ("looptrace.task.outcome", "solved"),
        "evaluation": ("correctness", "pass"),
    }
    assert (found["evaluation"]["value"], found["evaluation"]["note"]) == (0.9, "All tests pass.")
    assert {row["task"] for row in found.values()} == {"s"}
    (row,) = [row for row in rows_of(decided, "outcomes") if row["task"] == "goes-on"]
    assert (row["source"], row["label"]) == ("decision", "continue")
    assert row["note"] == "Use the other key."


def test_tasks_that_were_left_alone_stand_beside_the_others(tmp_path: Path) -> None:
    """Only runs without an intervention say whether one helps."""
    stuck: list[Tool] = [("read_file", "a.py", None)]
    recovery = Recovery(shadow=0.5)
    policy = DetectionPolicy(recovery=recovery)
    names = [f"run-{number}" for number in range(9)]
    times = "2026-03-02T09:00:00+00:00"
    store = add(
        tmp_path / "s", *(trace(n, times, "coder", stuck * 3) for n in names), policy=policy
    )
    alone = sum(map(recovery.leaves_alone, names))
    rows = rows_of(store, "interventions")

    counted = {(row["intervention"], row["rule"]): row["times"] for row in rows}
    assert 0 < alone < len(names)
    assert counted["left alone", "repeated_call"] == alone
    assert counted["warn", "repeated_call"] == len(names) - alone


def test_several_queries_have_one_answer_each(decided: Path) -> None:
    """A page that asks for many things opens the store once."""
    names = ("gates_by_day", "decisions_that_worked", "gates")
    answers = ask_each(decided, {name: queries.load(name).sql for name in names})

    assert {name: rows_of(decided, name) for name in names} == answers


@pytest.mark.parametrize("table", TABLES)
def test_a_table_without_files_has_the_columns_of_one_with_rows(
    tmp_path: Path, folder: Path, table: str
) -> None:
    """SQL that was written for a full store must also run on a new one, and on both together."""
    writer.ingest(SPAN_SCHEMA.to_frame(), tmp_path)
    late_buckets = shutil.copytree(folder, tmp_path.with_name(f"{tmp_path.name}-late"))
    for early in late_buckets.glob("*/day=*/bucket=0*"):
        shutil.rmtree(early)
    assert list(late_buckets.glob(f"{table}/*/*/*.parquet"))
    described = [typed(one, f"DESCRIBE {table}") for one in (tmp_path, folder, late_buckets)]
    assert described == [described[0]] * 3
    counting = f"SELECT count(*) FROM {table}"  # noqa: S608 - It is a constant.
    with ask_typed([tmp_path, folder], counting) as both:
        assert next(both.batches) == typed(folder, counting) != [(0,)]


@pytest.mark.parametrize("name", queries.names())
def test_a_query_gives_what_its_header_says(
    tmp_path: Path, folder: Path, down: Path, pivoted: Path, decided: Path, name: str
) -> None:
    """The list of queries and the docs are made from the headers, and a store may be empty."""
    others = {"outages": down, "pivots": pivoted}
    others |= dict.fromkeys(("decisions_that_worked", "interventions", "outcomes"), decided)
    folder = others.get(name, folder)
    query = queries.load(name)
    values = {parameter.name: "stuck-1" for parameter in query.parameters}
    writer.ingest(SPAN_SCHEMA.to_frame(), tmp_path)
    for folder_asked, empty in ((tmp_path, True), (folder, False)):
        with connect(folder_asked) as connection:
            described = connection.execute(f"DESCRIBE {query.sql}", values).fetchall()
            declared = [(field.name, str(duckdb.sqltype(field.type))) for field in query.columns]
            assert [(column, kind) for column, kind, *_ in described] == declared
            assert (connection.execute(query.sql, values).fetchall() == []) is empty
    assert query.purpose.endswith(".")


def test_what_was_decided_can_be_asked(folder: Path) -> None:
    """Decisions stand in SQLite, and are asked like the turns that they are about."""
    opened = [row for row in rows_of(folder, "events") if row["type"] == "gate_opened"]
    gates = rows_of(folder, "gates")
    assert {row["gate"] for row in opened} == {row["gate"] for row in gates}
    assert {(row["task"], row["status"]) for row in gates} >= {("stuck-1", "open")}
    stopped = [row["task"] for row in rows_of(folder, "tasks") if row["gates"]]
    assert sorted(stopped) == sorted(row["task"] for row in gates)
    joined = "SELECT count(*) FROM events JOIN turns USING (task, turn) WHERE type = 'gate_opened'"
    assert typed(folder, joined) == [(len(gates),)]


def test_the_same_loop_in_several_stores_is_one_incident(folder: Path, decided: Path) -> None:
    """Gates lead to their incidents, and those of several stores are added up."""
    alone = rows_of(folder, "incidents")
    assert sum(row["gates"] for row in alone) == len(rows_of(folder, "gates"))
    joined = "SELECT count(*) FROM gates JOIN incidents ON incidents.id = gates.incident"
    assert typed(folder, joined) == [(len(rows_of(folder, "gates")),)]
    (one,) = rows_of(decided, "incidents")
    assert (one["gates"], one["tasks"], one["tool"], one["state"]) == (3, 2, "run", "back_again")
    with ask([folder, decided], queries.load("incidents").sql, {}) as both:
        gates = both.columns.index("gates")
        found = {row[0]: row[gates] for batch in both.batches for row in batch}
    assert found == {row["incident"]: row["gates"] for row in [*alone, one]}


def test_findings_by_rule_and_agent(folder: Path) -> None:
    """It must name the rule and the agent with the most loops first, with their cost.

    A loop that several rules see costs once: under the rule that leads it.
    """
    rows = rows_of(folder, "findings_by_rule_and_agent")
    assert [row["loops"] for row in rows] == sorted((row["loops"] for row in rows), reverse=True)
    seen = [row for row in rows if row["agent"] == "coder" and row["rule"] != "repeated_call"]
    assert seen
    assert {(row["loops"], row["attempts"], row["tokens"]) for row in seen} == {(0, None, None)}
    (calls,) = (r for r in rows if (r["rule"], r["agent"]) == ("repeated_call", "coder"))
    assert calls == {
        "rule": "repeated_call",
        "agent": "coder",
        "loops": 2,
        "also": 0,
        "tasks": 2,
        "attempts": 10,
        "seconds": 18.0,
        "tokens": 880,
        "money": None,
    }


def test_loop_cost_by_day_counts_turns_once(folder: Path) -> None:
    """Several rules see the same loop, and its tokens were still spent only once.

    Days are in their order, as a chart draws them, whichever cost most.
    """
    assert len(typed(folder, "SELECT id FROM findings WHERE task = 'stuck-1'")) > 1
    before, after = rows_of(folder, "loop_cost_by_day")
    assert [str(row["day"]) for row in (before, after)] == ["2026-03-02", "2026-03-03"]
    # From the first of five failing calls to the last, with the four responses between.
    assert before == {
        "day": before["day"],
        "loops": 1,
        "tasks": 1,
        "attempts": 5,
        "seconds": 9.0,
        "input_tokens": 400,
        "output_tokens": 40,
        "money": None,
    }
    assert (after["loops"], after["tasks"], after["attempts"]) == (2, 2, 5 + 3)
    assert (after["input_tokens"], after["output_tokens"]) == (400 + 200, 40 + 20)


def test_turns_of_task_are_in_order_and_name_their_rules(folder: Path) -> None:
    """A person who reads a task wants to see where it loops, and why."""
    rows = rows_of(folder, "turns_of_task", {"task": "stuck-1"})
    assert [row["turn"] for row in rows] == list(range(1, 11))
    assert [row["kind"] for row in rows] == ["model", "tool"] * 5
    assert {row["rules"] for row in rows if row["kind"] == "model"} == {""}
    assert all("repeated_call" in row["rules"] for row in rows if row["kind"] == "tool")
    assert rows[1] == {
        "turn": 2,
        "kind": "tool",
        "agent": "coder",
        "name": "read_file",
        "failed": True,
        "rules": rows[1]["rules"],
        "arguments": '{"path":"a.py"}',
        "result": "no such file",
        "seconds": 1.0,
        "tokens": None,
        "money": None,
    }
    assert (rows[0]["result"], rows[0]["tokens"]) == ("Step 0.", 110)


def test_recurring_failures_are_counted_over_tasks(folder: Path) -> None:
    """A failure that many tasks meet is the environment's, and is fixed once for all."""
    rows = rows_of(folder, "recurring_failures")
    assert [(row["name"], row["failures"], row["tasks"], row["sessions"]) for row in rows] == [
        ("read_file", 13, 3, 3)
    ]
    assert rows[0]["example"] == "no such file"
    assert str(rows[0]["last_day"]) == "2026-03-03"


def test_agents_that_loop_are_counted_by_task(folder: Path) -> None:
    """An agent that loops in most of its tasks is the one to look at first."""
    rows = rows_of(folder, "agents_that_loop")
    shown = [(row["agent"], row["tasks"], row["looping_tasks"], row["share"]) for row in rows]
    assert shown == [("coder", 3, 2, 0.667), ("tester", 2, 1, 0.5), ("", 2, 0, 0.0)]
    assert [(row["loops"], row["attempts"]) for row in rows] == [(2, 10), (1, 3), (0, 0)]


@requirement("B1")
@requirement("B9")
def test_every_attempt_is_kept(folder: Path) -> None:
    """Time, status, blockers, completed work and session, in the order of the attempts."""
    rows = [row for row in rows_of(folder, "attempts") if row["task"] == "page"]
    shown = [(r["attempt"], r["status"], r["blockers"], r["completed_work"]) for r in rows]
    assert shown == [
        (1, "in_progress", None, "head"),
        (2, "blocked", '["key"]', None),
        (3, "done", None, None),
    ]
    assert {(row["session"], row["agent"], row["subtask"]) for row in rows} == {("page", "", None)}
    assert [str(row["at"]) for row in rows] == [f"2026-03-04 09:00:0{n}" for n in (1, 2, 3)]
    assert len({row["span_id"] for row in rows}) == 3


@requirement("B8")
def test_the_status_of_a_task_is_that_of_its_last_attempt(folder: Path) -> None:
    """The blockers of an earlier attempt no longer block the last one."""
    page, shop = sorted(rows_of(folder, "task_status"), key=lambda row: str(row["task"]))
    assert (page["attempts"], page["last_status"], page["last_blockers"]) == (3, "done", None)
    assert str(page["last_attempt"]) == "2026-03-04 09:00:03"
    assert (shop["attempts"], shop["last_blockers"]) == (1, '["host","key"]')


def test_hostile_values_are_only_values(tmp_path: Path) -> None:
    """Task names come from traces, that is from anybody."""
    task = HOSTILE.replace("$task", "task")
    hostile = trace(task, "2026-03-02T09:00:00+00:00", HOSTILE, [(HOSTILE, HOSTILE, HOSTILE)] * 3)
    add(tmp_path, hostile)
    rows = rows_of(tmp_path, "turns_of_task", {"task": task})
    assert [row["name"] for row in rows if row["kind"] == "tool"] == [HOSTILE] * 3
    shown = run("turns_of_task", "--store", str(tmp_path), "--param", f"task={task}").output
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[red]" in run("--sql", "SELECT '[red]x[/red]'", "--store", str(tmp_path)).output
    whole = run(
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
    result = run("--sql", sql, "--store", str(folder))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert all(word in result.stderr for word in words)


def test_a_query_that_takes_too_long_is_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A join without a condition must not keep a machine busy for the night."""
    monkeypatch.setattr(sql, "QUERY_TIME_MAX_S", INTERRUPT_AFTER_S)
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
    timer = Timer(INTERRUPT_AFTER_S, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        typed(folder, ENDLESS)
    timer.join()
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
    shown = run().output
    for query in map(queries.load, queries.names()):
        assert query.name in shown
        assert query.purpose in shown
        assert all(f"--param {p.name}=" in shown for p in query.parameters)


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
    result = run(*arguments, "--store", str(folder))
    assert result.exit_code == 2
    assert all(word in result.stderr for word in words)


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    """An empty answer would look like good news."""
    result = run("recurring_failures", "--store", str(tmp_path))
    assert result.exit_code == 2
    assert "is not a store" in result.stderr
    assert "--store" in run("recurring_failures").stderr


def test_rows_come_as_table_json_and_csv(folder: Path) -> None:
    """People read tables, and programs read the other two, with the same rows."""
    sql = """
        SELECT task, count(*) AS turns, [1, 2] AS list, 'a,"b"' AS text, NULL AS nothing,
            'NaN'::DOUBLE AS nan, day
        FROM turns GROUP BY task, day ORDER BY task LIMIT 2
    """
    told = {form: run("--sql", sql, "--store", str(folder), "--format", form) for form in FORMS}
    assert [result.exit_code for result in told.values()] == [0, 0, 0]
    assert all(word in told["table"].output for word in ("task", "fine-1", "fine-2", 'a,"b"'))
    expected = {"task": "fine-1", "turns": 8, "list": [1, 2], "text": 'a,"b"', "nothing": None}
    assert json.loads(told["json"].output)[0] == {**expected, "nan": None, "day": "2026-03-02"}
    header, first, second = csv.reader(io.StringIO(told["csv"].output))
    assert header == ["task", "turns", "list", "text", "nothing", "nan", "day"]
    assert first == ["fine-1", "8", "[1, 2]", 'a,"b"', "", "nan", "2026-03-02"]
    assert second[0] == "fine-2"
    nothing = run("--sql", "FROM turns LIMIT 0", "--store", str(folder), "--format", "json")
    assert json.loads(nothing.output) == []


FORMS = ("table", "json", "csv")


def test_a_long_table_is_cut_and_says_so(folder: Path) -> None:
    """Nobody reads a terminal that scrolls for a minute, and silence about a cut would mislead."""
    sql = ["--sql", "SELECT range AS n FROM range(1001)", "--store", str(folder)]
    table, whole = run(*sql), run(*sql, "--format", "csv")
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
