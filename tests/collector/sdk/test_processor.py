"""In the agent's process: a loop is seen while it runs, and the agent feels nothing else."""

import gc
import json
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from typing import Any

import numpy as np
import polars as pl
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span, StatusCode

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.fields.dialect_table import SHIPPED
from looptrace.analyzer.gates.decisions import NOTE_CHARS_MAX, GateError
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector import LoopSpanProcessor
from looptrace.collector.otlp.sdk_spans import row_of, sdk_spans
from looptrace.collector.sdk import span_events
from looptrace.collector.sdk.agent_gate import GateOpenError, GateState, TaskCancelled
from looptrace.collector.sdk.processor import QueueLimits
from looptrace.collector.sdk.span_events import EVENTS_PER_TASK_AND_RULE_MAX
from tests.commands import ended
from tests.otlp import tool_call

requirement = pytest.mark.requirement
AGENT = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": "fixer",
    "gen_ai.conversation.id": "talk",
}
SOON = QueueLimits(delay_s=0.01)
WAIT_S = 60.0


class OddText(str):
    """A text that shows itself in another way, as some frameworks have them."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return a text that is not the value."""
        return "<text>"


class Level(IntEnum):
    """A number with a name."""

    LOW = 3


def test_values_of_subclasses_are_what_they_are_of() -> None:
    """The SDK keeps them as they are; one of them cost an agent all its spans, and the gate."""
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    values: dict[str, Any] = {
        "text": OddText("1 failed"),
        "number": Level.LOW,
        "share": np.float64(0.5),
        "texts": [OddText("a"), OddText("b")],
        "raw": b"caf\xc3\xa9",
        "flag": True,
        "parts": {"text": OddText("a")},
    }
    provider.get_tracer("tests").start_span("call", attributes=values).end()

    (span,) = memory.get_finished_spans()
    (row,) = sdk_spans([span]).iter_rows(named=True)
    assert json.loads(row["attributes"]) == {
        "text": "1 failed",
        "number": 3,
        "share": 0.5,
        "texts": ["a", "b"],
        "raw": "café",
        "flag": True,
        "parts": {"text": "a"},
    }


class Setup:
    """A tracer provider with the processor and, after it, an exporter into memory."""

    def __init__(self, processor: LoopSpanProcessor) -> None:
        self.memory = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.processor = processor.use(self.provider)
        self.provider.add_span_processor(SimpleSpanProcessor(self.memory))
        self.tracer = self.provider.get_tracer("tests")

    def call(self, tool: str = "run_tests", arguments: object = "a.py") -> None:
        """Make one call of a tool, which shows what it ever shows."""
        attributes = tool_call(tool, json.dumps({"path": arguments}), result="total: 41")
        self.tracer.start_span(f"execute_tool {tool}", attributes=attributes).end()

    def loop(self, calls: int = 5) -> None:
        """Make the same call again and again, until each was judged."""
        for _ in range(calls):
            self.call()
        self.processor.force_flush()


@pytest.fixture
def local() -> Iterator[Setup]:
    """Set up judging in this process."""
    setup = Setup(LoopSpanProcessor.local(limits=SOON))
    yield setup
    setup.provider.shutdown()


def actions(span: Span | ReadableSpan) -> list[object]:
    """Return the actions that a span's events carry."""
    assert isinstance(span, ReadableSpan)
    return [(event.attributes or {}).get("looptrace.action") for event in span.events]


@requirement("F1")
@requirement("F3")
@requirement("D4")
def test_a_looping_agent_stops_at_its_gate(local: Setup) -> None:
    """The gate opens while the agent runs, and its live span carries the event."""
    with local.tracer.start_as_current_span("agent", attributes=AGENT) as agent:
        gate, calls = local.processor.gate("talk"), 0
        while calls < 50 and not gate.check().open:
            local.call()
            calls += 1
            local.processor.force_flush()
        with pytest.raises(GateOpenError, match="A person has to decide"):
            gate.raise_if_open()
        assert calls == 4
        assert actions(agent) == ["warn", "gate"]
    (finished,) = [span for span in local.memory.get_finished_spans() if span.name == "agent"]
    assert {event.name for event in finished.events} == {"looptrace.gate"}


