"""All code that uses files, sockets, clocks or the OpenTelemetry SDK.

The names here are for an agent's author, and need only OpenTelemetry.
"""

from looptrace.collector.sdk.agent_gate import AgentGate, GateOpenError, GateState, TaskCancelled
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
