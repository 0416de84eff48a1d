"""The gate: a pure state machine over the findings of one task.

A *moment* is a reset, or a turn at which loops grow. Each moment changes the state of its task, and
may cause events: a warning, advice to try later, a pivot, authority, an order to move on, or a
gate. The strongest event of a turn comes first. While a gate is open the only event is its
resolution. The state depends only on the moments and their order, so batch, live and a restart
reach the same state.

The count of a ladder goes on until a reset or an order to move on. Pivots have a count of their
own, which each pivot of the task resets.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, TypeVar

from looptrace.analyzer.detect.spared_tasks import action_in
from looptrace.analyzer.detect.stretches import Firing, Growth
from looptrace.analyzer.gates.events import EventType, GateCause, GateEvent, TaskStatus
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.text.digests import digest
from looptrace.rules.contract import ACTIONS, CHECKED, Action
from looptrace.rules.vocabulary import NS_PER_S

# Loops of one task whose counts are kept; of more, the oldest are dropped.
LOOPS_KEPT_MAX = 200
# Known loops of a task; beyond, the oldest might cause an event again.
EVENTS_KEPT_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Reset:
    """A moment: counts are reset (`counts.RESETS`)."""

    turn: int
    at_ns: int
    reason: str
    trace_id: str
    span_id: str
    call_id: str = ""  # names one of several messages that a span shows
    decision: str | None = None  # of the person
    note: str | None = None


# The loops that grew at one turn.
Growths = tuple[Growth, ...]
Moment = Growths | Reset


@dataclass(frozen=True, slots=True)
class Gate:
    """An open gate: a person must decide before work goes on."""

    id: str
    rule: str
    signature: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class Counter:
    """How far one loop has come since the last reset or order to move on."""

    attempts: int
    outlasts_completion: bool = False


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of a task."""

    task: str
    status: TaskStatus = "active"
    gate: Gate | None = None
    pivots: int = 0
    pivot_turn: int = 0  # of the last pivot; 0 before the first
    forced: int = 0
    cleared_turn: int = 0  # of the last order to move on; attempts up to it do not count
    retries: int = 0
    retry_ns: int = 0  # before this, no further retry is advised
    granted: frozenset[str] = (
        frozenset()
    )  # signatures of the blockers for which authority was granted
    warnings: Mapping[str, bool] = field(default_factory=dict)  # given; outlast completions or not
    loops: Mapping[str, Counter] = field(default_factory=dict)  # by the id of the finding

    @property
    def loop_count(self) -> int:
        """Repeats of the task's longest loop."""
        attempts = max((counter.attempts for counter in self.loops.values()), default=0)
        return max(attempts - 1, 0)


Step = tuple[TaskState, tuple[GateEvent, ...]]
T = TypeVar("T")


class _Demand(NamedTuple):
    """The action that a loop asks for at a turn, and how far it has grown."""

    growth: Growth
    action: Action
    why: GateCause | None  # of a gate
    attempts: int  # since the last reset or order to move on
    entropy_count: int  # those of them since the last pivot

    @property
    def rank(self) -> tuple[int, int, str, str]:
        """The strongest comes first; equally strong ones are in the order of their check."""
        rule = self.growth.loop.rule
        strength = ACTIONS.index(self.action)
        return (-strength, CHECKED.index(rule.checked), rule.name, self.growth.loop.id)


def advance(
    state: TaskState, moments: Iterable[Moment], recovery: Recovery
) -> tuple[TaskState, list[GateEvent]]:
    """Apply the moments of a task in their order; returns its state and the events."""
    all_events: list[GateEvent] = []
    for moment in moments:
        state, events = advance_by_one(state, moment, recovery)
        all_events += events
    return state, all_events


def advance_by_one(state: TaskState, moment: Moment, recovery: Recovery) -> Step:
    """Apply one moment to a task."""
    if isinstance(moment, Reset):
        return _reset(state, moment)
    return _grown(state, moment, recovery)


def _reset(state: TaskState, moment: Reset) -> Step:
    """Reset the counts. Only a person resolves an open gate."""
    if state.gate and moment.reason != "person":
        return state, ()
    after = TaskState(state.task)
    counted = state
    if moment.reason in ("completed", "run"):  # What looks at several runs keeps its counts.
        warnings = {key: outlasts for key, outlasts in state.warnings.items() if outlasts}
        after = replace(
            after, forced=state.forced, loops=_loops(state, outlast=True), warnings=warnings
        )
        after = replace(after, pivot_turn=state.pivot_turn, cleared_turn=state.cleared_turn)
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


