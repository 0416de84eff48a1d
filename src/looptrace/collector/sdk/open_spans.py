"""The spans of this process that are still open, and their parents."""

from collections.abc import Iterator, Mapping

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, Span
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext
from opentelemetry.util.types import AttributeValue

from looptrace import semconv
from looptrace.analyzer.fields.dialect_table import SHIPPED, DialectTable, Said
from looptrace.analyzer.text.asked_persons import asks_person
from looptrace.bounded_dict import BoundedDict
from looptrace.semconv import SCOPE

# Parents further up are ignored; the known frameworks nest at most some twenty spans.
ANCESTORS_MAX = 100
# Kinds of span that wait for an answer.
_CALLS = ("tool", "model")
# Kinds of span whose work is in the spans below; what a span of no kind does is not known.
_AGENTS = ("agent", "structure")
# What makes the id of a silence from that of its agent, which is random.
_OF_SILENCE = 0x5117_0000_0000_0001
_NO_REQUEST: dict[str, AttributeValue] = {
    semconv.GEN_AI_OPERATION_NAME: "chat",
    semconv.GEN_AI_REQUEST_MODEL: semconv.SILENT,
    semconv.GEN_AI_RESPONSE_FINISH_REASONS: (semconv.OPEN_REASON,),
}


class OpenSpans:
    """A bounded record of open spans, and of the parents of recently ended spans.

    The keys are span ids, which are random 64 bits. Adding and ending are single operations on
    dictionaries, which threads share safely; an agent's thread does nothing else here.
    """

    def __init__(self, spans_max: int, dialects: DialectTable = SHIPPED) -> None:
        self.dialects = dialects  # by which spans are read
        _ = dialects.rows  # The file of the dialects is read here, and not in an agent's span.
        self.untracked = 0  # spans that began when there were too many
        self.service: str | None = None  # of the process, from its spans
        self._spans_max = spans_max
        self._open: dict[int, Span] = {}
        # Of spans that ended; 0 where there is none.
        self._parents: BoundedDict[int, int] = BoundedDict(spans_max)
        # By the id of a span, when the last span directly below it ended.
        self._ended_below: BoundedDict[int, int] = BoundedDict(spans_max)
        self._silent: dict[int, Span] = {}  # those that were reported last
        self._traces: BoundedDict[int, None] = BoundedDict(spans_max)

    def add(self, span: Span) -> None:
        """Note a span that begins."""
        if len(self._open) >= self._spans_max:
            self.untracked += 1
            return
        if self.service is None:
            self.service = service_in(span.resource)
        context = span.context
        self._open[context.span_id] = span
        if context.trace_id not in self._traces:
            self._traces[context.trace_id] = None

    def end(self, span: ReadableSpan) -> None:
        """Note that a span has ended."""
        context, parent = span.context, span.parent
        if context is not None:
            self._open.pop(context.span_id, None)
            self._parents[context.span_id] = parent.span_id if parent else 0
        if parent is not None and span.end_time is not None:
            self._ended_below[parent.span_id] = span.end_time

    def knows(self, trace_id: str) -> bool:
        """Return whether a trace (id in hex) was begun in this process, or goes through it.

        For anything that is not such an id the result is False.
        """
        try:
            return int(trace_id, 16) in self._traces
        except ValueError:
            return False

    def said_of(self, span: ReadableSpan) -> Said:
        """Return the kind of a span, and the dialect that names it."""
        return self.dialects.kind_of(span.attributes or {}, span.name, scope_of(span))

    def all(self) -> list[Span]:
        """Return all open spans."""
        return list(self._open.values())

    def of(self, traces: set[int]) -> list[ReadableSpan]:
        """Return the open spans of these traces."""
        return [span for span in self.all() if span.context.trace_id in traces]

    def reports(self, now_ns: int, least_ns: int) -> list[ReadableSpan]:
        """Return what `unanswered` and `silent` do."""
        return [*self.unanswered(now_ns, least_ns), *self.silent(now_ns, least_ns)]

    def unanswered(self, now_ns: int, least_ns: int) -> list[ReadableSpan]:
        """Return copies, as they are now, of the calls that have been open for at least so long.

        A call is at work, and left out, while another call or a wait for a person is open below it.
        """
        spans = self.all()
        since_ns = now_ns - least_ns
        if all((span.start_time or now_ns) > since_ns for span in spans):
            return []
        calls = [span for span in spans if self.said_of(span)[0] in _CALLS]
        below = [*calls, *(span for span in spans if asks_person(span.name))]
        at_work = {above.context.span_id for span in below for above in self.above(span)}
        return [
            _copy_of_call(span, now_ns, is_model=self.said_of(span)[0] == "model")
            for span in calls
            if span.context.span_id not in at_work and (span.start_time or now_ns) <= since_ns
        ]

    def silent(self, now_ns: int, least_ns: int) -> list[ReadableSpan]:
        """Return a span for each agent below which nothing has been open for at least so long.

        It lasts from the end of the last span below the agent until now. Of an agent that was
        silent at the last call, and is no more, the span says nothing any more.
        """
        spans = self.all()
        busy = {span.parent.span_id for span in spans if span.parent}
        since_ns = {
            span.context.span_id: self._ended_below[span.context.span_id]
            for span in spans
            if span.context.span_id in self._ended_below
            and span.context.span_id not in busy
            and self.said_of(span)[0] in _AGENTS
        }
        silent = {
            span.context.span_id: span
            for span in spans
            if since_ns.get(span.context.span_id, now_ns) <= now_ns - least_ns
        }
        over = [span for key, span in self._silent.items() if key not in silent]
        self._silent = silent
        return [
            *(_silence(span, now_ns, now_ns, {}) for span in over),
            *(_silence(span, since_ns[key], now_ns, _NO_REQUEST) for key, span in silent.items()),
        ]

    def nearest(self, span_id: int) -> Span | None:
        """Return the nearest open span above this one that is an agent's, else the nearest."""
        above = list(self._above(span_id))
        agents = (span for span in above if self.said_of(span)[0] == "agent")
        return next(agents, above[0] if above else None)

    def above(self, span: ReadableSpan) -> Iterator[Span]:
        """Yield the open spans above a span, the nearest first."""
        return self._above(span.parent.span_id if span.parent else 0)

    def _above(self, span_id: int) -> Iterator[Span]:
        seen: set[int] = set()
        while span_id and span_id not in seen and len(seen) < ANCESTORS_MAX:
            seen.add(span_id)
            span = self._open.get(span_id)
            if span is None:
                span_id = self._parents.get(span_id, 0)
            else:
                yield span
                span_id = span.parent.span_id if span.parent else 0


