"""The spans that end while a test runs, kept in memory."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class CaptureProcessor(SpanProcessor):
    """Hands spans to the exporter of the test that runs; between tests it drops them.

    A provider lets no processor go, so that it has one for all tests.
    """

    exporter: InMemorySpanExporter | None = None

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a span that has ended."""
        if self.exporter is not None:
            self.exporter.export((span,))


# The provider that was joined last, with its processor.
_joined: list[tuple[object, CaptureProcessor]] = []


@contextmanager
def captured() -> Iterator[InMemorySpanExporter]:
    """Yield the exporter with the spans that end meanwhile, in any thread of this process.

    The provider that is set is joined, else one is made and set.
    """
    processor, exporter = _processor(), InMemorySpanExporter()
    before, processor.exporter = processor.exporter, exporter
    try:
        yield exporter
    finally:
        processor.exporter = before


def _processor() -> CaptureProcessor:
    provider = trace.get_tracer_provider()
    add = getattr(provider, "add_span_processor", None)
    if add is None:
        # A conversation is in the attributes of its spans, which the SDK would cut at 128.
        provider = TracerProvider(span_limits=SpanLimits(max_span_attributes=SpanLimits.UNSET))
        trace.set_tracer_provider(provider)
        add = provider.add_span_processor
    if not (_joined and _joined[0][0] is provider):
        processor = CaptureProcessor()
        add(processor)
        _joined[:] = [(provider, processor)]
    return _joined[0][1]
