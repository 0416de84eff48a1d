"""The gate: a pure state machine over the findings of one task.

A loop that grows and a reset are *moments*. Each moment takes the state of its task to the next,
and may bring events: a warning, advice to try later, a pivot, authority, an order to move on, or a
gate. While a gate is open nothing is told but its resolution. The state depends on the moments in
their order alone, so that batch, live and a restart come to the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from looptrace.analyzer.detect.stretches import Growth
from looptrace.analyzer.gates.events import EventType, GateCause, GateEvent, TaskStatus
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.text.digests import digest
from looptrace.rules.contract import Action
from looptrace.rules.vocabulary import NS_PER_S

# Loops of one task whose counts are held; of more the oldest are forgotten, and would count anew.
LOOPS_KEPT_MAX = 200
# Loops that a task was told of; beyond, the oldest might be told once more.
TOLD_KEPT_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Reset:
    """A moment: what was counted begins anew (`counts.RESETS`)."""

    turn: int
    at_ns: int
    reason: str
    trace_id: str
    span_id: str
    call_id: str = ""  # names one of several messages that a span shows
    decision: str | None = None  # of the person
    note: str | None = None


Moment = Growth | Reset


@dataclass(frozen=True, slots=True)
class Gate:
    """An open gate: a person must decide before work goes on."""

    id: str
    rule: str
    signature: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class Counter:
    """How far one loop has come: attempts seen, and those that a directive has dealt with."""

    attempts: int
    dealt_with: int = 0
    outlasts_completion: bool = False

    @property
    def repeats(self) -> int:
        """Repeats since what was dealt with."""
        return max(self.attempts - self.dealt_with - 1, 0)


@dataclass(frozen=True, slots=True)
class TaskState:
    """How a task stands."""

    task: str
    status: TaskStatus = "active"
    gate: Gate | None = None
    pivots: int = 0
    forced: int = 0
    retries: int = 0
    retry_ns: int = 0  # before this, no further retry is advised
    granted: frozenset[str] = frozenset()  # signatures of what authority was given for
    told: Mapping[str, bool] = field(default_factory=dict)  # warnings; outlast completions or not
    loops: Mapping[str, Counter] = field(default_factory=dict)  # by the id of the finding

    @property
    def loop_count(self) -> int:
        """Repeats of the task's longest loop."""
        return max((counter.repeats for counter in self.loops.values()), default=0)


Step = tuple[TaskState, tuple[GateEvent, ...]]
T = TypeVar("T")
_NEW = Counter(0)


def advance(
    state: TaskState, moments: Iterable[Moment], recovery: Recovery
) -> tuple[TaskState, list[GateEvent]]:
    """Take a task through its moments, in their order; returns its state and what was told."""
    all_events: list[GateEvent] = []
    for moment in moments:
        state, events = advance_by_one(state, moment, recovery)
        all_events += events
    return state, all_events


def advance_by_one(state: TaskState, moment: Moment, recovery: Recovery) -> Step:
    """Take a task through one moment."""
    if isinstance(moment, Reset):
        return _reset(state, moment)
    return _grown(state, moment, recovery)


def _reset(state: TaskState, moment: Reset) -> Step:
    """Begin to count anew. An open gate is resolved by a person and by nothing else."""
    if state.gate and moment.reason != "person":
        return state, ()
    after = TaskState(state.task)
    counted = state
    if moment.reason == "completed":  # Attempts at a task that is done are counted on.
        told = {key: outlasts for key, outlasts in state.told.items() if outlasts}
        after = replace(after, forced=state.forced, loops=_loops(state, outlast=True), told=told)
        counted = replace(state, loops=_loops(state, outlast=False))
    events: list[GateEvent] = []
    if state.gate:
        gate, rule, signature = state.gate.id, state.gate.rule, state.gate.signature
        resolved = _of_reset(state, after, moment, "gate_resolved", gate)
        events.append(replace(resolved, gate=gate, rule=rule, signature=signature))
    if counted.loop_count or state.pivots or state.forced > after.forced:
        reset = _of_reset(state, after, moment, "counter_reset")
        events.append(replace(reset, loop_count=counted.loop_count, pivots=state.pivots))
    return after, tuple(events)


def _grown(state: TaskState, moment: Growth, recovery: Recovery) -> Step:
    """Count a loop on, and do what the ladder of its rule asks for."""
    if state.gate:
        return state, ()
    loop, loops = moment.loop, dict(state.loops)
    dealt_with = loops.pop(loop.id, _NEW).dealt_with
    outlasts = loop.rule.lane.outlasts_completion
    loops[loop.id] = Counter(moment.attempts, dealt_with, outlasts)
    attempts = moment.attempts - dealt_with
    state = replace(state, loops=_last(loops, LOOPS_KEPT_MAX))
    if attempts < moment.fired.needed:
        return state, ()
    action = moment.fired.rule.action(attempts, loop.seconds_at(moment.fired))
    return _ACTS[action](state, moment, recovery, attempts)


def _warn(state: TaskState, moment: Growth, _recovery: Recovery, attempts: int) -> Step:
    """Warn once, however many rules see the same."""
    loop = moment.loop
    # Figures have no signature, and what a rule sees in them no other does.
    known = all(row.sign for row in loop.first)
    key = f"{loop.agent} {loop.signature if known else loop.rule.name}"
    if key in state.told:
        return state, ()
    told = _last({**state.told, key: loop.rule.lane.outlasts_completion}, TOLD_KEPT_MAX)
    return _tell(state, replace(state, told=told), moment, "loop_detected", "warn", attempts)


