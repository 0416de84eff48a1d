"""Messages that instrumentations write as log records reach the engine of the agent's process."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

import polars as pl
import pytest
from opentelemetry import trace
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider

from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.distinct_spans import distinct_spans
from looptrace.collector import LoopSpanProcessor
from looptrace.collector.sdk.forward import log_exporter_to
from looptrace.collector.sdk.processor import QueueLimits
from tests.reliability.receivers import running

SOON = QueueLimits(delay_s=0.02)
Order = Literal["before", "after"]


class Agent:
    """An agent whose instrumentation writes spans without content, and log records with it."""

    def __init__(self, processor: LoopSpanProcessor) -> None:
        self.tracers, self.loggers = TracerProvider(), LoggerProvider()
        self.processor = processor.use(self.tracers, self.loggers)
        self.done: list[tuple[str, str]] = []  # arguments and results

    def ask(self, path: str, result: str, order: Order) -> None:
        """Ask the model once; its answer is a call, and it was given all before it."""
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "talk"}
        span = self.tracers.get_tracer("tests").start_span("chat", attributes=attributes)
        if order == "after":
            span.end()
        self._say(span, "gen_ai.user.message", {"content": "Mend it."})
        for number, (asked, gave) in enumerate(self.done):
            self._say(span, "gen_ai.assistant.message", {"tool_calls": [_call(number, asked)]})
            self._say(span, "gen_ai.tool.message", {"id": f"c{number}", "content": gave})
        message = {"role": "assistant", "tool_calls": [_call(len(self.done), path)]}
        self._say(span, "gen_ai.choice", {"finish_reason": "tool_calls", "message": message})
        self._say(span, "some.other.event", {"content": "x"})
        span.end()
        self.done.append((path, result))
        self.processor.force_flush()

    def _say(self, span: trace.Span, name: str, body: dict[str, Any]) -> None:
        context = trace.set_span_in_context(span)
        record = LogRecord(event_name=name, body=body, context=context)
        self.loggers.get_logger("tests").emit(record)


def _call(number: int, path: str) -> dict[str, Any]:
    function = {"name": "run_tests", "arguments": f'{{"path":"{path}"}}'}
    return {"id": f"c{number}", "type": "function", "function": function}


@contextmanager
def agent(processor: LoopSpanProcessor) -> Iterator[Agent]:
    """Yield an agent, and end it."""
    made = Agent(processor)
    try:
        yield made
    finally:
        made.loggers.shutdown()
        made.tracers.shutdown()


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_loop_in_log_records_opens_a_gate(order: Order) -> None:
    """An instrumentation writes them while its span is open, or once it has ended."""
    with agent(LoopSpanProcessor.local(limits=SOON)) as looping:
        gate = looping.processor.gate("talk")
        for number in range(6):
            assert gate.check().open == (number > 3)
            looping.ask("a.py", "1 failed", order)
        assert gate.check().open
        assert looping.processor.counts.errors == {}
    with agent(LoopSpanProcessor.local(limits=SOON)) as working:
        for number in range(6):
            working.ask(f"{number}.py", f"{number} failed", order)
        assert not working.processor.gate("talk").check().open


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_log_records_are_forwarded(protocol: Literal["http", "grpc"], order: Order) -> None:
    """A server gets what the agent's own engine would get, and no other record."""
    with running() as receiver:
        endpoint = receiver.http if protocol == "http" else f"http://{receiver.grpc}"
        processor = LoopSpanProcessor.forward(endpoint, protocol=protocol, gates="", limits=SOON)
        with agent(processor) as looping:
            for _ in range(3):
                looping.ask("a.py", "1 failed", order)
        spans, clashes = distinct_spans(receiver.sink.spans)

    assert (spans.height, clashes) == (3, [])
    calls = turns_of(spans)[0].filter(pl.col("kind") == "tool")
    assert calls["arguments"].to_list() == ['{"path":"a.py"}'] * 3
    assert calls["result"].to_list() == ["1 failed"] * 2 + [None]


def test_an_endpoint_without_logs_still_gets_spans(caplog: pytest.LogCaptureFixture) -> None:
    """One line says that they are missing there; the agent is watched all the same."""
    with running() as receiver:
        processor = LoopSpanProcessor.forward(receiver.http, gates="", limits=SOON)
        elsewhere = partial(log_exporter_to, f"{receiver.http}/elsewhere", "http", None)
        processor._engine._make_log_exporter = elsewhere  # type: ignore[attr-defined]
        with agent(processor) as looping:
            for _ in range(2):
                looping.ask("a.py", "1 failed", "before")
            assert not processor._queue.failing
        assert receiver.sink.spans.height == 2
    own = (record for record in caplog.records if record.name.startswith("looptrace.collector.sdk"))
    assert [record.getMessage().partition(" (")[0] for record in own] == [
        f"log records could not be sent to {receiver.http}"
    ]
