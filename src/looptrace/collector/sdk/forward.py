"""Forwarding: spans go on to a server as they end, and its gates come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.util.types import AttributeValue

from looptrace import semconv
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.collector.sdk.agent_gate import GateState
from looptrace.collector.sdk.gate_stream import GateStream, Server

Protocol = Literal["http", "grpc"]

# What a span above says of all below it. It ends last, so that each span takes it along.
INHERITED = (
    *(semconv.TASK_ID, semconv.TASK_PARENT_ID, semconv.TASK_KIND, semconv.PHASE),
    *(semconv.GEN_AI_CONVERSATION_ID, semconv.SESSION_ID, semconv.GEN_AI_AGENT_NAME),
)
MS_PER_S = 1_000


class ForwardEngine:
    """Sends spans to an endpoint by the official exporters."""

    def __init__(self, exporter: SpanExporter, server: Server | None) -> None:
        self._exporter = exporter
        self._server = server
        self._stream: GateStream | None = None

    def start(self, tell: Callable[[list[GateNotice]], None]) -> None:
        """Follow the gates of the server, if it has any."""
        if self._server is not None:
            self._stream = GateStream(self._server, lambda told: tell([told]))

    def take(self, spans: list[ReadableSpan], above: list[ReadableSpan]) -> None:
        """Send spans, with what those above them say of them.

        Raises:
            OSError: if the exporter gave them up.
        """
        by_id = {span.context.span_id: span for span in above if span.context}
        by_id |= {span.context.span_id: span for span in spans if span.context}
        sent = self._exporter.export([with_inherited(span, by_id) for span in spans])
        if sent is not SpanExportResult.SUCCESS:
            raise OSError(f"{len(spans)} spans could not be sent")

    def resolve(self, state: GateState, decision: str, note: str | None) -> None:
        """Tell the server what a person decided; what comes of it comes by the stream."""
        if self._server is not None and state.gate:
            self._server.resolve(state.gate, decision, note)

    def close(self, timeout_s: float) -> None:  # noqa: ARG002
        """Close the exporter."""
        if self._stream is not None:
            self._stream.close()
        self._exporter.shutdown()


def exporter_to(endpoint: str | None, protocol: Protocol, token: str | None) -> SpanExporter:
    """Return the official exporter to an endpoint: scheme, host and port.

    Without an endpoint the exporter reads the standard variables of the environment.
    """
    headers = {"authorization": f"Bearer {token}"} if token else None
    # Only the one that is wanted, because each takes a while to import.
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc  # noqa: PLC0415

        insecure = None if endpoint is None else endpoint.startswith("http://")
        return Grpc(endpoint=endpoint, headers=headers, insecure=insecure)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http  # noqa: PLC0415

    path = None if endpoint is None else f"{endpoint.rstrip('/')}/v1/traces"
    return Http(endpoint=path, headers=headers)


def with_inherited(span: ReadableSpan, by_id: dict[int, ReadableSpan]) -> ReadableSpan:
    """Return a span that says itself what spans above it say of it; others see no change."""
    own: dict[str, AttributeValue] = dict(span.attributes or {})
    found: dict[str, AttributeValue] = {}
    parent, seen = span.parent, set[int]()
    while parent is not None and parent.span_id not in seen:
        seen.add(parent.span_id)
        above = by_id.get(parent.span_id)
        if above is None:
            break
        said: Any = above.attributes or {}
        for name in INHERITED:
            if name in said and name not in own:
                found.setdefault(name, said[name])
        parent = above.parent
    if not found:
        return span
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=own | found,
        events=span.events,
        links=span.links,
        kind=span.kind,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
