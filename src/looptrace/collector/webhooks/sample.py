"""A sample event to test a receiver."""

import time

from looptrace.analyzer.gates.events import GateEvent


def sample_event() -> GateEvent:
    """Return an event that says that it is a sample."""
    now_ns = time.time_ns()
    return GateEvent(
        id=f"sample{now_ns:x}",
        type="gate_opened",
        task="sample",
        at_ns=now_ns,
        turn=5,
        status="paused_for_intervention",
        status_before="active",
        agent="sample",
        action="gate",
        rule="repeated_call",
        gate="sample",
        why="LADDER",
        attempts=5,
        loop_count=4,
        signature="sample",
        turn_first=1,
        reason="a sample, sent by hand to test the webhook; nothing loops",
    )