def _retry_later(state: TaskState, moment: Growth, recovery: Recovery, attempts: int) -> Step:
    """Advise to wait; again, and for longer, when it failed after the wait."""
    if moment.fired.end_ns < state.retry_ns:
        return state, ()
    wait_s = recovery.wait_s(state.retries)
    retry_ns = moment.fired.end_ns + wait_s * NS_PER_S
    after = replace(state, retries=state.retries + 1, retry_ns=retry_ns)
    after, events = _tell(state, after, moment, "loop_detected", "retry_later", attempts)
    return after, tuple(replace(event, retry_after_s=wait_s) for event in events)


def _pivot(state: TaskState, moment: Growth, recovery: Recovery, attempts: int) -> Step:
    """Ask for another approach, and count the loop anew."""
    if state.pivots >= recovery.max_pivots:
        return _open(state, moment, attempts, "MAX_PIVOTS_EXCEEDED")
    after = replace(_dealt_with(state, moment), pivots=state.pivots + 1)
    return _tell(state, after, moment, "pivot_issued", "pivot", attempts)


def _force_next(state: TaskState, moment: Growth, recovery: Recovery, attempts: int) -> Step:
    """Send the agent to its next task, and clear the history of attempts."""
    if state.forced >= recovery.max_forced:
        return _open(state, moment, attempts, "MAX_FORCED_EXCEEDED")
    after = replace(_dealt_with(state, moment), forced=state.forced + 1)
    return _tell(state, after, moment, "loop_detected", "force_next", attempts)


def _unblock(state: TaskState, moment: Growth, recovery: Recovery, attempts: int) -> Step:
    """Grant authority for these blockers, once."""
    if not recovery.unblock:
        return _open(state, moment, attempts, "UNBLOCKING_OFF")
    if moment.loop.signature in state.granted:
        return _open(state, moment, attempts, "UNBLOCKING_FAILED")
    after = replace(state, granted=state.granted | {moment.loop.signature})
    return _tell(state, after, moment, "loop_detected", "unblock_authority", attempts)


def _gate(state: TaskState, moment: Growth, _recovery: Recovery, attempts: int) -> Step:
    return _open(state, moment, attempts, "LADDER")


_ACTS = {
    "warn": _warn,
    "retry_later": _retry_later,
    "pivot": _pivot,
    "force_next": _force_next,
    "unblock_authority": _unblock,
    "gate": _gate,
}


def _open(state: TaskState, moment: Growth, attempts: int, why: GateCause) -> Step:
    """Stop the task until a person has decided."""
    gate = Gate(
        id=digest(f"gate {state.task} {moment.loop.id} {moment.attempts}"),
        rule=moment.loop.rule.name,
        signature=moment.loop.signature,
        at_ns=moment.fired.end_ns,
    )
    status: TaskStatus = "blocked" if why.startswith("UNBLOCKING") else "paused_for_intervention"
    after = replace(state, status=status, gate=gate)
    after, events = _tell(state, after, moment, "gate_opened", "gate", attempts)
    return after, tuple(replace(event, gate=gate.id, why=why) for event in events)


def _dealt_with(state: TaskState, moment: Growth) -> TaskState:
    """Let the loop be counted from here."""
    counter = replace(state.loops[moment.loop.id], dealt_with=moment.attempts)
    return replace(state, loops={**state.loops, moment.loop.id: counter})


def _tell(
    before: TaskState,
    after: TaskState,
    moment: Growth,
    kind: EventType,
    action: Action,
    attempts: int,
) -> Step:
    loop, fired = moment
    event = GateEvent(
        id=digest(f"{kind} {after.task} {loop.id} {moment.attempts}"),
        type=kind,
        task=after.task,
        at_ns=fired.end_ns,
        turn=fired.turn,
        status=after.status,
        status_before=before.status,
        session=loop.first[0].session,
        trace_id=loop.trace_id[loop.index_of(fired)],
        span_id=loop.span_id[loop.index_of(fired)],
        agent=loop.agent,
        service=loop.first[0].service or "",
        action=action,
        rule=loop.rule.name,
        finding=loop.id,
        attempts=attempts,
        loop_count=attempts - 1,
        signature=loop.signature,
        turn_first=loop.first[0].turn,
        reason=loop.reason_at(fired),
        pivots=after.pivots,
        blockers=loop.blockers,
        exact=loop.exact_at(fired),
        signature_coarse=loop.signature_coarse,
    )
    return after, (event,)


def _of_reset(
    before: TaskState, after: TaskState, moment: Reset, kind: EventType, gate: str = ""
) -> GateEvent:
    at = f"{moment.trace_id} {moment.span_id} {moment.call_id}"
    return GateEvent(
        id=digest(f"{kind} {after.task} {at} {moment.reason} {gate}"),
        type=kind,
        task=after.task,
        at_ns=moment.at_ns,
        turn=moment.turn,
        status=after.status,
        status_before=before.status,
        trace_id=moment.trace_id,
        span_id=moment.span_id,
        reason=moment.reason,
        decision=moment.decision,
        note=moment.note,
    )


def _loops(state: TaskState, *, outlast: bool) -> dict[str, Counter]:
    """Return the counters that outlast a completion of the task, or those that do not."""
    return {k: c for k, c in state.loops.items() if c.outlasts_completion == outlast}


def _last(items: Mapping[str, T], count: int) -> dict[str, T]:
    """Return the last items, in their order."""
    return dict(islice(items.items(), max(len(items) - count, 0), None))
