"""The spans of this process that are still open, and who is above whom."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

from opentelemetry.sdk.trace import ReadableSpan, Span

from looptrace.analyzer.span_kinds import kind_of

# Deeper parents are not asked; no framework seen nests more than some twenty spans.
ANCESTORS_MAX = 100


class SpanKey(NamedTuple):
    """A span's id within its trace, as the SDK counts them."""

    trace_id: int
    span_id: int


class OpenSpans:
    """A bounded record of open spans, and of the parents of those that ended lately.

    Adding and ending are single operations on dictionaries, which threads share safely.
    """

    def __init__(self, spans_max: int) -> None:
        self.untracked = 0  # spans that came when there were too many
        self._spans_max = spans_max
        self._open: dict[SpanKey, Span] = {}
        self._parents: OrderedDict[SpanKey, SpanKey | None] = OrderedDict()
        self._traces: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, span: Span) -> None:
        """Note a span that begins."""
        if len(self._open) >= self._spans_max:
            self.untracked += 1
            return
        context = span.get_span_context()
        if context is None:
            return
        self._open[SpanKey(context.trace_id, context.span_id)] = span
        if context.trace_id not in self._traces:
            self._traces[context.trace_id] = None
            if len(self._traces) > self._spans_max:
                self._traces.popitem(last=False)

    def knows(self, trace_id: str) -> bool:
        """Tell whether a trace (in hex) was begun in this process, or goes through it."""
        return int(trace_id, 16) in self._traces

    def end(self, span: ReadableSpan) -> None:
        """Note that a span has ended."""
        context, parent = span.get_span_context(), span.parent
        if context is None:
            return
        key = SpanKey(context.trace_id, context.span_id)
        self._open.pop(key, None)
        self._parents[key] = SpanKey(parent.trace_id, parent.span_id) if parent else None
        if len(self._parents) > self._spans_max:
            self._parents.popitem(last=False)

    def nearest(self, key: SpanKey) -> Span | None:
        """Return the nearest open span above this one that is an agent's, else the nearest."""
        above = list(self._above(key))
        agents = (span for span in above if _is_agent(span))
        return next(agents, above[0] if above else None)

    def of(self, traces: set[int]) -> list[ReadableSpan]:
        """Return the open spans of these traces."""
        return [span for key, span in list(self._open.items()) if key.trace_id in traces]

    def _above(self, key: SpanKey | None) -> Iterator[Span]:
        seen: set[SpanKey] = set()
        while key is not None and key not in seen and len(seen) < ANCESTORS_MAX:
            seen.add(key)
            span = self._open.get(key)
            if span is not None:
                yield span
                parent = span.parent
                key = SpanKey(parent.trace_id, parent.span_id) if parent else None
            else:
                key = self._parents.get(key)


def _is_agent(span: Span) -> bool:
    attributes: Any = span.attributes or {}
    return kind_of(attributes)[0] == "agent"
