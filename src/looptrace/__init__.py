"""looptrace finds LLM agents that are stuck in loops, in their OpenTelemetry traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from looptrace.errors import InputError, InstallError, LooptraceError, UnavailableError
from looptrace.lazy_names import lazy_names

if TYPE_CHECKING:
    from looptrace.analyzer.schema.turn import Turn
    from looptrace.collector import instrument
    from looptrace.collector.store.gate_file.stored_gates import StoredGate
    from looptrace.collector.trace_store import (
        Records,
        Task,
        TraceStore,
        analyze,
        open,  # noqa: A004 - read as `looptrace.open`
    )
    from looptrace.version import __version__
else:  # No import of OpenTelemetry and Polars, and no reading of metadata.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "StoredGate": "looptrace.collector.store.gate_file.stored_gates",
            "Turn": "looptrace.analyzer.schema.turn",
            "__version__": "looptrace.version",
            "instrument": "looptrace.collector",
        }
        | dict.fromkeys(
            ("Records", "Task", "TraceStore", "analyze", "open"), "looptrace.collector.trace_store"
        ),
    )

__all__ = [
    "InputError",
    "InstallError",
    "LooptraceError",
    "Records",
    "StoredGate",
    "Task",
    "TraceStore",
    "Turn",
    "UnavailableError",
    "__version__",
    "analyze",
    "instrument",
    "open",
]
