"""A set-up that watches nothing says so, once and with what to do."""

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, TracerProvider
from opentelemetry.trace import Tracer
from opentelemetry.util._once import Once

import looptrace
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.distinct_spans import whole_spans
from looptrace.analyzer.schema.spans import span_rows
from looptrace.collector import LoopSpanProcessor
from looptrace.collector.files.reader import read_spans
from looptrace.collector.sdk.open_spans import OpenSpans
from looptrace.collector.sdk.setup_check import SetupCheck
from tests import framework_table
from tests.otlp import tool_call
from tests.producers.recorder import TRACES
from tests.reliability.test_live_is_batch import sdk_span

WARNED = "looptrace.collector.sdk.setup_check"
Warned = Callable[[], list[str]]


@pytest.fixture
def processor() -> Iterator[LoopSpanProcessor]:
    """Make a processor that is in no provider yet."""
    made = LoopSpanProcessor.local()
    yield made
    made.shutdown()


def steps(processor: LoopSpanProcessor, task: str, count: int = 5) -> None:
    """Ask for the gate of a task before each of a few steps."""
    gate = processor.gate(task)
    for _ in range(count):
        gate.raise_if_open()


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Warned:
    """Return a function that says what was warned of."""
    return lambda: [record.getMessage() for record in caplog.records if record.name == WARNED]


def tracer_of(processor: LoopSpanProcessor, limits: SpanLimits | None = None) -> Tracer:
    """Return a tracer of a new provider, which has the processor."""
    provider = TracerProvider(span_limits=limits)
    processor.use(provider)
    return provider.get_tracer("acme")


def test_a_processor_that_no_span_reaches(processor: LoopSpanProcessor, warned: Warned) -> None:
    """It was never added to a provider, as the author forgot; the first steps say nothing yet."""
    steps(processor, "ticket-42", 2)
    assert warned() == []
    steps(processor, "ticket-42")
    steps(processor, "ticket-43")
    (warning,) = warned()
    assert "has seen no span of this process" in warning
    assert "use(provider)" in warning


def test_a_gate_that_is_not_called_as_the_spans_are(
    processor: LoopSpanProcessor, warned: Warned
) -> None:
    """The spans are of another task, which is named; the gate of that one is right."""
    tracer = tracer_of(processor)
    with tracer.start_as_current_span("chat", attributes={"session.id": "ticket-42"}) as span:
        own = trace.format_trace_id(span.get_span_context().trace_id)
    steps(processor, "ticket-42")
    steps(processor, own)
    assert warned() == []
    steps(processor, "ticket 42")
    (warning,) = warned()
    assert "belongs to the task 'ticket 42'" in warning
    assert "name ticket-42:" in warning


def test_a_task_that_only_an_open_span_names(processor: LoopSpanProcessor, warned: Warned) -> None:
    """An agent asks within its own span, which names the task, perhaps late, and ends last."""
    tracer = tracer_of(processor)
    with tracer.start_as_current_span("invoke_agent") as agent:
        agent.set_attribute("session.id", "ticket-42")
        for _ in range(3):
            with tracer.start_as_current_span("execute_tool"):
                pass
        steps(processor, "ticket-42")
    assert warned() == []


def test_a_span_that_the_sdk_has_cut(processor: LoopSpanProcessor, warned: Warned) -> None:
    """A conversation in numbered keys is longer than what the SDK keeps; all such are counted."""
    tracer = tracer_of(processor, SpanLimits(max_span_attributes=128))
    keys = {f"llm.input_messages.{n}.message.content": "Go on." for n in range(150)}
    for _ in range(3):
        tracer.start_span("chat", attributes=keys).end()
    (warning,) = warned()
    assert "lost 22 attributes" in warning
    assert "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" in warning
    assert processor.counts.cut == 3


