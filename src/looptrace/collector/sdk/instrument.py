"""One call that sets everything up from the environment, for who has no provider yet."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from looptrace.collector.sdk.forward import Protocol, exporter_to
from looptrace.collector.sdk.processor import LoopSpanProcessor

ENDPOINT_VARIABLE = "LOOPTRACE_ENDPOINT"
TOKEN_VARIABLE = "LOOPTRACE_TOKEN"  # noqa: S105 - the name of a variable
OTLP_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PROTOCOL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
EXPORTER_VARIABLE = "OTEL_TRACES_EXPORTER"
DISABLED_VARIABLE = "OTEL_SDK_DISABLED"


def instrument(environment: Mapping[str, str] = os.environ, **options: Any) -> LoopSpanProcessor:
    """Watch the agents of this process for loops; returns the processor, for its gates.

    The tracer provider that is set is used, else one is made and set. Spans are exported too where
    an `OTEL_EXPORTER_OTLP_*ENDPOINT` is set and `OTEL_TRACES_EXPORTER` is not `none`. With
    `LOOPTRACE_ENDPOINT` (and `LOOPTRACE_TOKEN`) a looptrace server judges, else this process.
    With `OTEL_SDK_DISABLED` nothing is watched. `options` are the processor's.

    Raises:
        ValueError: if an address or a protocol in the environment is none.
    """
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        _export(provider, environment)
        trace.set_tracer_provider(provider)
    endpoint = environment.get(ENDPOINT_VARIABLE, "")
    if endpoint:
        token = environment.get(TOKEN_VARIABLE) or None
        processor = LoopSpanProcessor.forward(endpoint, token=token, **options)
    else:
        processor = LoopSpanProcessor.local(**options)
    if environment.get(DISABLED_VARIABLE, "").lower() == "true":
        return processor
    return processor.use(provider)


def _export(provider: TracerProvider, environment: Mapping[str, str]) -> None:
    """Let a provider export as the standard variables say; each exporter reads its own."""
    wanted = any(environment.get(name) for name in OTLP_VARIABLES)
    if not wanted or environment.get(EXPORTER_VARIABLE, "otlp") == "none":
        return
    protocol = next((environment[n] for n in PROTOCOL_VARIABLES if environment.get(n)), "http")
    if protocol.split("/")[0] not in ("http", "grpc"):
        raise ValueError(f"{protocol!r} is no protocol; it must be http/protobuf or grpc")
    wire: Protocol = "grpc" if protocol == "grpc" else "http"
    provider.add_span_processor(BatchSpanProcessor(exporter_to(None, wire, None)))
