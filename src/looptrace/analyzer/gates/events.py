"""Gate events, which are sent to agents and people."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from looptrace.analyzer.schema.service_versions import Versions
from looptrace.rules.contract import Action

EventType = Literal[
    "loop_detected",
    "pivot_issued",
    "gate_opened",
    "gate_renamed",
    "gate_unanswered",
    "gate_resolved",
    "counter_reset",
]


TaskStatus = Literal["active", "paused_for_intervention", "blocked"]


# The reasons of a gate; the first is the ladder of a rule. The last is that of an end by default.
GateCause = Literal[
    "LADDER",
    "MAX_PIVOTS_EXCEEDED",
    "MAX_FORCED_EXCEEDED",
    "UNBLOCKING_OFF",
    "UNBLOCKING_FAILED",
    "UNANSWERED",
]


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed turn in a gate's history."""

    turn: int
    at_ns: int
    agent: str
    label: str
    signature: str | None
    error_kind: str | None
    error_type: str | None
    error: str | None
    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class GateEvent:
    """A gate event: its type, its loop, and the state of the task.

    `attempts` and `loop_count` count since the last reset or order to move on, and `entropy_count`
    also since the last pivot before the event. The id is the same whenever and in however many
    parts the same turns are evaluated.
    """

    id: str
    type: EventType
    task: str
    at_ns: int
    turn: int
    status: TaskStatus  # of the task, after the event
    status_before: TaskStatus
    session: str = ""
    trace_id: str = ""
    span_id: str = ""
    agent: str = ""
    service: str = ""
    action: Action | None = None
    rule: str = ""
    finding: str = ""
    gate: str = ""  # id of the gate that the event opens or resolves
    why: GateCause | None = None
    attempts: int = 0
    loop_count: int = 0
    entropy_count: int = 0
    signature: str = ""
    turn_first: int = 0
    reason: str = ""
    pivots: int = 0  # issued to the task so far; of a reset, before it
    retry_after_s: int = 0
    blockers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()  # names of the tools that one round of the loop calls, in order
    decision: str | None = None
    note: str | None = None
    history: tuple[Failure, ...] = ()  # of a gate: the last failures before it
    exact: bool = True  # the loop's turns are an exact match
    signature_coarse: str = ""  # the key to notes of similar loops; "" if there is none
    # Of a gate that is renamed: the names under which its last event was sent.
    task_before: str = ""
    agent_before: str = ""
    service_version: str = ""  # of a gate: the version of its service; "" where it is unknown

    @property
    def is_left_alone(self) -> bool:
        """Whether the event is sent to nobody, because its task is left alone."""
        return self.type == "loop_detected" and self.action is None


def with_service_versions(events: Iterable[GateEvent], versions: Versions) -> list[GateEvent]:
    """Return events; openings have the version of their service in their trace, where it is known.

    It is no part of what an event is: its id stays.
    """
    return [
        replace(event, service_version=versions.get((event.trace_id, event.service), ""))
        if event.type == "gate_opened"
        else event
        for event in events
    ]