def _copy_of_call(span: Span, end_ns: int, *, is_model: bool) -> ReadableSpan:
    """Return a copy of an open call, marked as open, that ends now.

    Spans of models that say nothing are no turns, so the copy of one has a reason of its end.
    """
    reason = {semconv.GEN_AI_RESPONSE_FINISH_REASONS: (semconv.OPEN_REASON,)} if is_model else {}
    return copy_of(span, {**(span.attributes or {}), **reason, semconv.OPEN: True}, end_ns)


def _silence(
    agent: Span, since_ns: int, end_ns: int, attributes: dict[str, AttributeValue]
) -> ReadableSpan:
    """Return the span of a time in which an agent does nothing; each agent has one."""
    context = agent.context
    return ReadableSpan(
        name=semconv.SILENT,
        context=SpanContext(context.trace_id, context.span_id ^ _OF_SILENCE, is_remote=False),
        parent=context,
        resource=agent.resource,
        attributes={**attributes, semconv.OPEN: True},
        start_time=since_ns,
        end_time=end_ns,
        instrumentation_scope=InstrumentationScope(SCOPE),
    )


def copy_of(
    span: ReadableSpan, attributes: Mapping[str, AttributeValue], end_ns: int | None
) -> ReadableSpan:
    """Return a copy of a span with other attributes and another end."""
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=attributes,
        events=span.events,
        links=span.links,
        kind=span.kind,
        status=span.status,
        start_time=span.start_time,
        end_time=end_ns,
        instrumentation_scope=span.instrumentation_scope,
    )


def service_in(resource: Resource) -> str:
    """Return the service that a resource names, "" if it names none."""
    return str(resource.attributes.get(SERVICE_NAME, ""))


def scope_of(span: ReadableSpan) -> str | None:
    """Return the name of a span's instrumentation scope."""
    return span.instrumentation_scope.name if span.instrumentation_scope else None
