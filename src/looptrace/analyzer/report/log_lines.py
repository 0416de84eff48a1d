"""Structured log records of gate events."""

from dataclasses import asdict
from typing import Any

from looptrace.analyzer.gates.event_names import NAMES
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.text.times import utc_ms


def log_record(event: GateEvent) -> dict[str, Any]:
    """Return the log record of an event: its name, task, agent, time and details."""
    name = NAMES[event.type].log
    about: dict[str, dict[str, Any]] = {
        "loop_detected": {
            **_loop(event),
            "action": event.action,
            "exact": event.exact,
            "reasoning": event.reason,
        },
        "gate_triggered": {
            **_loop(event),
            "gate": event.gate,
            "why": event.why,
            "reason": event.reason,
            "failure_history": [asdict(failure) for failure in event.history],
        },
        "gate_renamed": {
            "gate": event.gate,
            "task_before": event.task_before,
            "agent_before": event.agent_before,
        },
        "gate_unanswered": {"gate": event.gate, "reason": event.reason},
        "gate_resolved": {"gate": event.gate, "decision": event.decision, "note": event.note},
        "loop_counter_reset": {"reason": event.reason, "previous_count": event.loop_count},
    }
    # People read logs and need only milliseconds; the id finds the event.
    common = {"event": name, "time": utc_ms(event.at_ns), "task": event.task, "agent": event.agent}
    return {**common, **about[name], "id": event.id}


def _loop(event: GateEvent) -> dict[str, Any]:
    return {"rule": event.rule, "loop_count": event.loop_count, "signature": event.signature}
