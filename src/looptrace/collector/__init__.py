"""All code that uses files, sockets, clocks or the OpenTelemetry SDK.

The names here are for an agent's author, and need only OpenTelemetry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from looptrace.lazy_names import lazy_names

if TYPE_CHECKING:
    from looptrace.collector.sdk.agent_gate import (
        AgentGate,
        GateOpenError,
        GateState,
        TaskCancelled,
    )
    from looptrace.collector.sdk.instrument import instrument
    from looptrace.collector.sdk.processor import (
        LoopSpanProcessor,
        ProcessorOptions,
        QueueCounts,
        QueueLimits,
    )
    from looptrace.collector.sdk.recording import (
        Recording,
        agent,
        attempt,
        handoff,
        intervened,
        iteration,
        phase,
        progress,
        turn,
    )
else:  # A command that reads files needs no OpenTelemetry SDK, which takes a tenth of its start.
    _MODULES = {
        "agent_gate": ("AgentGate", "GateOpenError", "GateState", "TaskCancelled"),
        "instrument": ("instrument",),
        "processor": ("LoopSpanProcessor", "ProcessorOptions", "QueueCounts", "QueueLimits"),
        "recording": (
            *("Recording", "agent", "attempt", "handoff", "intervened", "iteration"),
            *("phase", "progress", "turn"),
        ),
    }
    __getattr__, __dir__ = lazy_names(
        __name__,
        {name: f"{__name__}.sdk.{module}" for module, names in _MODULES.items() for name in names},
    )

__all__ = [
    "AgentGate",
    "GateOpenError",
    "GateState",
    "LoopSpanProcessor",
    "ProcessorOptions",
    "QueueCounts",
    "QueueLimits",
    "Recording",
    "TaskCancelled",
    "agent",
    "attempt",
    "handoff",
    "instrument",
    "intervened",
    "iteration",
    "phase",
    "progress",
    "turn",
]
