"""The log processor: instrumentations may write what a model was given and answered as log records.

It never raises and never blocks, as the span processor, to whose queue it adds these records.
"""

from collections.abc import Callable

from opentelemetry.sdk._logs import LogRecordProcessor, ReadableLogRecord, ReadWriteLogRecord
from opentelemetry.sdk.resources import Resource

from looptrace.collector.otlp.log_names import EVENT_NAME, is_event_of_span

_NOWHERE = Resource({})


class LoopLogProcessor(LogRecordProcessor):
    """Passes the log records that say something of a span, and no others."""

    def __init__(
        self, put: Callable[[ReadableLogRecord], object], on_error: Callable[[], object]
    ) -> None:
        self._put = put
        self._on_error = on_error

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Queue a record."""
        try:
            record = log_record.log_record
            name = record.event_name or (record.attributes or {}).get(EVENT_NAME) or ""
            if record.span_id and is_event_of_span(str(name), record.body):
                scope = log_record.instrumentation_scope
                resource = log_record.resource or _NOWHERE
                self._put(ReadableLogRecord(record, resource, scope, log_record.limits))
        except Exception:  # The agent must not notice it.
            self._on_error()

    def shutdown(self) -> None:
        """Do nothing: the span processor ends the queue."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002
        """Do nothing: the span processor waits for the queue."""
        return True
