"""What is recorded by hand becomes the turns that it says it is."""

import asyncio
from collections.abc import Iterator

import polars as pl
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.otlp.sdk_spans import row_of
from looptrace.collector.sdk.recording import (
    agent,
    attempt,
    handoff,
    intervened,
    iteration,
    phase,
    progress,
    turn,
)

requirement = pytest.mark.requirement


@pytest.fixture(scope="module")
def provider() -> Iterator[TracerProvider]:
    """Be the provider of this process, which other tests may have set before."""
    found = TracerProvider()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "_TRACER_PROVIDER", found)
        yield found


@pytest.fixture
def memory(provider: TracerProvider) -> Iterator[InMemorySpanExporter]:
    """Keep what is recorded by one test."""
    exporter = InMemorySpanExporter()
    processor = SimpleSpanProcessor(exporter)
    provider.add_span_processor(processor)
    yield exporter
    processor.shutdown()


def turns(memory: InMemorySpanExporter) -> pl.DataFrame:
    """Return the turns of what was recorded so far."""
    rows = [row_of(span) for span in memory.get_finished_spans()]
    return turns_of(pl.DataFrame(rows, SPAN_SCHEMA, orient="row"))[0]


def test_a_turn_has_arguments_and_result(memory: InMemorySpanExporter) -> None:
    """The turn belongs to the phase and the agent around it."""
    with agent("fixer", session="talk"), phase("fix"), turn("edit", {"path": "a.py"}) as call:
        call.result = {"changed": 3}
    (row,) = turns(memory).iter_rows(named=True)

    assert (row["kind"], row["name"], row["agent"], row["phase"]) == (
        "tool",
        "edit",
        "fixer",
        "fix",
    )
    assert (row["arguments"], row["result"]) == ('{"path":"a.py"}', '{"changed":3}')
    assert row["task"] == "talk"


def test_an_error_is_recorded_and_goes_on(memory: InMemorySpanExporter) -> None:
    """The author's own handling of errors stays as it was."""
    with pytest.raises(KeyError), turn("load", {"path": "a.csv"}):
        raise KeyError("email")
    (row,) = turns(memory).iter_rows(named=True)

    assert row["failed"]
    assert row["error_type"] == "KeyError"


def test_functions_are_decorated(memory: InMemorySpanExporter) -> None:
    """Each call is a turn, of a function and of a coroutine."""

    @turn("add")
    def add(first: int, second: int) -> int:
        return first + second

    @turn("wait")
    async def wait() -> str:
        await asyncio.sleep(0)
        return "done"

    with agent("adder", session="talk"):
        assert [add(1, 2), add(2, 3)] == [3, 5]
        assert asyncio.run(wait()) == "done"
    found = turns(memory).select("name", "result").rows()

    assert found == [("add", "3"), ("add", "5"), ("wait", "done")]


@requirement("B1")
def test_an_attempt_says_how_far_the_task_came(memory: InMemorySpanExporter) -> None:
    """Task, time, status, blockers, completed work, session."""

    async def run() -> None:
        async with agent("fixer", session="talk"), attempt("page", parent="site") as tried:
            tried.status, tried.blockers = "blocked", ("key", "rights")
            tried.completed_work = "form"

    asyncio.run(run())
    (row,) = turns(memory).filter(pl.col("kind") == "attempt").iter_rows(named=True)

    assert (row["task"], row["subtask"], row["session"]) == ("site", "page", "talk")
    assert (row["name"], row["result"]) == ("blocked", "form")
    assert row["arguments"] == '["key","rights"]'
    assert row["end_ns"] > 0


def test_a_wrong_status_is_an_error() -> None:
    """A typing mistake must not go unseen."""
    with (
        pytest.raises(ValueError, match="'finished'; it must be one of pending"),
        attempt("a") as a,
    ):
        a.status = "finished"


@requirement("A7")
def test_progress_is_a_turn(memory: InMemorySpanExporter) -> None:
    """Figures alone are recorded, too, and an unknown one is an error."""
    progress(tests_failed=2, coverage=71.5)
    (row,) = turns(memory).iter_rows(named=True)

    assert (row["kind"], row["tests_failed"], row["coverage"]) == ("progress", 2, 71.5)
    with pytest.raises(TypeError, match="there is no figure test_failed"):
        progress(test_failed=2)


def test_metrics_of_ones_own_and_iterations_are_recorded(memory: InMemorySpanExporter) -> None:
    """A turn knows its iteration, and figures have any name."""
    with agent("trainer"):
        for number in (1, 2):
            with iteration(number), turn("train"):
                progress(metrics={"loss": 0.5, "f1": 0.25})
    found = turns(memory)

    assert found.filter(kind="tool")["iteration"].to_list() == ["1", "2"]
    assert found.filter(kind="progress")["metrics"].to_list() == ['{"f1":0.25,"loss":0.5}'] * 2


def test_a_phase_entered_anew_begins_anew(memory: InMemorySpanExporter) -> None:
    """Calls within a phase share its beginning; the next time it is another visit."""
    with agent("tester"):
        for calls in (2, 1):
            with phase("test"):
                for _ in range(calls):
                    with turn("run"):
                        pass
    first, second, third = turns(memory)["phase_start_ns"]

    assert first == second < third


@requirement("A12")
def test_a_request_handed_on_again_and_again_is_a_loop(memory: InMemorySpanExporter) -> None:
    """The fourth similar request opens the gate."""
    with agent("coder", session="talk"):
        for _ in range(4):
            with turn("note"):
                pass
            with handoff("reviewer", "Can you review this?"), turn("read"):
                pass
    judged = detect(turns(memory))

    assert "collaboration_loop" in {finding.rule for finding in judged.findings}


@requirement("A5")
def test_a_person_steps_in(memory: InMemorySpanExporter) -> None:
    """It is recorded where the agent is just now."""
    with agent("coder", session="talk"):
        with turn("run"):
            pass
        intervened("reviewed", "Use the other key.")
        with turn("run"):
            pass

    assert turns(memory).select("kind", "name", "text").rows()[1] == (
        "user",
        "reviewed",
        "Use the other key.",
    )


def test_one_that_was_never_entered_cannot_be_left() -> None:
    """A mistake in using it is named."""
    with pytest.raises(RuntimeError, match="phase was left without being entered"):
        phase("fix").__exit__(None, None, None)
