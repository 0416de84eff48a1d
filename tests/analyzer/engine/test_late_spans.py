"""Spans that come later than live waits for them: their tasks are evaluated anew."""

import time
from pathlib import Path
from random import Random

import polars as pl
import pytest

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.live import Fed
from looptrace.analyzer.engine.live_spans import LiveSpans
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.collector.store.gates import GateStore
from tests.analyzer.engine.test_arrivals import FILES, batch_of
from tests.collector.store.stored import spans_of
from tests.otlp import Trace, tool_call
from tests.seeds import in_turn

# With pauses so many times as long, most spans come after the time that live waits for them.
SLOWER = 20


class Recorder:
    """A store of gates that is told what a live engine finds, as a server tells it."""

    def __init__(self, gates: GateStore) -> None:
        self.gates = gates
        self.live = LiveSpans(recall=gates.state)
        self.states: dict[str, TaskState] = {}
        self.opened: list[str] = []

    def take(self, spans: pl.DataFrame) -> None:
        """Take spans, and record what follows."""
        self._record(self.live.take(spans)[1])

    def mend(self) -> None:
        """Evaluate anew what came too late."""
        self._record(self.live.mend())

    def _record(self, fed: Fed) -> None:
        new = self.gates.record([*fed.moved, *fed.events], fed.states, time.time_ns(), fed.openings)
        self.opened += [event.gate for event in new if event.type == "gate_opened"]

    @property
    def open(self) -> set[tuple[str, str]]:
        """The open gates by now, each with its task."""
        return {(gate.id, gate.task) for gate in self.gates.gates("open")}


def slower(spans: pl.DataFrame) -> pl.DataFrame:
    """Return spans with longer pauses."""
    first_ns = spans["start_ns"].min()
    return spans.with_columns(
        ((pl.col(name) - first_ns) * SLOWER + first_ns).alias(name)
        for name in ("start_ns", "end_ns")
    )


def gates_in(spans: pl.DataFrame) -> set[tuple[str, str]]:
    """Return the gates that are open after all of these spans, each with its task."""
    states = detect(turns_of(spans)[0]).states
    return {(state.gate.id, state.task) for state in states if state.gate}


def one_agent(calls: int, *, separate: bool = False) -> pl.DataFrame:
    """Return the spans of an agent that loops, does other work, and loops; a trace or one each."""
    traces = [Trace("s1", name="0", at="2026-03-02T09:00:00+00:00")]
    for number in range(calls):
        if separate and number:
            at = f"2026-03-02T09:{number:02}:00+00:00"
            traces.append(Trace("s1", name=f"{number}", at=at))
        arguments = f'{{"part": {0 if number % 9 else number}}}'
        traces[-1].span(
            "build",
            status="error",
            message="no rule to make this",
            attributes=tool_call("build", arguments),
        )
    return spans_of(*traces)


CASES: dict[str, Path | pl.DataFrame] = {
    **{path.stem: path for path in FILES if "loop" in path.stem},
    "one agent": one_agent(40),
    "one agent, a trace for each call": one_agent(40, separate=True),
}


@pytest.mark.parametrize(("case", "seed"), in_turn(CASES, [(seed,) for seed in range(4)]))
def test_gates_are_those_of_all_spans_in_any_order(
    case: Path | pl.DataFrame, seed: int, tmp_path: Path
) -> None:
    """P4: a gate that is withdrawn because of late spans opens again where its loop stands."""
    spans = slower(batch_of(case)[0] if isinstance(case, Path) else case)
    if not (wanted := gates_in(spans)):
        return
    random = Random(seed)
    order = random.sample(range(spans.height), spans.height)
    with GateStore.open(tmp_path / "gates.db") as gates:
        recorder = Recorder(gates)
        for part in spans[order].iter_slices(random.choice((1, 3, 50))):
            recorder.take(part)
            if random.random() < 0.2:
                recorder.mend()
        recorder.mend()

        assert recorder.open == {(gates._id(gate), task) for gate, task in wanted}
        assert len(set(recorder.opened)) == len(recorder.opened)
        assert not recorder.live.engine.late_tasks


def test_nothing_is_mended_where_spans_are_gone() -> None:
    """Turns of which the buffer has lost spans stay as they were."""
    spans = slower(one_agent(2_100))  # More than are held of a trace.
    live = LiveSpans()
    live.take(spans[10:])
    before = live.engine.findings()
    live.take(spans[:10])

    assert live.engine.late
    assert live.mend() == Fed([], [], [])
    assert live.engine.findings() == before
