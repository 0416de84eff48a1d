"""Records of platforms that keep spans, their events and log records side by side."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from looptrace.collector.importers.console import printed
from looptrace.collector.importers.records import RecordReader
from looptrace.collector.importers.spans import foreign_row
from looptrace.collector.otlp.span_rows import DecodedSpans

EXCEPTION = "exception"
_GENAI = "gen_ai."

# The fields of a span, as `foreign_row` takes them.
ForeignSpan = Mapping[str, Any]


class LogOf:
    """A log record or an event of a span, as an SDK prints it."""

    def __init__(
        self,
        at_ns: int,
        body: object,
        attributes: Mapping[str, Any],
        resource: Mapping[str, Any],
        *,
        trace: object = None,
        span: object = None,
        name: object = None,
    ) -> None:
        """Take the ids of the span that it belongs to, if there is one.

        A body that is the name of an event of GenAI is that name.
        """
        if not name and isinstance(body, str) and body.startswith(_GENAI):
            name, body = body, None
        self.record: dict[str, Any] = {
            "timestamp": at_ns,
            "body": body,
            "event_name": name,
            "attributes": dict(attributes),
            "resource": {"attributes": {each: v for each, v in resource.items() if v}},
            "traceId": trace,
            "spanId": span,
            "severity_number": 9,
        }


def exception_of(trace: object, span: object, kind: object, message: object, at_ns: int) -> LogOf:
    """Return the exception of a span."""
    told = {"exception.type": kind, "exception.message": message}
    told = {name: str(value) for name, value in told.items() if value not in (None, "")}
    return LogOf(at_ns, None, told, {}, trace=trace, span=span, name=EXCEPTION)


SpanOrLog = ForeignSpan | LogOf | None


def rows_of(told: SpanOrLog, where: str) -> DecodedSpans:
    """Return the row of a span, or those of a log record. Raises one of RECORD_ERRORS."""
    if told is None:
        return DecodedSpans()
    if isinstance(told, LogOf):
        return printed.read(told.record, where)
    return DecodedSpans([foreign_row(**told)])


def reader_of(read: Callable[[dict[str, Any]], SpanOrLog]) -> Callable[[], RecordReader]:
    """Return a factory of readers for records that are a span, a log record, or neither."""
    return partial(RecordReader, lambda record, where: rows_of(read(record), where))
