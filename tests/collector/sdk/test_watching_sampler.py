"""What the provider's sampler drops is watched, and still not exported."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from looptrace.collector.sdk.processor import LoopSpanProcessor
from tests.otlp import tool_call

CALL = tool_call("dig", "{}", result="stones")


@pytest.mark.parametrize("sampler", [ALWAYS_OFF, ParentBased(TraceIdRatioBased(0.0))])
@pytest.mark.parametrize("is_remote", [False, True])
def test_a_loop_that_is_not_sampled_is_found(sampler: Sampler, is_remote: bool) -> None:
    """The loop opens a gate, and the exporter of the provider gets no span of it."""
    provider, exporter = TracerProvider(sampler=sampler), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    processor = LoopSpanProcessor.local().use(provider)
    tracer = provider.get_tracer("agent")
    caller = NonRecordingSpan(SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(0)))
    context = trace.set_span_in_context(caller) if is_remote else None

    with tracer.start_as_current_span("run", context):
        for _ in range(6):
            tracer.start_span("execute_tool dig", attributes=CALL).end()
        processor.force_flush()

    assert processor.counts.emitted > 0
    processor.shutdown()
    assert processor.counts.taken == 7
    assert exporter.get_finished_spans() == ()


def test_a_processor_that_is_added_twice_decides_once() -> None:
    """The sampler stays as it is, whoever adds processors."""
    provider = TracerProvider(sampler=ALWAYS_OFF)
    for _ in range(2):
        LoopSpanProcessor.local().use(provider).shutdown()

    assert provider.sampler.get_description() == "WatchingSampler(AlwaysOffSampler)"
