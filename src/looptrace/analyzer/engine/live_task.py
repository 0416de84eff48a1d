"""One task of the live engine: its turns, which the core holds, and its state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from looptrace._core import LiveTurns, LiveWatch
from looptrace.analyzer.detect.stretches import Stretch
from looptrace.analyzer.engine.live_moments import Passage, Standing, still_open
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.state_machine import EVENTS_KEPT_MAX, TaskState
from looptrace.analyzer.normalize.trace_buffer import Move
from looptrace.analyzer.schema.turns import AT, STEP_SPREAD_S, TURN_KEY, TurnKey, TurnTuple
from looptrace.bounded_dict import BoundedDict

# Spans may arrive this long after newer ones of their task.
LATENESS_S = 60
# A late call may also belong to a step, which stands at the end of its first call.
HORIZON_S = LATENESS_S + STEP_SPREAD_S
# A call that comes after more than this many later parallel steps of its task is not recognised.
STEPS_KEPT_MAX = 1_000
# Turns of a task that may still move. No single agent has more in two minutes; if there are, the
# oldest are settled sooner, so that one task does not take the time of all others.
WAITING_MAX = 5_000
# If a task has turns of more traces, it is not known whether all of them have moved on.
TRACES_KEPT_MAX = 100
# Turns are settled, and those that no rule looks back on dropped, so many at a time.
SETTLED_AT_ONCE = 8

key_of = itemgetter(*(AT[name] for name in TURN_KEY))


class Group(NamedTuple):
    """Turns that were evaluated together and may still move, by their places among all of them."""

    begin: int
    end: int
    passed: Passage  # through what happened at them


@dataclass(slots=True)
class LiveTask:
    """The turns and the state that are held of one task."""

    name: str
    settled: Standing  # after the turns that can no longer move
    now: Standing  # after all turns
    turns: LiveTurns = field(default_factory=LiveTurns)
    groups: list[Group] = field(default_factory=list)  # those of them where something happened
    ended: list[Stretch] = field(default_factory=list)
    ended_now: list[Stretch] = field(default_factory=list)  # by turns that may still move
    # Agents of events by id, until their turn is settled.
    emitted: dict[str, str] = field(default_factory=dict)
    emitted_before: BoundedDict[str, None] | None = None  # ids of settled turns
    emitted_elsewhere: dict[str, None] = field(default_factory=dict)  # ids, in the task before
    decisions: list[TurnTuple] = field(default_factory=list)  # turns in which a person has decided
    # The state with a published gate whose turn has changed since: a call got its answer.
    kept: TaskState | None = None
    recalled: bool = False  # whether its state was recalled from before its turns

    @classmethod
    def of(cls, state: TaskState, *, recalled: bool = False) -> LiveTask:
        """Return a task without turns."""
        standing = Standing({}, state)
        return cls(state.task, standing, standing, recalled=recalled)

    def go_back(self, begin: int, evaluated: int) -> tuple[int, Standing]:
        """Forget what happened from a turn on that may move, or some turns before.

        So many of them are part of `now`. Return the place of the first turn to be evaluated, and
        how the task stood before it.
        """
        if begin == evaluated:
            return begin, self.now
        begin = min([group.begin for group in self.groups if group.end > begin] + [begin])
        self.groups = [group for group in self.groups if group.end <= begin]
        self.ended_now = [loop for group in self.groups for loop in group.passed.ended]
        return begin, self.groups[-1].passed.standing if self.groups else self.settled

    def keep_gate(
        self, before: TaskState, events: Iterable[GateEvent], rules: Collection[str]
    ) -> None:
        """Keep an open gate of these rules that turns no longer explain: a person resolves it."""
        resolved = {event.gate for event in events if event.type == "gate_resolved"}
        if self.kept and self.kept.gate and self.kept.gate.id in resolved:
            self.kept = None
        gate = before.gate if before.gate and before.gate.rule in rules else None
        if gate and gate.id not in resolved and not self.now.state.gate:
            self.kept, self.now = before, self.now.with_gate(before)

    def settle(self, count: int, watch: LiveWatch) -> None:
        """Settle turns that can no longer move; what was found in them is final."""
        self._settle(count, watch)
        # The core settles the turns of a calm task itself, while no reset ends its loops.
        self.turns.is_calm = not self.groups

    def _settle(self, count: int, watch: LiveWatch) -> None:
        before = count + 1
        while SETTLED_AT_ONCE <= count < before:
            before = count
            across = [group.begin for group in self.groups if group.begin < count < group.end]
            count = self.turns.settled_whole(min([*across, count]))
        if count < SETTLED_AT_ONCE:
            return
        done = [group for group in self.groups if group.end <= count]
        self._settle_events(event.id for group in done for event in group.passed.events)
        standing = done[-1].passed.standing if done else self.settled
        opened, over = still_open(standing.loops, *self.turns.settle(count, watch))
        self.settled = Standing(opened, standing.state)
        ended = [loop for group in done for loop in group.passed.ended]
        self.ended += [*ended, *over]
        del self.ended_now[: len(ended)]  # The first of them, as groups are in order.
        ends = {loop.key for loop in over}
        self.now = self.now.without(ends)
        self.groups = [
            Group(
                begin - count, end - count, passed._replace(standing=passed.standing.without(ends))
            )
            for begin, end, passed in self.groups[len(done) :]
        ]

    def _settle_events(self, ids: Iterable[str]) -> None:
        """Note the events that were sent for settled moments, which come only once."""
        for key in ids:
            self.emitted.pop(key, None)
            if self.emitted_before is None:
                self.emitted_before = BoundedDict(EVENTS_KEPT_MAX)
            self.emitted_before[key] = None

    @property
    def emitted_ever(self) -> dict[str, None]:
        """The ids of the last events that were sent for the task."""
        before = self.emitted_before or ()
        return dict.fromkeys((*before, *self.emitted_elsewhere, *self.emitted))

    def decisions_for(self, moves: Sequence[Move]) -> Iterator[TurnTuple]:
        """Yield the decisions of persons, as turns of the task that these turns move to."""
        moved: set[TurnKey] = {key for move in moves for key in move.keys}
        for turn in self.decisions:
            if key_of(turn) not in moved:
                yield (moves[0].after, *turn[1:])

    def may_go(self, moves: Sequence[Move], watch: LiveWatch) -> bool:
        """Return whether the turns of these moves can leave the task.

        They can if the task has no other turns, or if none of them is settled.
        """
        if self.recalled:
            return False
        keys = [key for move in moves for key in move.keys]
        return self.is_left_by(moves) or self.turns.may_move(keys, watch)

    @property
    def every_trace(self) -> Collection[str] | None:
        """All traces that had turns in the task; None if there may be others."""
        traces = self.turns.traces
        return None if self.recalled or len(traces) > TRACES_KEPT_MAX else traces

    def is_left_by(self, moves: Sequence[Move]) -> bool:
        """Return whether the task has only turns of traces that move as a whole."""
        traces = self.turns.traces
        whole = {move.trace_id for move in moves if move.is_whole}
        return len(traces) <= TRACES_KEPT_MAX and whole.issuperset(traces)

    @property
    def waiting(self) -> int:
        """The number of turns that may still move."""
        return len(self.turns) - self.turns.settled

    @property
    def paused(self) -> bool:
        """Whether a gate is open now."""
        return self.now.state.gate is not None


def by_task(moves: Iterable[Move]) -> dict[str, list[Move]]:
    """Return moves by the task that their turns leave."""
    leaving: dict[str, list[Move]] = {}
    for move in moves:
        leaving.setdefault(move.before, []).append(move)
    return leaving