@requirement("F2")
def test_what_is_told_live_is_what_batch_tells(local: Setup) -> None:
    """The same spans, analysed after the end, bring the same events."""
    told: list[GateState] = []
    local.processor.on_gate(told.append)
    with local.tracer.start_as_current_span("agent", attributes=AGENT):
        for n in range(40):
            local.call(arguments="same" if n % 10 else n)
            if n % 3 == 0:
                local.processor.force_flush()
    local.processor.force_flush()
    rows = [row_of(span) for span in local.memory.get_finished_spans()]
    turns, _ = turns_of(pl.DataFrame(rows, SPAN_SCHEMA, orient="row"))

    assert [state.event for state in told] == [event.id for event in detect(turns).events]
    assert told


def test_half_of_a_character_costs_nothing(local: Setup) -> None:
    """Agents cut texts; what is left of a character cannot be encoded, in names or in values."""
    half = "\ud83d"
    with local.tracer.start_as_current_span(f"agent {half}", attributes=AGENT):
        for _ in range(8):
            attributes = tool_call("ls", result=f"boom {half}") | {f"note {half}": [half]}
            with local.tracer.start_as_current_span(f"ls {half}", attributes=attributes) as span:
                span.set_status(StatusCode.ERROR, f"bad {half}")
                span.add_event(half, {half: half})
            local.processor.force_flush()
        assert local.processor.gate().check().open
    assert not local.processor.counts.dropped


def test_a_gate_without_a_name_is_that_of_the_trace(local: Setup) -> None:
    """An author need not know by which name the task goes."""
    with local.tracer.start_as_current_span("agent", attributes=AGENT):
        gate = local.processor.gate()
        local.loop()

        assert gate.check().open
        assert gate.check().task == "talk"


@requirement("A5")
def test_the_author_resolves_a_gate(local: Setup) -> None:
    """The task goes on, and the loop must occur again before there is another gate."""
    with local.tracer.start_as_current_span("agent", attributes=AGENT):
        gate = local.processor.gate("talk")
        local.loop()
        assert gate.check().open
        threading.Timer(0.2, gate.resolve, kwargs={"note": "Use b.py."}).start()

        assert gate.wait(WAIT_S)
        local.loop(3)
        assert not gate.check().open
        local.loop(1)
        assert gate.check().open


@requirement("A18")
def test_a_decision_is_what_the_agent_goes_on_with(local: Setup) -> None:
    """The note of a decision reaches the agent, however soon counts begin again."""
    with local.tracer.start_as_current_span("agent", attributes=AGENT) as agent:
        gate = local.processor.gate("talk")
        local.loop()
        assert gate.check().decision is None
        gate.resolve("continue", "Use b.py.")

        state = gate.raise_if_open()
        assert (state.decision, state.note, state.open) == ("continue", "Use b.py.", False)
        assert "task talk goes on" in (state.directive or "")
        assert (state.directive or "").endswith("Use b.py.")
        assert isinstance(agent, ReadableSpan)
        resolved = [dict(event.attributes or {}) for event in agent.events][2]
        assert (resolved["looptrace.decision"], resolved["looptrace.note"]) == (
            "continue",
            "Use b.py.",
        )
        local.loop(3)
        assert gate.check().action == "warn"


@requirement("A18")
def test_a_cancelled_task_ends_with_an_error_of_its_own(local: Setup) -> None:
    """An agent that only waits until it may go on must not take a cancellation for that."""
    with local.tracer.start_as_current_span("agent", attributes=AGENT):
        gate = local.processor.gate("talk")
        local.loop()
        note = "No longer needed, and password=hunter22 is out."
        threading.Timer(0.1, gate.resolve, args=("cancel", note)).start()

        with pytest.raises(TaskCancelled, match=r"No longer needed, .* is out\.$") as raised:
            gate.wait(WAIT_S)
        assert raised.value.state.decision == "cancel"
        assert "hunter22" not in str(raised.value)
        local.loop(3)
        with pytest.raises(TaskCancelled):
            gate.raise_if_open()


