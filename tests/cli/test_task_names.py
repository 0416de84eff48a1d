"""A task is named as a person reads it: by its id, or by that of its session."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import looptrace
from looptrace.analyzer.settings.sections import default
from looptrace.analyzer.text.session_names import SeveralServicesError
from looptrace.analyzer.text.task_lookup import NoTaskError
from looptrace.collector.store import writer
from tests.collector.store.stored import call, spans_of
from tests.commands import run
from tests.otlp import Trace

ONCE, TWICE, NONE = "night", "desk", "nigth"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with a session of one service, and one that two services have."""
    folder = tmp_path_factory.mktemp("names") / "store"
    traces = []
    for session, service in ((ONCE, "jobs"), (TWICE, "a"), (TWICE, "b")):
        trace = Trace(session, service=service, name=service)
        for _ in range(5):
            call(trace, {})
        traces.append(trace)
    writer.ingest(spans_of(*traces), folder)
    return folder


def command(*words: str) -> Callable[[Path, str], str]:
    """Return a function that runs a command for a task, and raises its error."""

    def ask(store: Path, task: str) -> str:
        filled = [word.format(store=store, task=task) for word in words]
        done = run(*filled)
        if done.exit_code:
            assert done.exit_code == 2
            is_several = "several services" in done.stderr
            raise (SeveralServicesError if is_several else NoTaskError)(done.stderr)
        return done.stdout

    return ask


def tool(name: str) -> Callable[[Path, str], str]:
    """Return a function that calls a tool of `looptrace mcp` for a task."""

    def ask(store: Path, task: str) -> str:
        # Importing it takes seconds, also where other tests are collected.
        from looptrace.collector.mcp_server import _Tools  # noqa: PLC0415

        return str(getattr(_Tools(store, default()), name)(task))

    return ask


WAYS: dict[str, Callable[[Path, str], str]] = {
    "query": command("query", "turns_of_task", "--store", "{store}", "--param", "task={task}"),
    "explain": command("explain", "{store}", "--task", "{task}", "--format", "json"),
    "escalation": command("escalation", "{store}", "--task", "{task}"),
    "loops": tool("loops"),
    "why": tool("why"),
    "task": lambda store, task: json.dumps(len(looptrace.open(store).task(task).turns)),
    "frame": lambda store, task: str(looptrace.open(store).query("turns_of_task", task=task)),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_task_is_named_by_its_session(way: Callable[[Path, str], str], store: Path) -> None:
    """Reports show `night@jobs`, and whoever runs the agent knows it as `night`."""
    whole = way(store, f"{ONCE}@jobs")
    assert len(whole) > 0
    assert way(store, ONCE) == whole
    assert way(store, f"{TWICE}@b") != ""


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_several_tasks_of_a_name_are_named(way: Callable[[Path, str], str], store: Path) -> None:
    """Whoever gets this copies one of them."""
    with pytest.raises(SeveralServicesError, match=f"{TWICE}@a, {TWICE}@b"):
        way(store, TWICE)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_name_that_no_task_has_is_an_error(way: Callable[[Path, str], str], store: Path) -> None:
    """An empty answer would look like a task without turns."""
    with pytest.raises(NoTaskError, match=f"no gate of task '{NONE}'|no task '{NONE}'"):
        way(store, NONE)


def test_a_task_is_named_by_its_session_in_several_stores(store: Path, tmp_path: Path) -> None:
    """It is in one of them."""
    other = tmp_path / "other"
    trace = Trace("else", service="jobs")
    call(trace, {})
    writer.ingest(spans_of(trace), other)
    words = ("query", "turns_of_task", "--store", "{store}", "--param", "task={task}")
    alone = command(*words)(store, ONCE)
    assert command(*words, "--store", str(other))(store, ONCE) == alone != ""
