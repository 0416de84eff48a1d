"""Gate events on the agent's own spans, where other tools show them, too."""

import time
from typing import Literal

from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber, get_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext
from opentelemetry.util.types import AttributeValue

from looptrace.analyzer.gates.notice import GateNotice
from looptrace.bounded_dict import BoundedDict
from looptrace.collector.gate_attributes import SAMPLED, attributes_of
from looptrace.collector.sdk.open_spans import OpenSpans
from looptrace.semconv import GATE_EVENT, SCOPE

Emit = Literal["span_event", "log_event", "both"]

# A span keeps 128 events and silently loses the oldest, so no loop may fill it.
EVENTS_PER_TASK_AND_RULE_MAX = 10
COUNTED_MAX = 10_000


class SpanEventEmitter:
    """Writes gate events to the best place that is still open.

    This is the nearest open agent's span above the turn, else any open span above it, else a log
    record with the turn's context if there is a logger provider, else a span of its own that links
    to the turn.
    """

    def __init__(self, spans: OpenSpans, emit: Emit, *, content: bool) -> None:
        self._spans = spans
        self._targets = emit
        self._content = content
        self._counts: BoundedDict[tuple[str, str], int] = BoundedDict(COUNTED_MAX)
        self.emitted = 0  # events that were written
        self.held_back = 0  # events that were not written, because their loop had enough of them

    def emit(self, notice: GateNotice, provider: TracerProvider | None) -> None:
        """Write an event, unless its task and rule had enough of them or its turn is unknown."""
        if not notice.span_id:
            return
        if not self._may_emit(notice):
            self.held_back += 1
            return
        self.emitted += 1
        attributes = attributes_of(notice, content=self._content)
        turn = _context(int(notice.trace_id, 16), int(notice.span_id, 16))
        span = self._spans.nearest(turn.span_id)
        if self._targets != "log_event" and span is not None:
            span.add_event(GATE_EVENT, attributes)
        if self._targets == "span_event" and span is not None:
            return
        if not _emit_log(attributes, turn) and span is None and provider is not None:
            _write_span(attributes, turn, provider)

    def _may_emit(self, notice: GateNotice) -> bool:
        key = (notice.task, notice.rule)
        count = self._counts.pop(key, 0)
        if notice.type in ("gate_resolved", "counter_reset"):
            count = 0
        self._counts[key] = count + 1
        return count < EVENTS_PER_TASK_AND_RULE_MAX


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=SAMPLED)


def _emit_log(attributes: dict[str, AttributeValue], turn: SpanContext) -> bool:
    """Write a log record of the event; return False if the process has no logger provider."""
    provider = get_logger_provider()
    if not isinstance(provider, LoggerProvider):
        return False
    record = LogRecord(
        timestamp=time.time_ns(),
        context=trace.set_span_in_context(NonRecordingSpan(turn)),
        severity_number=SeverityNumber.WARN,
        event_name=GATE_EVENT,
        attributes=attributes,
    )
    provider.get_logger(SCOPE).emit(record)
    return True


def _write_span(
    attributes: dict[str, AttributeValue], turn: SpanContext, provider: TracerProvider
) -> None:
    """Write the event as a span in the turn's trace that links to the turn."""
    above = trace.set_span_in_context(NonRecordingSpan(turn))
    tracer = provider.get_tracer(SCOPE)
    tracer.start_span(GATE_EVENT, above, attributes=attributes, links=[Link(turn)]).end()