@pytest.mark.parametrize(
    ("environment", "kept"), [({}, 150), ({"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "128"}, 128)]
)
def test_instrument_lets_a_conversation_fit(
    environment: Mapping[str, str], kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit of the SDK is raised, unless the user has set one."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    processor = looptrace.instrument(environment)
    span = trace.get_tracer("agent").start_span("chat")
    span.set_attributes({f"key.{n}": n for n in range(150)})
    span.end()
    processor.shutdown()
    assert len(span.attributes) == kept  # type: ignore[attr-defined]


def test_a_set_up_that_works_is_silent(
    processor: LoopSpanProcessor, caplog: pytest.LogCaptureFixture
) -> None:
    """A set-up that follows the page causes no warning."""
    with caplog.at_level(logging.WARNING):
        tracer, names = tracer_of(processor), {"gen_ai.conversation.id": "ticket-42"}
        with tracer.start_as_current_span("invoke_agent fixer", attributes=names):
            steps(processor, "ticket-42", 1)
        steps(processor, "ticket-42")
    assert caplog.records == []


ACME = {"acme.tool": "dig", "acme.args": "garden"}
CALL = tool_call("dig")


def _run(tracer: Tracer, calls: int, own: int, *, within: bool = False) -> None:
    """End spans of calls, and spans that no dialect knows; they may be within calls."""
    for _ in range(calls):
        # What lies around a call is structure.
        with (
            tracer.start_as_current_span("handle"),
            tracer.start_as_current_span("d", None, attributes=CALL),
        ):
            if within:
                tracer.start_span("dig", attributes=ACME).end()
    for _ in range(own):
        tracer.start_span("acme.dig", attributes=ACME).end()


@pytest.mark.parametrize(
    ("calls", "own", "within", "count"),
    [(0, 20, False, 1), (9, 11, False, 1), (10, 10, False, 0), (0, 19, False, 0), (30, 0, True, 0)],
)
def test_spans_that_are_not_understood_are_warned_of(
    calls: int, own: int, within: bool, count: int, processor: LoopSpanProcessor, warned: Warned
) -> None:
    """A process whose spans mean nothing to looptrace says so once, with their keys."""
    _run(tracer_of(processor), calls, own, within=within)
    processor.shutdown()
    assert len(warned()) == count
    for text in warned():
        assert "acme.dig (scope acme; attributes acme.tool, acme.args)" in text
        assert "[attributes]" in text


FOLDERS = (framework_table.DIALECTS, framework_table.OWN, TRACES)
# What a span's marker does not say, and the analyzer reads from its fields: whether a part shows a
# failure, a step lies around known spans, a call is the end of a run, or a span has an attempt's
# status. None of it makes a span one that nobody understands.
BY_FIELDS = (
    *("agenta", "burr", "claude_code", "codex", "docker_agent", "honeyhive", "looptrace-own"),
    *("mirascope", "monocle", "nat", "smolagents", "traceloop", "trulens"),
)
_ENDS = (False, True)


def _counted(spans: list[ReadableSpan]) -> tuple[int, int]:
    """Return how many spans a process counts as understood and as not, as they begin and end."""
    by_id = {span.context.span_id: span for span in spans}

    def depth(span: ReadableSpan) -> int:
        above = span.parent and by_id.get(span.parent.span_id)
        return 1 + depth(above) if above else 0

    opened = OpenSpans(len(spans))
    check = SetupCheck(opened)
    moments = [(span, ends) for ends in _ENDS for span in spans]
    moments.sort(
        key=lambda each: (
            each[0].end_time if each[1] else each[0].start_time,
            each[1],
            -depth(each[0]) if each[1] else depth(each[0]),
        )
    )
    for span, ends in moments:
        if ends:
            opened.end(span)
            check.ended(span)
        else:
            opened.add(cast("Span", span))
    return check.counts


@pytest.mark.parametrize(
    "path", [p for f in FOLDERS for p in sorted(f.glob("*.json*"))], ids=lambda path: path.name
)
def test_a_process_counts_as_a_report_does(path: Path) -> None:
    """A warning of a process that a report does not confirm would be noise, and silence worse."""
    spans = whole_spans(read_spans([str(path)]).spans)
    seen = turns_of(spans)[1].understood
    read, unread = _counted(list(map(sdk_span, span_rows(spans))))
    assert unread == seen.unread
    if not path.name.startswith(BY_FIELDS):
        assert read == seen.turns + seen.parts + seen.agents


@pytest.mark.parametrize("given", [False, True])
def test_a_process_that_forwards_knows_the_keys_of_its_server(
    given: bool, tmp_path: Path, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server may read what this process does not know, and is then no reason to warn."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")  # So long does the end wait for it.
    settings = tmp_path / "looptrace.toml"
    settings.write_text('[attributes]\ntool = "acme.tool"\narguments = ["acme.args"]\n', "utf-8")
    processor = LoopSpanProcessor.forward(
        "http://127.0.0.1:1", gates="", settings=settings if given else None
    )
    _run(tracer_of(processor), 0, 20)
    said = warned()
    processor.shutdown()
    assert len(said) == (0 if given else 1)
    assert all("unless the server has keys of its own" in text for text in said)
    settings.write_text("[attributes]\ntools = []\n", "utf-8")
    with pytest.raises(ValueError, match="no such fields"):
        LoopSpanProcessor.forward("http://127.0.0.1:1", gates="", settings=settings)