def _grown(state: TaskState, moment: Growths, recovery: Recovery) -> Step:
    """Add to the counts of loops, and apply the ladders of their rules, the strongest first."""
    if state.gate:
        return state, ()
    state = counted = _counted(state, moment)
    demands = [demand for growth in moment if (demand := _demand(state, growth, recovery))]
    events: list[GateEvent] = []
    leaves_alone = recovery.leaves_alone(state.task)
    for demand in sorted(demands, key=lambda demand: demand.rank):
        # An event of this turn may also satisfy the next demand.
        again = demand if state is counted else _demand(state, demand.growth, recovery)
        # A limit holds in each task: it bounds what being left alone may cost.
        is_alone = leaves_alone and demand.growth.loop.rule.checked == "with_loops"
        if again and again.action == demand.action:
            act = _leave_alone if is_alone else _ACTS[demand.action]
            state, new = act(state, demand, recovery)
            events += new
        if demand.action in _LAST and not is_alone:
            break
    return state, tuple(events)


def _counted(state: TaskState, moment: Growths) -> TaskState:
    loops = dict(state.loops)
    for loop, fired in moment:
        loops.pop(loop.id, None)
        attempts = loop.attempts_since(state.cleared_turn, fired)
        loops[loop.id] = Counter(attempts, loop.rule.lane.outlasts_completion)
    return replace(state, loops=_last(loops, LOOPS_KEPT_MAX))


def _demand(state: TaskState, growth: Growth, recovery: Recovery) -> _Demand | None:
    """Return the demand of a loop; None if its event was sent, or the loop is too short."""
    loop, fired = growth
    attempts = loop.attempts_since(state.cleared_turn, fired)
    if attempts < fired.needed:
        return None
    entropy = loop.attempts_since(max(state.cleared_turn, state.pivot_turn), fired)
    action = action_in(state.task, fired.rule, attempts, loop.seconds_at(fired))
    was_told = {
        "warn": _key(growth) in state.warnings,
        "retry_later": fired.end_ns < state.retry_ns,
        "pivot": entropy < _attempts_of_pivot(fired),
    }
    if was_told.get(action):
        return None
    why = _cause(state, action, loop.signature, recovery)
    return _Demand(growth, "gate" if why else action, why, attempts, entropy)


def _cause(
    state: TaskState, action: Action, signature: str, recovery: Recovery
) -> GateCause | None:
    """Return why a person must decide; None if an action is tried instead."""
    causes: dict[GateCause, bool] = {
        "LADDER": action == "gate",
        "MAX_PIVOTS_EXCEEDED": action == "pivot" and state.pivots >= recovery.max_pivots,
        "MAX_FORCED_EXCEEDED": action == "force_next" and state.forced >= recovery.max_forced,
        "UNBLOCKING_OFF": action == "unblock_authority" and not recovery.unblock,
        "UNBLOCKING_FAILED": action == "unblock_authority" and signature in state.granted,
    }
    return next((cause for cause, holds in causes.items() if holds), None)


def _attempts_of_pivot(fired: Firing) -> int:
    """Return the attempts since the last pivot that cause the next one."""
    rungs = (rung.attempts for rung in fired.rule.ladder if rung.action == "pivot")
    return max(next(rungs, 0), fired.needed)


def _key(growth: Growth) -> str:
    """Return the key of a warning: rules that see the same loop warn once."""
    loop = growth.loop
    # Figures have no signature, and no other rule sees the same in them.
    known = all(row.sign for row in loop.first)
    return f"{loop.agent} {loop.signature if known else loop.rule.name}"


def _leave_alone(state: TaskState, demand: _Demand, _recovery: Recovery) -> Step:
    """Note once what would have been done about a loop, and do nothing."""
    key = f"{demand.action} {_key(demand.growth)}"
    if key in state.warnings:
        return state, ()
    outlasts = demand.growth.loop.rule.lane.outlasts_completion
    after = replace(state, warnings=_last({**state.warnings, key: outlasts}, EVENTS_KEPT_MAX))
    after, events = _emit(state, after, demand, "loop_detected")
    return after, tuple(replace(event, action=None) for event in events)


