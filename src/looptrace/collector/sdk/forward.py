"""The forwarding engine: it sends ended spans to a server, and follows the server's gates."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from typing import Literal

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import format_trace_id
from opentelemetry.util.types import AttributeValue

from looptrace import semconv
from looptrace.analyzer.fields.dialect_table import SHIPPED, DialectTable
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.collector.sdk.agent_gate import GateState
from looptrace.collector.sdk.gate_stream import GateStream, Server
from looptrace.collector.sdk.open_spans import copy_of, scope_of
from looptrace.collector.sdk.server_watch import (
    EXPORT_LOG,
    ServerAwayError,
    ServerWatch,
    reason_in,
    reason_of,
)

_logger = logging.getLogger(__name__)

Protocol = Literal["http", "grpc"]

# Fields of a span that apply to all spans below it, with their attributes in every dialect. The
# span ends last, so each of the others gets a copy.
INHERITED = {
    field: [key for key in SHIPPED.keys_of(field) if "#" not in key]
    for field in (
        *("task", "task_parent", "task_kind", "phase", "iteration"),
        *("session", "payer", "user_id", "agent"),
    )
}
MS_PER_S = 1_000


class ForwardEngine:
    """Sends spans to an endpoint by the official exporters."""

    def __init__(
        self,
        exporter: SpanExporter,
        endpoint: str,
        servers: Sequence[Server],
        *,
        log_exporter: Callable[[], LogRecordExporter] | None = None,
        fail_closed: bool = False,
        dialects: DialectTable = SHIPPED,
    ) -> None:
        """Send to an endpoint; gates come from one server, or from those that share the tasks.

        `log_exporter` makes the exporter of log records when the first of them is sent.

        With `fail_closed` the agent makes no step while it knows nothing of its gates.
        """
        EXPORT_LOG.watch(exporter)
        self._exporter = exporter
        self.dialects = dialects
        self._make_log_exporter = log_exporter
        self._log_exporter: LogRecordExporter | None = None
        self._has_warned = False  # that log records were lost
        self._endpoint = endpoint
        self._watch = ServerWatch(fail_closed=fail_closed)
        self._servers = servers
        self._streams: list[GateStream] = []

    def start(self, notify: Callable[[list[GateNotice]], None]) -> None:
        """Follow the gates of the servers."""
        self._streams = [
            GateStream(server, lambda notice: notify([notice]), self._watch)
            for server in self._servers
        ]

    def follow(
        self, *, tasks: Iterable[str] = (), traces: Iterable[str] = (), service: str | None = None
    ) -> None:
        """Follow tasks, or sessions of a service, and turns in traces."""
        tasks, traces = list(tasks), list(traces)
        for stream in self._streams:
            stream.follow(tasks=tasks, traces=traces, service=service)

    def take(
        self,
        spans: list[ReadableSpan],
        above: list[ReadableSpan],
        logged: Sequence[ReadableLogRecord] = (),
    ) -> None:
        """Send spans, with the attributes that they inherit from those above them, and log records.

        The events of turns in their traces are followed.

        Raises:
            ServerAwayError: if the exporter gave up; the agent's log has a line of it.
        """
        traces = {span.context.trace_id for span in spans if span.context}
        self.follow(traces=map(format_trace_id, traces))
        by_id = {span.context.span_id: span for span in above if span.context}
        by_id |= {span.context.span_id: span for span in spans if span.context}
        if spans:
            self._send([with_inherited(span, by_id) for span in spans])
        if logged and self._make_log_exporter:
            exporter = self._log_exporter = self._log_exporter or self._make_log_exporter()
            self._send_logs(exporter, logged)

    def _send(self, spans: list[ReadableSpan]) -> None:
        reason = _exported(lambda: self._exporter.export(spans) is SpanExportResult.SUCCESS)
        if not reason:
            self._watch.reached("spans", self._endpoint)
            return
        self._watch.lost("spans", self._endpoint, reason, len(spans))
        raise ServerAwayError(f"{len(spans)} spans could not be sent to {self._endpoint}: {reason}")

    def _send_logs(self, exporter: LogRecordExporter, logged: Sequence[ReadableLogRecord]) -> None:
        """Send log records; without them the server knows less, and still watches the agent."""
        EXPORT_LOG.watch(exporter)
        reason = _exported(lambda: exporter.export(logged) is LogRecordExportResult.SUCCESS)
        if reason and not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "log records could not be sent to %s (%s), and what they say of calls and messages "
                "is missing there; further failures are not logged",
                *(self._endpoint, reason),
            )

    def resolve(self, state: GateState, decision: str, note: str | None) -> None:
        """Send a person's decision to the server with the gate; the event comes back by a stream.

        Raises:
            OSError: if no server accepts it.
        """
        refused: OSError | None = None
        for server in self._servers if state.gate else ():
            try:
                return server.resolve(str(state.gate), decision, note)
            except OSError as error:  # Another server has the gate, or none can be reached.
                refused = error
        if refused is not None:
            raise refused
        return None

    def open_gates(self, task: str, service: str | None, timeout_s: float) -> list[GateNotice]:
        """Return the gates that a server has open, of a task or a session of a service.

        Raises:
            ServerAwayError: if a server does not answer within its part of `timeout_s` seconds.
            ValueError: if it answers something else.
        """
        share_s = timeout_s / max(1, len(self._servers))
        notices: list[GateNotice] = []
        for server in self._servers:
            try:
                notices += server.open_gates(task, service, share_s)
            except (OSError, HTTPException) as error:
                self._watch.lost("gates", server.url, reason_of(error))
                raise ServerAwayError(f"{server.url}: {reason_of(error)}") from error
            self._watch.reached("gates", server.url)
        return notices

    @contextmanager
    def waiting(self, task: str) -> Iterator[None]:
        """Let the servers know that the process waits for a task, session or trace."""
        with ExitStack() as waits:
            for stream in self._streams:
                waits.enter_context(stream.waiting(task))
            yield

    def close(self, timeout_s: float) -> None:  # noqa: ARG002
        """Close the exporter."""
        for stream in self._streams:
            stream.close()
        self._exporter.shutdown()
        if self._log_exporter is not None:
            self._log_exporter.shutdown()  # type: ignore[no-untyped-call]


def _exported(export: Callable[[], bool]) -> str:
    """Export, and return why that failed; empty where it worked."""
    with EXPORT_LOG.kept() as records:
        try:
            return "" if export() else reason_in(records)
        except OSError as error:  # The exporters of earlier versions raise it.
            return reason_of(error)


def exporter_to(endpoint: str | None, protocol: Protocol, token: str | None) -> SpanExporter:
    """Return the official exporter to an endpoint: scheme, host and port.

    Without an endpoint the exporter reads the standard variables of the environment.
    """
    headers = {"authorization": f"Bearer {token}"} if token else None
    # Imported only when needed, because each takes a while.
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc  # noqa: PLC0415

        insecure = None if endpoint is None else endpoint.startswith("http://")
        return Grpc(endpoint=endpoint, headers=headers, insecure=insecure)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http  # noqa: PLC0415

    path = None if endpoint is None else f"{endpoint.rstrip('/')}/v1/traces"
    return Http(endpoint=path, headers=headers)


def log_exporter_to(endpoint: str, protocol: Protocol, token: str | None) -> LogRecordExporter:
    """Return the official exporter of log records to an endpoint, as `exporter_to` does."""
    headers = {"authorization": f"Bearer {token}"} if token else None
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as Grpc  # noqa: PLC0415

        return Grpc(endpoint=endpoint, headers=headers, insecure=endpoint.startswith("http://"))
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as Http  # noqa: PLC0415

    return Http(endpoint=f"{endpoint.rstrip('/')}/v1/logs", headers=headers)


def with_inherited(span: ReadableSpan, by_id: dict[int, ReadableSpan]) -> ReadableSpan:
    """Return a copy of a span with the `INHERITED` fields of the nearest spans above it."""
    own: dict[str, AttributeValue] = dict(span.attributes or {})
    inherited: dict[str, AttributeValue] = {}
    lacking = {field for field in INHERITED if not _values(span, field)}
    parent, seen = span.parent, set[int]()
    while parent is not None and parent.span_id not in seen:
        seen.add(parent.span_id)
        above = by_id.get(parent.span_id)
        if above is None:
            break
        for field in tuple(lacking):
            if values := _values(above, field):
                lacking.discard(field)
                inherited |= values
        parent = above.parent
    if not inherited:
        return span
    return copy_of(span, own | inherited, span.end_time)


def _values(span: ReadableSpan, field: str) -> dict[str, AttributeValue]:
    """Return the attributes of a span that say a field; its name may say the agent."""
    attributes = span.attributes or {}
    values = {key: attributes[key] for key in INHERITED[field] if key in attributes}
    if values and field == "phase" and span.start_time is not None:
        values.setdefault(semconv.PHASE_START_NS, span.start_time)
    if not values and field == "agent":
        kind, dialect = SHIPPED.kind_of(attributes, span.name, scope_of(span))
        if kind == "agent" and dialect in SHIPPED.named_by_span:
            values[semconv.GEN_AI_AGENT_NAME] = SHIPPED.name_in(span.name)
    return values
