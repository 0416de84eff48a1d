"""Calls that are open: a hang is found while it lasts, in the process and at a server."""

import json
import time

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import Span, TracerProvider

from looptrace import semconv
from looptrace.collector import LoopSpanProcessor
from looptrace.collector.sdk.agent_gate import GateState
from looptrace.collector.sdk.open_spans import OpenSpans
from looptrace.collector.sdk.processor import QueueLimits
from looptrace.rules.vocabulary import NS_PER_S
from tests.otlp import tool_call
from tests.reliability.serving import until

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "fixer"}
WAIT_S = 60.0
SETTINGS = {"rules": {"hang": {"limit_s": 120, "first_s": 600}, "silent_agent": {"limit_s": 300}}}
MODEL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


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
        attributes = tool_call(tool, arguments)
        return self.begin(f"execute_tool {tool}", attributes, ago_s, parent or self.agent)

    def answered(self, tool: str, arguments: str, ago_s: int) -> None:
        """Make a call that took a second."""
        span = self.call(tool, arguments, ago_s)
        span.set_attribute("gen_ai.tool.call.result", f"text of {arguments}")
        span.end(self.now_ns - (ago_s - 1) * NS_PER_S)

    def asked(self, tool: str, ago_s: int) -> None:
        """Make a request to the model, which asked for a call within a second."""
        call = {"type": "tool_call", "id": "c1", "name": tool, "arguments": {"path": "a"}}
        span = self.begin("chat m", MODEL, ago_s, self.agent)
        message = {"role": "assistant", "parts": [call]}
        span.set_attribute("gen_ai.output.messages", json.dumps([message]))
        span.end(self.now_ns - (ago_s - 1) * NS_PER_S)


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
    inner = (
        run.begin("chat m", MODEL, 5, outer)
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


def test_a_request_to_the_model_that_hangs_is_told_of_while_it_lasts() -> None:
    """A span of a model that says nothing is no turn; the copy of an open one has to be."""
    run, processor, told = watched(0.05)
    run.begin("chat m", MODEL, 700, run.agent)

    until(lambda: bool(told))

    assert [(state.rule, state.action) for state in told] == [("hang", "warn")]
    assert "a request to the model had no answer" in str(told[0].directive)
    processor.shutdown()


def test_an_agent_that_does_nothing_after_a_result_is_told_of() -> None:
    """No call is open, and no span ends: only the open agent shows that the run has not ended."""
    run, processor, told = watched(0.05)
    run.asked("read", 402)
    run.answered("read", "a", 401)

    until(lambda: bool(told))

    assert [(state.rule, state.action) for state in told] == [("silent_agent", "warn")]
    assert "nothing happened for long after the last call" in str(told[0].directive)
    processor.shutdown()


@pytest.mark.parametrize("last", ["answer", "asked", "person", "ended"])
def test_an_agent_that_may_wait_for_a_person_is_not_silent(last: str) -> None:
    """A person may read an answer, approve a call, or be asked; and an agent that ended is well."""
    run, processor, told = watched(0.01)
    run.answered("read", "a", 1000)
    if last == "answer":
        span = run.begin(
            "chat m", MODEL | {"gen_ai.response.finish_reasons": "stop"}, 900, run.agent
        )
        said = [{"role": "assistant", "parts": [{"type": "text", "content": "Which one?"}]}]
        span.set_attribute("gen_ai.output.messages", json.dumps(said))
        span.end(run.now_ns - 899 * NS_PER_S)
    elif last == "asked":
        run.asked("deploy", 900)
    elif last == "person":
        run.call("ask_user", "Which one?", 900)
    else:
        run.agent.end(run.now_ns - 998 * NS_PER_S)

    until(lambda: processor.counts.taken > 4 or (last == "ended" and processor.force_flush()))

    assert not told
    processor.shutdown()


def test_a_silence_goes_from_the_turns_when_the_agent_goes_on() -> None:
    """Steps count towards limits; many short silences must not make a run look long."""
    provider, spans = TracerProvider(), OpenSpans(100)
    run = Run(provider)
    done = run.call("read", "a", 900)
    spans.add(run.agent)
    spans.add(done)
    assert spans.silent(run.now_ns, 60 * NS_PER_S) == []
    done.end(run.now_ns - 800 * NS_PER_S)
    spans.end(done)
    (silence,) = spans.silent(run.now_ns, 60 * NS_PER_S)
    spans.add(run.begin("chat m", MODEL, 0, run.agent))
    (over,) = spans.silent(run.now_ns + NS_PER_S, 60 * NS_PER_S)

    assert (silence.start_time, silence.end_time) == (done.end_time, run.now_ns)
    assert silence.parent == run.agent.context
    assert (silence.attributes or {})["gen_ai.request.model"] == semconv.SILENT
    assert over.context == silence.context
    assert over.attributes == {semconv.OPEN: True}
    assert (over.end_time or 0) > run.now_ns
    assert spans.silent(run.now_ns + NS_PER_S, 60 * NS_PER_S) == []


def test_an_agent_at_its_gate_is_not_silent() -> None:
    """It waits for a person, who has been told; a second loop would tell again."""
    run, processor, told = watched(0.05)
    for number in range(5):
        run.answered("read", "a", 2000 - number)
    until(lambda: bool(told) and told[-1].open)
    taken = processor.counts.taken
    until(lambda: processor.counts.taken > taken + 3)

    assert {state.rule for state in told if state.open} == {told[-1].rule}
    assert "silent_agent" not in {state.rule for state in told}
    processor.shutdown()
