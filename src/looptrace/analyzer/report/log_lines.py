"""Structured log records of what was told of loops."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.llm_judge import needs_opinion
from looptrace.rules.vocabulary import NS_PER_S

# What a directive tells of is a loop that was detected, whatever was asked of the agent.
_NAMES = {
    "loop_detected": "loop_detected",
    "pivot_issued": "loop_detected",
    "gate_opened": "gate_triggered",
    "gate_resolved": "gate_resolved",
    "counter_reset": "loop_counter_reset",
}


def log_record(event: GateEvent) -> dict[str, Any]:
    """Return the log record of an event: its name, task, agent and time, and what it is about."""
    name = _NAMES[event.type]
    about: dict[str, dict[str, Any]] = {
        "loop_detected": {
            **_loop(event),
            "action": event.action,
            "exact": not needs_opinion(event),
            "reasoning": event.reason,
        },
        "gate_triggered": {
            **_loop(event),
            "gate": event.gate,
            "why": event.why,
            "reason": event.reason,
            "failure_history": [asdict(failure) for failure in event.history],
        },
        "gate_resolved": {"gate": event.gate, "decision": event.decision, "note": event.note},
        "loop_counter_reset": {"reason": event.reason, "previous_count": event.loop_count},
    }
    # A log is read by people, who need no more than milliseconds; the id finds the event.
    at = datetime.fromtimestamp(event.at_ns / NS_PER_S, UTC).isoformat(timespec="milliseconds")
    common = {"event": name, "time": at, "task": event.task, "agent": event.agent}
    return {**common, **about[name], "id": event.id}


def _loop(event: GateEvent) -> dict[str, Any]:
    return {"rule": event.rule, "loop_count": event.loop_count, "signature": event.signature}