def _warn(state: TaskState, demand: _Demand, _recovery: Recovery) -> Step:
    """Warn once, however many rules see the same loop."""
    outlasts = demand.growth.loop.rule.lane.outlasts_completion
    warnings = _last({**state.warnings, _key(demand.growth): outlasts}, EVENTS_KEPT_MAX)
    return _emit(state, replace(state, warnings=warnings), demand, "loop_detected")


def _retry_later(state: TaskState, demand: _Demand, recovery: Recovery) -> Step:
    """Advise to wait; again, and longer, after a failure following the wait."""
    wait_s = recovery.wait_s(state.retries)
    retry_ns = demand.growth.fired.end_ns + wait_s * NS_PER_S
    after = replace(state, retries=state.retries + 1, retry_ns=retry_ns)
    after, events = _emit(state, after, demand, "loop_detected")
    return after, tuple(replace(event, retry_after_s=wait_s) for event in events)


def _pivot(state: TaskState, demand: _Demand, _recovery: Recovery) -> Step:
    """Ask for another approach, and reset the count for the next pivot."""
    turn = demand.growth.fired.turn
    after = replace(state, pivots=state.pivots + 1, pivot_turn=turn)
    return _emit(state, after, demand, "pivot_issued")


def _force_next(state: TaskState, demand: _Demand, _recovery: Recovery) -> Step:
    """Send the agent to its next task, and clear the counts of every rule."""
    turn = demand.growth.fired.turn
    after = TaskState(state.task, forced=state.forced + 1, cleared_turn=turn)
    return _emit(state, after, demand, "loop_detected")


def _unblock(state: TaskState, demand: _Demand, _recovery: Recovery) -> Step:
    """Grant authority for these blockers, once."""
    after = replace(state, granted=state.granted | {demand.growth.loop.signature})
    return _emit(state, after, demand, "loop_detected")


def _open(state: TaskState, demand: _Demand, _recovery: Recovery) -> Step:
    """Stop the task until a person has decided."""
    loop, fired = demand.growth
    gate = Gate(
        id=digest(f"gate {loop.id} {demand.growth.attempts}"),
        rule=loop.rule.name,
        signature=loop.signature,
        at_ns=fired.end_ns,
    )
    why = demand.why or "LADDER"
    status: TaskStatus = "blocked" if why.startswith("UNBLOCKING") else "paused_for_intervention"
    after, events = _emit(state, replace(state, status=status, gate=gate), demand, "gate_opened")
    return after, tuple(replace(event, gate=gate.id, why=why) for event in events)


_ACTS: Mapping[Action, Callable[[TaskState, _Demand, Recovery], Step]] = {
    "warn": _warn,
    "retry_later": _retry_later,
    "pivot": _pivot,
    "force_next": _force_next,
    "unblock_authority": _unblock,
    "gate": _open,
}
# After these a turn causes no more events: the task waits, or is left.
_LAST = ("gate", "force_next")


def _emit(before: TaskState, after: TaskState, demand: _Demand, kind: EventType) -> Step:
    loop, fired = demand.growth
    event = GateEvent(
        id=digest(f"{kind} {loop.id} {demand.growth.attempts}"),
        type=kind,
        task=after.task,
        at_ns=fired.end_ns,
        turn=fired.turn,
        status=after.status,
        status_before=before.status,
        session=loop.first[0].session,
        trace_id=loop.trace_id[loop.index_of(fired)],
        span_id=loop.span_id[loop.index_of(fired)],
        agent=loop.agent_at(fired),
        service=loop.first[0].service or "",
        action=demand.action,
        rule=loop.rule.name,
        finding=loop.id,
        attempts=demand.attempts,
        loop_count=demand.attempts - 1,
        entropy_count=demand.entropy_count,
        signature=loop.signature,
        turn_first=loop.first[0].turn,
        reason=loop.reason_at(fired),
        pivots=max(before.pivots, after.pivots),
        blockers=loop.blockers,
        tools=loop.tools,
        exact=loop.exact_at(fired),
        signature_coarse=loop.signature_coarse,
    )
    return after, (event,)


def _of_reset(
    before: TaskState, after: TaskState, moment: Reset, kind: EventType, gate: str = ""
) -> GateEvent:
    at = f"{moment.trace_id} {moment.span_id} {moment.call_id}"
    # A message belongs to one task, whose name may come late; an attempt also to its session.
    whose = "" if moment.reason in ("person", "message") else after.task
    return GateEvent(
        id=digest(f"{kind} {whose} {at} {moment.reason} {gate}"),
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
