"""The edge: everything that touches files, sockets, clocks or the OpenTelemetry SDK.

What an agent's author uses is named here, and needs nothing but OpenTelemetry.
"""

from looptrace.collector.sdk.agent_gate import AgentGate, GateOpenError, GateState
from looptrace.collector.sdk.instrument import instrument
from looptrace.collector.sdk.processor import LoopSpanProcessor
from looptrace.collector.sdk.recording import (
    agent,
    attempt,
    handoff,
    intervened,
    phase,
    progress,
    turn,
)

__all__ = [
    "AgentGate",
    "GateOpenError",
    "GateState",
    "LoopSpanProcessor",
    "agent",
    "attempt",
    "handoff",
    "instrument",
    "intervened",
    "phase",
    "progress",
    "turn",
]
