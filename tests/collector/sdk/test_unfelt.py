"""Whatever the engine does, the agent does what it would have done, and the loss is counted.

LOOPTRACE_SOAK_SPANS says how many spans an agent writes here; `make soak` asks for 100,000.
"""

import ctypes
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from looptrace.collector import LoopSpanProcessor
from looptrace.collector.sdk.agent_gate import GateOpenError
from looptrace.collector.sdk.processor import OPEN_SPANS_MAX, QueueLimits
from tests.collector.sdk.test_processor import Scripted
from tests.reliability.serving import until

requirement = pytest.mark.requirement
SPANS = int(os.environ.get("LOOPTRACE_SOAK_SPANS", "4000"))
CHECKS = 1_000
LIMITS = QueueLimits(spans_max=1_000, batch_max=100, delay_s=0.001)
FULL = QueueLimits(spans_max=5, batch_max=1, delay_s=0.001)
SHORT_MS, LONG_MS, MS_PER_S = 200, 20_000, 1_000
REASONS = {
    "raises": {"failed", "queue_full"},
    "panics": {"failed", "queue_full"},
    "hangs": {"queue_full", "closed"},
    "leaks": {"queue_full"},
}


class Panic(BaseException):
    """What Polars raises where it fails inside: no Exception."""


class Leaking(Scripted):
    """An engine that never lets go of a span."""

    def take(
        self, spans: list[ReadableSpan], above: list[ReadableSpan], _logged: object = ()
    ) -> None:
        """Keep all of them."""
        self.taken += [*spans, *above]


def raising(error: BaseException) -> Scripted:
    """Return an engine that fails with every batch."""
    engine = Scripted()
    engine.error = error
    return engine


class Hanging(Scripted):
    """An engine that is at its first batch until a test lets it go on."""

    def __init__(self) -> None:
        super().__init__()
        self.hold.clear()

    def take(
        self, spans: list[ReadableSpan], above: list[ReadableSpan], _logged: object = ()
    ) -> None:
        """Take the batch, and be at it."""
        del above
        self.taken += spans
        self.hold.wait()


ENGINES: dict[str, Callable[[], Scripted]] = {
    "raises": lambda: raising(RuntimeError("broken")),
    "panics": lambda: raising(Panic("broken")),
    "hangs": Hanging,
    "leaks": Leaking,
}


class Output(SpanExporter):
    """Keeps what is exported of spans, without their ids and times."""

    def __init__(self) -> None:
        self.spans: list[Any] = []

    def export(self, spans: Any) -> SpanExportResult:
        """Keep what a backend would get."""
        self.spans += [
            (s.name, s.status.status_code, dict(s.attributes or {}), s.events, s.links)
            for s in spans
        ]
        return SpanExportResult.SUCCESS


def work(processor: LoopSpanProcessor | None, spans: int) -> list[Any]:
    """Let an agent call a tool that mostly fails; returns what it did, and what was exported."""
    provider, output, said = TracerProvider(), Output(), []
    if processor is not None:
        processor.use(provider)
    provider.add_span_processor(SimpleSpanProcessor(output))
    tracer = provider.get_tracer("tests")
    with tracer.start_as_current_span("agent", attributes={"gen_ai.operation.name": "chat"}):
        for n in range(spans):
            with tracer.start_as_current_span("run_tests", attributes={"n": n % 7}) as span:
                said.append(f"{n % 7} failed")
                span.set_attribute("gen_ai.tool.call.result", said[-1])
    return [said, output.spans]


@pytest.fixture(scope="module")
def alone() -> list[Any]:
    """Return what the agent does without looptrace."""
    return work(None, SPANS)


@requirement("F1")
@pytest.mark.parametrize("name", ENGINES)
def test_the_agents_output_is_the_same(name: str, alone: list[Any]) -> None:
    """With an engine that raises, panics, hangs or leaks; each span is counted, and let go."""
    engine = ENGINES[name]()
    processor = LoopSpanProcessor(engine, limits=LIMITS)

    assert work(processor, SPANS) == alone
    assert processor.counts.waiting <= LIMITS.spans_max
    assert processor.force_flush(SHORT_MS if name == "hangs" else LONG_MS) == (name != "hangs")
    assert processor.gate("talk").check().broken == (name == "hangs" or engine.error is not None)

    processor.shutdown(timeout_millis=SHORT_MS if name == "hangs" else LONG_MS)
    engine.hold.set()
    processor._queue._worker._thread.join(LONG_MS / MS_PER_S)
    counts, noted = processor.counts, processor._spans
    assert counts.taken + sum(counts.dropped.values()) == SPANS + 1
    assert set(counts.dropped) <= REASONS[name]
    assert (counts.taken > 0) == (name in ("hangs", "leaks"))
    assert (counts.waiting, counts.errors, len(noted._open)) == (0, {}, 0)
    assert max(len(noted._parents), len(noted._traces)) <= OPEN_SPANS_MAX


@requirement("D4")
# A thread that is killed while it waits for a lock complains of that.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("fail_closed", [False, True])
@pytest.mark.parametrize("name", ["dead", "stuck", "full"])
def test_a_gate_answers_without_an_engine(name: str, fail_closed: bool) -> None:
    """Where the thread is dead, stuck or too slow, the agent goes on, or stops if it wants to."""
    engine = Hanging()
    limits = {"dead": LIMITS, "stuck": replace(LIMITS, stuck_s=0.01), "full": FULL}[name]
    processor = LoopSpanProcessor(engine, limits=limits, fail_closed=fail_closed)
    if name == "dead":
        end(processor._queue._worker._thread)
    else:
        work(processor, 1)
        until(lambda: bool(engine.taken))
    work(processor, 10)
    gate, stopped = processor.gate("talk"), 0
    until(lambda: gate.check().broken)
    for _ in range(CHECKS):
        try:
            gate.raise_if_open()
        except GateOpenError as error:
            stopped += "nobody knows whether its gate is open" in str(error)

    assert stopped == (CHECKS if fail_closed else 0)
    engine.hold.set()
    processor.shutdown(timeout_millis=SHORT_MS)


def end(thread: threading.Thread) -> None:
    """End a thread from outside, as nothing but the interpreter can."""
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
    )
    thread.join(LONG_MS / MS_PER_S)
    assert not thread.is_alive()
