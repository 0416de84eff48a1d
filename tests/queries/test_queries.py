"""What each query that ships says of a store."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import duckdb
import pytest

from looptrace import queries
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.collector.store.sql.connection import ask, ask_each, ask_typed, connect
from looptrace.collector.store.tables.parquet import TABLES
from tests.otlp import Attributes
from tests.queries.stores import Tool, add, rows_of, trace, typed

requirement = pytest.mark.requirement


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


def test_a_share_of_nothing_has_no_bounds(tmp_path: Path) -> None:
    """Nobody knows whether a warning helped after which the run has no turn."""
    ends: list[Tool] = [("read_file", "a.py", None)] * 3
    store = add(tmp_path / "s", trace("ends", "2026-03-02T09:00:00+00:00", "coder", ends))
    rows = rows_of(store, "interventions")
    assert rows
    bounds = {(row["share"], row["share_min"], row["share_max"]) for row in rows}
    assert bounds == {(None, None, None)}


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
    tmp_path: Path, nothing: Path, folder: Path, table: str
) -> None:
    """SQL that was written for a full store must also run on a new one, and on both together."""
    late_buckets = shutil.copytree(folder, tmp_path / "late")
    for early in late_buckets.glob("*/day=*/bucket=0*"):
        shutil.rmtree(early)
    assert list(late_buckets.glob(f"{table}/*/*/*.parquet"))
    described = [typed(one, f"DESCRIBE {table}") for one in (nothing, folder, late_buckets)]
    assert described == [described[0]] * 3
    counting = f"SELECT count(*) FROM {table}"  # noqa: S608 - It is a constant.
    with ask_typed([nothing, folder], counting) as both:
        assert next(both.batches) == typed(folder, counting) != [(0,)]


@pytest.fixture(scope="module")
def connected() -> Iterator[Callable[[Path], duckdb.DuckDBPyConnection]]:
    """Return a function that connects to a store, once."""
    with ExitStack() as stack:
        yield cache(lambda folder: stack.enter_context(connect(folder)))


@pytest.mark.parametrize("name", queries.names())
def test_a_query_gives_what_its_header_says(
    nothing: Path,
    folder: Path,
    down: Path,
    pivoted: Path,
    decided: Path,
    connected: Callable[[Path], duckdb.DuckDBPyConnection],
    name: str,
) -> None:
    """The list of queries and the docs are made from the headers, and a store may be empty."""
    others = {"outages": down, "pivots": pivoted}
    others |= dict.fromkeys(("decisions_that_worked", "interventions", "outcomes"), decided)
    folder = others.get(name, folder)
    query = queries.load(name)
    values = {parameter.name: "stuck-1" for parameter in query.parameters}
    for folder_asked, empty in ((nothing, True), (folder, False)):
        connection = connected(folder_asked)
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