@requirement("A18")
def test_a_decision_that_is_none_is_refused(local: Setup) -> None:
    """An unknown word would resolve the gate as if it were a decision."""
    with local.tracer.start_as_current_span("agent", attributes=AGENT):
        gate = local.processor.gate("talk")
        local.loop()

        with pytest.raises(GateError, match="continue, reviewed, cancel, not_a_loop"):
            gate.resolve("banana")
        with pytest.raises(GateError, match="the note has more than"):
            gate.resolve("continue", "x" * (NOTE_CHARS_MAX + 1))
        assert gate.check().open


def test_an_event_needs_no_open_agent(local: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every span above is over, the event is a span of its own in the turn's trace."""
    # `instrument` sets the logger provider of a process for good, in whichever test comes first.
    monkeypatch.setattr(span_events, "get_logger_provider", lambda: None)
    local.call()
    with local.tracer.start_as_current_span("agent", attributes=AGENT) as agent:
        trace_id = agent.get_span_context().trace_id
        assert isinstance(agent, ReadableSpan)
        local.processor._spans.end(agent)
        for _ in range(5):
            local.call()
    local.processor.force_flush()
    own = [s for s in local.memory.get_finished_spans() if s.name == "looptrace.gate"]

    assert [(span.attributes or {})["looptrace.action"] for span in own] == ["warn", "gate"]
    assert {span.context.trace_id for span in own if span.context} == {trace_id}
    assert all(span.links for span in own)


def test_no_content_by_default(local: Setup) -> None:
    """What the agent did stays in its own spans."""
    with local.tracer.start_as_current_span("agent", attributes=AGENT) as agent:
        for _ in range(5):
            local.call(arguments="secret.py")
        local.processor.force_flush()
        assert isinstance(agent, ReadableSpan)
        assert actions(agent) == ["warn", "gate"]
        assert "secret" not in repr([dict(event.attributes or {}) for event in agent.events])


class Scripted:
    """An engine that does what a test wants: raise or hang."""

    dialects = SHIPPED

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.hold = threading.Event()
        self.hold.set()
        self.taken: list[ReadableSpan] = []
        self.closed = 0

    def start(self, notify: Callable[[list[GateNotice]], None]) -> None:
        """Write nothing."""

    def follow(self, **_names: object) -> None:
        """Follow nothing."""

    def take(
        self, spans: list[ReadableSpan], above: list[ReadableSpan], _logged: object = ()
    ) -> None:
        """Take spans as the test says."""
        del above
        self.hold.wait()
        if self.error:
            raise self.error
        self.taken += spans

    def resolve(self, state: GateState, decision: str, note: str | None) -> None:
        """Resolve nothing."""

    def open_gates(self, *_: object) -> list[GateNotice]:
        """Return none."""
        return []

    def waiting(self, _task: str) -> AbstractContextManager[None]:
        """Tell nobody."""
        return nullcontext()

    def close(self, timeout_s: float) -> None:
        """Count that."""
        del timeout_s
        self.closed += 1


def test_an_engine_that_fails_is_not_felt() -> None:
    """The agent's spans are exported as ever, the loss is counted, and a gate says so."""
    engine = Scripted()
    engine.error = RuntimeError("broken")
    setup = Setup(LoopSpanProcessor(engine, limits=SOON))
    for _ in range(100):
        setup.call()
    setup.processor.force_flush()

    assert len(setup.memory.get_finished_spans()) == 100
    assert setup.processor.counts.dropped["failed"] == 100
    assert setup.processor.gate("talk").raise_if_open().broken
    setup.provider.shutdown()


def test_an_engine_is_closed_once() -> None:
    """An author may end the processor, and the provider ends it again."""
    engine = Scripted()
    setup = Setup(LoopSpanProcessor(engine, limits=SOON))
    setup.processor.shutdown()
    setup.provider.shutdown()

    assert engine.closed == 1


def test_no_span_is_lost_between_threads() -> None:
    """Many threads end spans at once; each is taken exactly once."""
    engine = Scripted()
    setup = Setup(LoopSpanProcessor(engine, limits=QueueLimits(spans_max=100_000)))

    def work() -> None:
        for _ in range(100):
            setup.call()

    threads = [threading.Thread(target=work) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    setup.provider.shutdown()

    ids = [span.context.span_id for span in engine.taken if span.context]
    assert len(ids) == len(set(ids)) == 3_200
    assert setup.processor.counts.dropped == {}


def test_a_processor_that_nobody_holds_ends() -> None:
    """Its thread must not keep it alive."""
    processor = LoopSpanProcessor(Scripted(), limits=SOON)
    thread, gone = processor._queue._worker._thread, weakref.ref(processor)
    del processor
    gc.collect()
    thread.join(WAIT_S)

    assert gone() is None
    assert not thread.is_alive()


def test_a_span_keeps_room_for_the_agents_own_events() -> None:
    """A span holds 128 events and loses the oldest, so that a loop adds only a few."""
    setup = Setup(LoopSpanProcessor(Scripted(), limits=SOON))
    with setup.tracer.start_as_current_span("agent", attributes=AGENT) as agent:
        context = agent.get_span_context()
        trace_id, span_id = f"{context.trace_id:032x}", f"{context.span_id:016x}"
        about = ("loop_detected", "talk", trace_id, span_id)
        for number in range(500):
            setup.processor._notify([GateNotice(f"e{number}", *about, rule="r", action="warn")])
        assert actions(agent) == ["warn"] * EVENTS_PER_TASK_AND_RULE_MAX
    setup.provider.shutdown()


def test_a_failing_callback_is_the_authors(local: Setup) -> None:
    """The state is there all the same."""

    def fail(state: GateState) -> None:
        raise ValueError(state.task)

    local.processor.on_gate(fail)
    with local.tracer.start_as_current_span("agent", attributes=AGENT):
        local.loop()

    assert local.processor.gate("talk").check().open
    assert local.processor.counts.dropped == {}


FORKING = """
import os, sys
from tests.collector.sdk.test_processor import AGENT, SOON, Setup
from looptrace.collector import LoopSpanProcessor
setup = Setup(LoopSpanProcessor.local(limits=SOON))
if {used}:
    setup.call("before")
    setup.processor.force_flush()
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
with setup.tracer.start_as_current_span("agent", attributes=AGENT):
    for _ in range(5):
        setup.call()
    setup.processor.force_flush(10_000)
    state = setup.processor.gate("talk").check()
    os._exit(0 if (state.broken if {used} else state.open) else 9)
"""

# A forked process that ends as any other: it must not wait for an engine that is not there.
FORKED_END = """
import os, sys
from tests.collector.sdk.test_processor import SOON, Setup
from looptrace.collector import LoopSpanProcessor
setup = Setup(LoopSpanProcessor.local(limits=SOON))
setup.call("before")
setup.processor.force_flush()
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
setup.call()
"""

ENDING = """
from tests.collector.sdk.test_processor import SOON, Scripted, Setup
from looptrace.collector import LoopSpanProcessor
engine = Scripted()
engine.hold.clear()
setup = Setup(LoopSpanProcessor(engine, limits=SOON))
for _ in range(20_000):
    setup.call()
"""


@pytest.mark.parametrize(
    "script", [FORKING.format(used=False), FORKING.format(used=True), FORKED_END, ENDING]
)
def test_forks_and_ends(script: str) -> None:
    """A forked process judges on its own, or says that it cannot; a full queue ends in time."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = ended(sys.executable, "-c", script, env=env)

    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    if script in (FORKING.format(used=True), FORKED_END):
        assert "looptrace failed: this process was forked; create the proc" in done.stderr


def test_the_processor_alone_imports_no_engine() -> None:
    """What an agent's process needs is OpenTelemetry."""
    heavy = ("polars", "duckdb", "sklearn", "numpy", "msgspec", "jinja2", "click", "httpx")
    script = f"""
import sys
from looptrace.collector import LoopSpanProcessor
sys.exit(", ".join(name for name in {heavy} if name in sys.modules) or 0)
"""
    done = ended(sys.executable, "-c", script)

    assert (done.stderr.strip(), done.returncode) == ("", 0)


def test_what_is_missing_is_named() -> None:
    """Judging here needs more than OpenTelemetry, and the error says what to install."""
    script = """
import sys
sys.modules["polars"] = None
from looptrace.collector import LoopSpanProcessor
LoopSpanProcessor.local()
"""
    done = ended(sys.executable, "-c", script)

    assert "needs polars, which is not installed; install" in done.stderr.splitlines()[-1]
