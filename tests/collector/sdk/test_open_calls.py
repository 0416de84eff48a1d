"""Calls that are open: a hang is found while it lasts, in the process and at a server."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import Span, TracerProvider

from looptrace import semconv
from looptrace.collector import LoopSpanProcessor
from looptrace.collector.sdk.agent_gate import GateState
from looptrace.collector.sdk.open_spans import OpenSpans
from looptrace.collector.sdk.processor import QueueLimits
from looptrace.rules.vocabulary import NS_PER_S

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "fixer"}
WAIT_S = 60.0
SETTINGS = {"rules": {"hang": {"limit_s": 120, "first_s": 600}}}


class Run:
    """An agent's run that began an hour ago."""

    def __init__(self, provider: TracerProvider) -> None:
        self.tracer = provider.get_tracer("tests")
        self.now_ns = time.time_ns()
        self.agent = self.begin("fixer", AGENT, 3600)

    def begin(
        self, name: str, attributes: dict[str, str], ago_s: int, parent: Span | None = None
    ) -> Span:
        """Begin a span so many seconds ago."""
        span = self.tracer.start_span(
            name,
            context=trace.set_span_in_context(parent) if parent else None,
            attributes=attributes,
            start_time=self.now_ns - ago_s * NS_PER_S,
        )
        assert isinstance(span, Span)
        return span

    def call(self, tool: str, arguments: str, ago_s: int, parent: Span | None = None) -> Span:
        """Begin a call so many seconds ago."""
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.arguments": arguments,
        }
        return self.begin(f"execute_tool {tool}", attributes, ago_s, parent or self.agent)

    def answered(self, tool: str, arguments: str, ago_s: int) -> None:
        """Make a call that took a second."""
        span = self.call(tool, arguments, ago_s)
        span.set_attribute("gen_ai.tool.call.result", f"text of {arguments}")
        span.end(self.now_ns - (ago_s - 1) * NS_PER_S)


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def watched(report_s: float) -> tuple[Run, LoopSpanProcessor, list[GateState]]:
    """Return a run, the processor that watches it, and what it told."""
    provider, told = TracerProvider(), list[GateState]()
    limits = QueueLimits(delay_s=0.01, report_s=report_s)
    processor = LoopSpanProcessor.local(SETTINGS, limits=limits).use(provider)
    processor.on_gate(told.append)
    return Run(provider), processor, told


def test_a_call_that_hangs_is_told_of_while_it_lasts() -> None:
    """An agent that waits for its tool makes no span, so nothing else would ever say so."""
    run, processor, told = watched(0.05)
    for number in range(3):
        run.answered("read", f"a{number}", 300 - number)
    run.call("read", "b", 200)

    until(lambda: bool(told))

    assert [(state.rule, state.action) for state in told] == [("hang", "warn")]
    assert "read had no answer" in str(told[0].directive)
    processor.shutdown()


def test_a_gate_outlasts_the_answer_and_a_person_resolves_it() -> None:
    """People were told of it; an agent whose gate is gone on one side alone would stop for ever."""
    run, processor, told = watched(0.05)
    for number in range(3):
        run.answered("read", f"a{number}", 900 - number)
    call = run.call("read", "b", 800)
    until(lambda: bool(told) and told[-1].open)
    call.set_attribute("gen_ai.tool.call.result", "late")
    call.end()
    run.answered("read", "c", 0)
    processor.force_flush()

    gate = processor.gate(told[-1].task)
    assert gate.check().open
    gate.resolve("continue")
    assert not gate.check().open
    processor.shutdown()


def test_a_call_of_a_few_minutes_is_not_told_of() -> None:
    """A tool without a history may take as long as it is allowed."""
    run, processor, told = watched(0.01)
    run.call("build", "all", 500)

    until(lambda: processor.counts.taken > 3)

    assert not told
    processor.shutdown()


@pytest.mark.parametrize("below", ["model", "person"])
def test_a_call_is_at_work_while_something_is_open_below_it(below: str) -> None:
    """A tool that runs another agent is as slow as that agent; a person may take a night."""
    provider, spans = TracerProvider(), OpenSpans(100)
    run = Run(provider)
    outer = run.call("ask_colleague", "x", 900)
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    inner = (
        run.begin("chat m", attributes, 5, outer)
        if below == "model"
        else run.begin("tool.blocked_on_user", {}, 5, outer)
    )
    for span in (run.agent, outer, inner):
        spans.add(span)

    assert spans.unanswered(run.now_ns, 60 * NS_PER_S) == []
    spans.end(inner)
    (copy,) = spans.unanswered(run.now_ns, 60 * NS_PER_S)

    assert copy.context == outer.context
    assert copy.attributes is not None
    assert copy.attributes[semconv.OPEN] is True
    assert copy.end_time == run.now_ns
    assert outer.end_time is None
