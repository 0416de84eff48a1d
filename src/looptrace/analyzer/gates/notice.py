"""Notices: gate events for an agent's process. The module imports neither Polars nor DuckDB."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GateNotice:
    """One gate event for an agent; `analyzer.gates.GateEvent` has more fields."""

    id: str
    type: str
    task: str
    trace_id: str
    span_id: str
    rule: str = ""
    action: str | None = None
    directive: str | None = None
    reason: str = ""
    gate: str = ""
    signature: str = ""
    attempts: int = 0
    loop_count: int = 0
    turn_first: int = 0
    turn: int = 0
    decision: str | None = None  # of a person, on the gate that is resolved
    note: str | None = None  # with the decision, for the agent
    names: tuple[str, ...] = ()  # of the task, in services that share its session with others
