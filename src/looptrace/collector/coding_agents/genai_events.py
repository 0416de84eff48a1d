"""Rows from log records that are GenAI events of a span: messages, choices, details, exceptions.

Each is a row of the span table with the ids of its span (`LOGGED`), and becomes an event of it.
"""

from collections.abc import Mapping
from typing import Any

from looptrace.analyzer.schema.spans import LOGGED, SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.coding_agents.log_events import LogRecord
from looptrace.collector.otlp.json_documents import DEPTH_MAX
from looptrace.collector.otlp.log_names import EVENT_NAME, is_event_of_span, is_genai_event
from looptrace.collector.otlp.span_rows import (
    NO_ID,
    BadSpanError,
    DecodedSpans,
    events_text,
    service_name,
    span_row,
)


class EventRows:
    """The rows of the events of one request."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int], list[str]] = {}  # by span and time, as JSON

    def row_of(self, record: LogRecord, out: DecodedSpans) -> SpanRow | None:
        """Return the row of an event of a span; None for any other log record, or one said before.

        Events of a span that name the same time stay in their order. One that names no span is
        noted in `out`. Raises BadSpanError for a bad time or id, and for too large a record.
        """
        name = str(record.event_name or record.attributes.get(EVENT_NAME) or "")
        content = _content(record)
        if not is_event_of_span(name, content):
            return None
        if any(map(NO_ID.fullmatch, record.span)):
            out.placeless.extend([1] if is_genai_event(name, content) else [])
            return None
        time_ns = record.time_ns or record.observed_ns
        text = events_text([(name, time_ns, content)])
        out.check_size(len(text))
        before = self._known.setdefault((*record.span, time_ns), [])
        if text in before:
            return None
        before.append(text)
        time_ns += len(before) - 1
        return span_row(
            trace_id=record.span[0],
            span_id=record.span[1],
            parent_span_id="",
            name="",
            start_ns=time_ns,
            end_ns=time_ns,
            status=LOGGED,
            status_message="",
            service=service_name(record.resource),
            scope=record.scope,
            attributes={},
            events=[(name, time_ns, content)],
            links=(),
        )


def _content(record: LogRecord) -> dict[str, Any]:
    """Return what a record says: its attributes, and its body, which may be JSON in a text.

    Raises BadSpanError where it is nested too deep.
    """
    body = parsed(record.body)
    if not isinstance(body, Mapping):
        body = {} if body is None else {"content": record.body}
    content = {**record.attributes, **body}
    content.pop(EVENT_NAME, None)
    if _is_deeper(content, DEPTH_MAX):
        raise BadSpanError(f"nested too deep, nothing below level {DEPTH_MAX} is read")
    return content


def _is_deeper(value: Any, levels: int) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels < 0 or any(_is_deeper(i, levels - 1) for i in items if isinstance(i, dict | list))
