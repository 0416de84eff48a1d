"""What an author says of tasks: sub-tasks, kinds, progress, and that a person stepped in."""

import json

import polars as pl
import pytest

from looptrace.analyzer.detect.counters import Counting, add_counters
from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.testing.notation import turns_in
from tests.analyzer.normalize.span_rows import SECOND, kind, span, tool, turns

requirement = pytest.mark.requirement
SESSION = {"gen_ai.conversation.id": "talk"}


def task(name: str, parent: str | None = None) -> dict[str, object]:
    """Give the attributes of a declared task."""
    above = {} if parent is None else {"looptrace.task.parent_id": parent}
    return {"looptrace.task.id": name, **above}


@requirement("A4")
def test_a_subtask_counts_with_its_root() -> None:
    """However deep it lies, and wherever the links between tasks stand."""
    rows = [
        span(1, tool() | task("root")),
        span(2, tool() | task("part", "root")),
        span(3, tool() | task("detail", "part")),
        span(4, tool() | task("part")),
    ]
    found = turns(rows)

    assert found["task"].to_list() == ["root"] * 4
    assert found["subtask"].to_list() == [None, "part", "detail", "part"]


def test_a_circle_of_tasks_has_one_name() -> None:
    """Whatever an author got wrong, each task still counts in one place."""
    rows = [span(1, tool() | task("b", "a")), span(2, tool() | task("a", "b"))]

    assert turns(rows)["task"].to_list() == ["a", "a"]
    assert turns([span(1, tool() | task("own", "own"))])["task"].to_list() == ["own"]


def test_a_kind_of_task_is_that_of_the_nearest_span_above() -> None:
    """An author declares it once, on the span of the task."""
    rows = [
        span(1, {"looptrace.task.kind": "documentation"}, start=0, end=9),
        span(2, tool(), parent=1),
        span(3, tool()),
    ]

    assert turns(rows)["task_kind"].to_list() == ["documentation", None]


@requirement("A7")
def test_recorded_progress_is_read() -> None:
    """On a tool's span it is the call's, on any other it is a turn of its own."""
    figures = {"tests_failed": 3, "tests_total": 9, "coverage": 71.5, "files_created": 2}
    said = {f"looptrace.progress.{name}": value for name, value in figures.items()}
    rows = [span(1, tool() | said), span(2, said | {"looptrace.progress.code_written": True})]
    found = turns(rows)

    assert found["kind"].to_list() == ["tool", "progress"]
    assert found["tests_failed"].to_list() == [3, 3]
    assert found["tests_total"].to_list() == [9, 9]
    assert found["coverage"].to_list() == [71.5, 71.5]
    assert found["markers"].to_list() == [2, 3]


@pytest.mark.parametrize("value", ["many", -1, 10**9 + 1, "1e400", {"a": 1}, "NaN"])
def test_a_figure_that_cannot_be_is_unknown(value: object) -> None:
    """A fault of what recorded it must not count as progress, or stop the analysis."""
    found = turns([span(1, tool() | {"looptrace.progress.tests_failed": value})])

    assert found["tests_failed"].to_list() == [None]


@requirement("A5")
def test_a_person_steps_in_by_an_event() -> None:
    """The event stands for a person's message at its own time, with decision and note."""
    said = {"looptrace.decision": "reviewed", "looptrace.note": "Use the other key."}
    event = {"name": "looptrace.human_intervention", "time_ns": 3 * SECOND, "attributes": said}
    agent = task("t")
    rows = [
        span(n, tool() | agent, status=2, status_message="AssertionError: boom")
        for n in (1, 2, 4, 5)
    ]
    person = span(9, agent, start=0, end=9, events=json.dumps([event]))
    found = turns([*rows, person])

    (message,) = kind(found, "user").iter_rows(named=True)
    assert (message["name"], message["text"]) == ("reviewed", "Use the other key.")
    assert message["end_ns"] == 3 * SECOND
    assert analyse(pl.DataFrame([*rows, person], SPAN_SCHEMA)).findings == ()
    assert analyse(pl.DataFrame(rows, SPAN_SCHEMA)).findings != ()


@requirement("B10")
def test_an_attempt_at_a_declared_task_is_also_a_turn_of_its_session() -> None:
    """There an agent that goes to and fro between tasks can be seen."""
    status = {"looptrace.task.status": "in_progress", **SESSION}
    rows = [span(1, status | task("a")), span(2, status | task("b")), span(3, status)]
    found = turns(rows)
    switches = kind(found, "switch")

    assert switches["task"].to_list() == ["talk", "talk"]
    assert switches["subtask"].to_list() == ["a", "b"]
    assert analyse(pl.DataFrame(rows, SPAN_SCHEMA)).summary.turns == 3


def resets(text: str) -> list[tuple[int, str | None]]:
    """Return the epoch of each turn, and the reset that it begins with."""
    rows = add_counters(turns_in(text), Counting())
    return rows.select("epoch", "reset").rows()


@requirement("A5")
def test_counts_begin_anew_for_a_reason() -> None:
    """At a person's message, after a completion, and after a day's pause."""
    found = resets(
        "run(a) attempt(done) run(a) user(Go.) run(a) ~86401 run(a) $s attempt(done) run(a)"
    )

    assert [epoch for epoch, _ in found] == [0, 0, 1, 2, 2, 3, 3, 3]
    assert [reason for _, reason in found] == [
        *(None, None, "completed", "person", None, "idle", None, None)
    ]


@requirement("A7")
def test_progress_is_a_new_best() -> None:
    """Of the same figures; the first ones are what others beat."""
    text = " ".join(
        f"progress({figures})"
        for figures in (
            *("tests_failed=5", "tests_failed=5", "tests_failed=3", "tests_failed=4"),
            *("tests_failed=2", "coverage=50", "coverage=49", "coverage=51", "markers=1"),
        )
    )
    rows = add_counters(turns_in(text), Counting())

    assert rows["improvements"].to_list() == [0, 0, 1, 1, 2, 2, 2, 3, 4]
