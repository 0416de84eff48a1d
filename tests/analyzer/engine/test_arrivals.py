"""Spans that arrive piece by piece lead to the findings and events of batch, each event once."""

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.engine.batch import Detection, detect
from looptrace.analyzer.engine.live_spans import LiveSpans
from looptrace.analyzer.engine.live_task import LATENESS_S
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.collector.files.reader import read_spans
from looptrace.rules.vocabulary import NS_PER_S
from tests.analyzer.normalize.test_agent_runs import cases, spans_of_case
from tests.collector.store.stored import spans_of
from tests.drivers import resting
from tests.otlp import Trace
from tests.paths import ROOT, SHARED
from tests.seeds import in_turn, seeds, turn_of

# What a live engine cannot know: that progress belongs to a task whose name comes last of all.
EARLY = {"looptrace-own-ok"}
EXAMPLES, OWN_TRACES, DIALECTS = (
    ROOT / name for name in ("examples/traces", "tests/framework_traces", "tests/dialects")
)
FILES = [
    path
    for folder in (EXAMPLES, OWN_TRACES, DIALECTS, SHARED / "frameworks")
    for path in sorted(folder.glob("*.json*")) + sorted(folder.glob("*.binpb"))
]
# Files of public cases, as their makers wrote them; their folders also say what is right of them.
CASES = [path for path in sorted((SHARED / "cases").glob("*/*.*")) if path.name != "want.json"]


SIZES = [1, 7, 512]
ORDERS = list(product(range(4), SIZES[:2]))  # a seed, and how many spans arrive at once


# In which order the spans of a file arrive; each day each file has one of them.
BY_ENDS, AT_RANDOM, BACKWARDS = range(3)


def named(paths: list[Path], order: int) -> dict[str, Path]:
    """Return the paths with this order today, by the names of their tests."""
    return {
        f"{path.parent.name}-{path.name}": path
        for place, path in enumerate(paths)
        if order in turn_of(place, range(3))
    }


@dataclass(frozen=True, slots=True)
class Arrived:
    """What was told of spans that arrived: events as they came, those moved, and the outcome."""

    events: list[GateEvent]
    moved: list[GateEvent]
    findings: list[Finding]
    states: dict[str, TaskState]  # the last of each task

    @property
    def ids(self) -> list[str]:
        """The ids of the events."""
        return [event.id for event in self.events]


def arrived(spans: pl.DataFrame, size: int) -> Arrived:
    """Feed spans in their order."""
    live = LiveSpans()
    with resting(at_once=size == SIZES[1]):
        parts = [live.take(part) for part in spans.iter_slices(size)]
    fed = [fed for _, fed in [*parts, live.rest()]]
    return Arrived(
        [event for each in fed for event in each.events],
        [event for each in fed for event in each.moved],
        live.engine.findings(),
        {state.task: state for each in fed for state in each.states},
    )


@lru_cache(maxsize=4)
def batch_of(path: Path) -> tuple[pl.DataFrame, Detection]:
    """Return the spans of a file as they end, and what is detected in them: once for all orders."""
    spans = read_spans([str(path)]).spans.sort("end_ns")
    return spans, detect(turns_of(spans)[0])


def in_order(spans: pl.DataFrame, places: Iterable[int]) -> pl.DataFrame:
    """Return spans in the order of these places, but none later than turns may move."""
    periods = pl.col("end_ns") // (LATENESS_S * NS_PER_S)
    return spans.sort(periods, pl.Series(list(places)))


def assert_comes_to_batch(
    spans: pl.DataFrame, size: int, whole: Detection | None = None
) -> tuple[Arrived, Detection]:
    """Assert that findings and states are those of all spans at once, and no event comes twice."""
    whole = whole or detect(turns_of(spans)[0])
    live = arrived(spans, size)
    assert live.findings == list(whole.findings)
    assert len(set(live.ids)) == len(live.ids)
    assert set(live.ids) >= {event.id for event in whole.events}
    gates = {state.task: state.gate for state in whole.states if state.gate}
    assert {task: state.gate for task, state in live.states.items() if state.gate} == gates
    return live, whole


def assert_live_is_batch(spans: pl.DataFrame, size: int, whole: Detection | None = None) -> None:
    """Assert that live says what batch says, and nothing else on the way."""
    live, whole = assert_comes_to_batch(spans, size, whole)
    assert sorted(live.ids) == sorted(event.id for event in whole.events)


