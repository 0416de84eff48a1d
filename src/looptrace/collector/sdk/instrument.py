"""One call that sets up everything from the environment, also without a provider."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, cast
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry._logs import get_logger_provider, set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from looptrace.collector.sdk.forward import Protocol, exporter_to
from looptrace.collector.sdk.processor import LoopSpanProcessor, ProcessorOptions
from looptrace.collector.sdk.server_watch import TOKEN_VARIABLE

if TYPE_CHECKING:  # An agent that forwards its spans lacks the packages that this imports.
    from looptrace.analyzer.settings.given import SettingsLike

ENDPOINT_VARIABLE = "LOOPTRACE_ENDPOINT"
GATES_VARIABLE = "LOOPTRACE_GATES"
OTLP_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
EXPORTER_VARIABLE = "OTEL_TRACES_EXPORTER"
DISABLED_VARIABLE = "OTEL_SDK_DISABLED"
LIMIT_VARIABLES = ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT")
# The SDK keeps 128, which a conversation in numbered keys exceeds at its 18th message or so.
ATTRIBUTES_MAX = 4_096


def instrument(
    environment: Mapping[str, str] = os.environ,
    settings: SettingsLike | None = None,
    **options: Unpack[ProcessorOptions],
) -> LoopSpanProcessor:
    """Watch the agents of this process for loops; return the processor, for its gates.

    This uses the current providers of tracers and of loggers, or makes and sets them. It also
    exports spans if an `OTEL_EXPORTER_OTLP_*ENDPOINT` is set and `OTEL_TRACES_EXPORTER` is not
    `none`. With `LOOPTRACE_ENDPOINT` (and `LOOPTRACE_TOKEN`) a looptrace server looks for loops,
    with its own settings; otherwise this process does, with `settings`. Gates come from there, or
    from the servers in `LOOPTRACE_GATES`, separated by commas. With `OTEL_SDK_DISABLED` looptrace
    watches nothing. Spans of a provider made here keep 4,096 attributes, unless the environment
    sets a limit.

    Raises:
        ValueError: if an address or a protocol in the environment is not one, or settings are
            wrong.
        ModuleNotFoundError: if this process looks for loops without `looptrace[analyzer]`.
    """
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider(span_limits=_limits(environment))
        _export(provider, environment)
        trace.set_tracer_provider(provider)
    endpoint = environment.get(ENDPOINT_VARIABLE, "")
    if endpoint:
        token = environment.get(TOKEN_VARIABLE) or None
        gates = environment.get(GATES_VARIABLE) or None
        is_path = isinstance(settings, str | os.PathLike) and Path(settings).is_file()
        keys = cast("str", settings) if is_path else None
        processor = LoopSpanProcessor.forward(
            endpoint, token=token, gates=gates, settings=keys, **options
        )
    else:
        processor = LoopSpanProcessor.local(settings, **options)
    if environment.get(DISABLED_VARIABLE, "").lower() == "true":
        return processor
    return processor.use(provider, _logger_provider())


def _logger_provider() -> LoggerProvider:
    """Return the current provider of loggers, or make and set one, which exports nothing."""
    provider = get_logger_provider()
    if not isinstance(provider, LoggerProvider):
        provider = LoggerProvider()
        set_logger_provider(provider)
    return provider


def _limits(environment: Mapping[str, str]) -> SpanLimits:
    """Return limits that fit a conversation, unless the environment sets some."""
    if any(environment.get(name) for name in LIMIT_VARIABLES):
        return SpanLimits()
    return SpanLimits(max_span_attributes=ATTRIBUTES_MAX)


def _export(provider: TracerProvider, environment: Mapping[str, str]) -> None:
    """Add an exporter from the standard variables; it reads the rest of them itself."""
    endpoint = next((environment[name] for name in OTLP_VARIABLES if environment.get(name)), "")
    if not endpoint or environment.get(EXPORTER_VARIABLE, "otlp") == "none":
        return
    if _server(endpoint) == _server(environment.get(ENDPOINT_VARIABLE, "")):
        return  # The processor sends the spans there, with their inherited attributes.
    protocol = next((environment[n] for n in PROTOCOL_VARIABLES if environment.get(n)), "http")
    if protocol.split("/")[0] not in ("http", "grpc"):
        raise ValueError(f"{protocol!r} is not a protocol; it must be http/protobuf or grpc")
    wire: Protocol = "grpc" if protocol == "grpc" else "http"
    provider.add_span_processor(BatchSpanProcessor(exporter_to(None, wire, None)))


def _server(endpoint: str) -> tuple[str, str]:
    address = urlsplit(endpoint)
    return address.scheme, address.netloc
