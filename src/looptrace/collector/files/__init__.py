"""Reading traces from files, folders and standard input, and out of the SDK's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from looptrace.lazy_names import lazy_names

if TYPE_CHECKING:
    from looptrace.collector.files.reader import SpansRead, read_spans
    from looptrace.collector.otlp.sdk_spans import sdk_spans
else:  # Files are read without the SDK.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "SpansRead": "looptrace.collector.files.reader",
            "read_spans": "looptrace.collector.files.reader",
            "sdk_spans": "looptrace.collector.otlp.sdk_spans",
        },
    )

__all__ = ["SpansRead", "read_spans", "sdk_spans"]
