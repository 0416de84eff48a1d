"""The edge: everything that touches files, sockets, clocks or the OpenTelemetry SDK."""

from looptrace.collector.sdk.processor import LoopSpanProcessor

__all__ = ["LoopSpanProcessor"]
