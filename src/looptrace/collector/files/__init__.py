"""Reading traces from files, folders and standard input, and out of the SDK's memory."""

from looptrace.collector.files.reader import SpansRead, read_spans
from looptrace.collector.otlp.sdk_spans import sdk_spans

__all__ = ["SpansRead", "read_spans", "sdk_spans"]
