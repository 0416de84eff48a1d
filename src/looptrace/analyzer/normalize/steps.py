"""Steps of programs, which are calls where nothing is done within them that is known.

A decorator around a function says neither whether a model called it, nor whether it only frames
calls and responses.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from looptrace.analyzer.normalize.span_tree import ANCESTORS_MAX
from looptrace.analyzer.schema.span_fields import SpanFields


def is_step(span: SpanFields) -> bool:
    """Return whether a span is a call only if no known span lies within it."""
    return span.kind == "tool" and span.shape is not None


def settled(spans: list[SpanFields]) -> list[SpanFields]:
    """Return the spans; steps around spans that are known become structure."""
    if not any(map(is_step, spans)):
        return spans
    by_key = {(span.trace_id, span.span_id): span for span in spans}
    frames = set()
    for span in spans:
        if span.kind or (span.shape and span.shape.known):
            frames |= {(step.trace_id, step.span_id) for step in _steps_around(span, by_key)}
    return [
        replace(span, kind=None) if (span.trace_id, span.span_id) in frames else span
        for span in spans
    ]


def _steps_around(
    span: SpanFields, by_key: dict[tuple[str, str], SpanFields]
) -> Iterable[SpanFields]:
    """Return the steps above a span, up to the nearest other span that is known."""
    found: list[SpanFields] = []
    above = span
    for _ in range(ANCESTORS_MAX):
        parent = by_key.get((above.trace_id, above.parent_span_id or ""))
        if parent is None or parent is span:
            return found
        if is_step(parent):
            found.append(parent)
        elif parent.kind or (parent.shape and parent.shape.known):
            return found  # It marks the steps around it itself.
        above = parent
    return found