@pytest.mark.parametrize(
    ("path", "size"), in_turn(named(FILES + CASES, BY_ENDS), [(size,) for size in SIZES])
)
def test_files_arrive_in_the_order_of_ends(path: Path, size: int) -> None:
    """Frameworks name agent and task on the span that ends last; its loop is one all the same."""
    spans, whole = batch_of(path)
    is_early = path.name.partition(".")[0] in EARLY
    (assert_comes_to_batch if is_early else assert_live_is_batch)(spans, size, whole)


@pytest.mark.parametrize("size", SIZES)
@cases
def test_runs_of_agents_arrive_in_the_order_of_ends(case: Any, size: int) -> None:
    """A person's message on an agent's span comes after all that the agent did."""
    assert_comes_to_batch(spans_of_case(case), size)


@pytest.mark.parametrize(("path", "seed", "size"), in_turn(named(FILES, AT_RANDOM), ORDERS))
def test_files_arrive_in_any_order(path: Path, seed: int, size: int) -> None:
    """What is told on the way may turn out otherwise; what is known in the end is what batch says.

    All of it comes within the time that spans may be late.
    """
    spans, whole = batch_of(path)
    places = random.Random(seed).sample(range(spans.height), spans.height)
    assert_comes_to_batch(in_order(spans, places), size, whole)


@pytest.mark.parametrize("path", in_turn(named(FILES + CASES, BACKWARDS), [()]))
def test_files_arrive_backwards(path: Path) -> None:
    """Each span comes before all that it goes on from, and after all that lies within it."""
    spans, whole = batch_of(path)
    assert_comes_to_batch(in_order(spans, range(spans.height, 0, -1)), 7, whole)


def test_what_moves_is_told_once() -> None:
    """The agent's own span ends last and names the session: the events keep their ids."""
    path = ROOT / "examples/traces/support_bot_same_answer_loop.jsonl"
    spans = read_spans([str(path)]).spans.sort("end_ns")
    live = arrived(spans, 1)

    assert live.moved
    assert {event.task for event in live.events} - {event.task for event in live.moved}
    assert {event.id for event in live.moved} <= set(live.ids)
    (session,) = {finding.task for finding in live.findings}
    assert {event.task for event in live.moved} == {session}


def separate(session: str, calls: int, *, link: bool = False) -> list[Trace]:
    """Return an agent whose model calls are traces of their own, and whose tools have no spans.

    A plain client that is instrumented writes that: results are only in the next call's history.
    """
    traces: list[Trace] = []
    history = [{"role": "user", "parts": [{"type": "text", "content": "Mend the build."}]}]
    for number in range(calls + 1):
        part = {"type": "tool_call", "id": f"c{number}", "name": "build", "arguments": {"t": "all"}}
        asks = {"role": "assistant", "parts": [part]}
        trace = Trace(
            session,
            name=str(number),
            at=f"2026-03-02T09:{number:02}:00+00:00",
            session_key=None if link else "gen_ai.conversation.id",
        )
        trace.span(
            "chat",
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": json.dumps(history),
                "gen_ai.output.messages": json.dumps([asks]),
            },
            links=[(traces[-1].trace_id, "00" * 8)] if link and traces else (),
        )
        result = {"type": "tool_call_response", "id": f"c{number}", "response": "error: no rule"}
        history += [asks, {"role": "tool", "parts": [result]}]
        traces.append(trace)
    return traces


@pytest.mark.parametrize("link", [False, True], ids=["session", "links"])
@pytest.mark.parametrize("size", [1, 3])
def test_a_session_of_many_traces_is_one_task(size: int, *, link: bool) -> None:
    """A result that a later trace shows belongs to a call of an earlier one, live as in batch."""
    spans = spans_of(*separate("s1", 8, link=link))
    whole = detect(turns_of(spans)[0])
    assert {finding.rule for finding in whole.findings} >= {"repeated_call"}
    assert_live_is_batch(spans, size)


@pytest.mark.parametrize("link", [False, True], ids=["session", "links"])
@pytest.mark.parametrize("seed", seeds(16))
def test_traces_of_sessions_come_in_any_order(seed: int, *, link: bool) -> None:
    """Exporters retry; what arrives a little late changes nothing in the end."""
    spans = spans_of(*separate("s1", 5, link=link), *separate("s2", 4)).sort("end_ns")
    places = list(range(spans.height))
    order = sorted(
        places, key=lambda place: place + random.Random(seed * 100 + place).uniform(0, 3)
    )
    assert_comes_to_batch(spans[order], 1)
