"""One task of the live engine: the turns that are held of it, and its state."""

from __future__ import annotations

import pickle
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import NamedTuple

from looptrace import _core
from looptrace._core import CountedTurn, TaskCounts
from looptrace.analyzer.detect.loop_rows import LoopRow
from looptrace.analyzer.detect.stretches import Key, Stretch
from looptrace.analyzer.engine.live_moments import (
    Happened,
    Passage,
    Standing,
    passage,
    still_open,
)
from looptrace.analyzer.engine.turn_block import AT, TurnBlock
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.gates.state_machine import EVENTS_KEPT_MAX
from looptrace.analyzer.normalize.trace_buffer import Move
from looptrace.analyzer.schema.turns import STEP_SPREAD_S, TURN_KEY, Turn, placed
from looptrace.bounded_dict import BoundedDict
from looptrace.rules.vocabulary import NS_PER_S

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
# Before every time.
NEVER_NS = -(2**63) + HORIZON_S * NS_PER_S
_NO_MOVE_NS = 2**63 - 1  # later than any time of a span
# After this many more turns, the turns behind the horizon are settled. This costs as much as some
# turns, so tasks that began at the same time do it one after the other.
TURNS_MORE = 8

# A mark is made after at least so many turns. It takes as much memory as one or two turns.
MARK_TURNS = TURNS_MORE

# A packed task has these attributes in `packed`. Higher levels take longer and gain little.
_PACKED = ("settled_counters", "counters", "block", "waiting", "keys", "open_steps", "steps")
_PACKING_LEVEL = 1

_Id = tuple[str | None, ...]
key_of: Callable[[Turn], _Id] = itemgetter(*(AT[name] for name in TURN_KEY))
_end_of: Callable[[Turn], int] = itemgetter(AT["end_ns"])
_counted_from: Callable[[Turn], tuple[object, ...]] = itemgetter(
    *(AT[name] for name in _core.COUNTED_FROM)
)
_step_of: Callable[[Turn], _Id] = itemgetter(AT["trace_id"], AT["step"])


class Group(NamedTuple):
    """Turns that were evaluated together and may still move: how many, and what happened there."""

    turns: int
    happened: Happened


class Mark(NamedTuple):
    """A border of two groups: how many groups and waiting turns are before it, and their counts."""

    groups: int
    turns: int
    counters: TaskCounts


@dataclass(slots=True)
class LiveTask:
    """The turns and the state that are held of one task."""

    settled: Standing  # after the turns that can no longer move
    now: Standing  # after all turns
    settled_counters: TaskCounts = field(default_factory=TaskCounts)
    counters: TaskCounts = field(default_factory=TaskCounts)
    block: TurnBlock = field(default_factory=TurnBlock)  # all turns that are held
    settled_turns: int = 0  # how many of the block
    settled_since: int = 0  # how many of them since the last check for needed turns
    # The turns of the block that may still move, each with its place in the order.
    waiting: list[tuple[int, Turn]] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    turns_max: int = TURNS_MORE  # of the block, until more are settled
    keys: set[_Id] = field(default_factory=set)  # of the turns that may still move
    open_steps: set[_Id] = field(default_factory=set)  # trace and step of these turns
    steps: BoundedDict[_Id, None] | None = None  # trace and step of settled turns
    newest_ns: int = NEVER_NS  # the last end
    order_ns: int = NEVER_NS  # the place of the last turn
    settled_order_ns: int = NEVER_NS  # the place of the last settled turn
    crowded_ns: int = NEVER_NS  # Turns that end before this are settled: there are too many.
    ended: list[Stretch] = field(default_factory=list)
    ended_now: list[Stretch] = field(default_factory=list)  # by turns that may still move
    # Agents of events by id, until their turn is settled.
    emitted: dict[str, str] = field(default_factory=dict)
    emitted_before: BoundedDict[str, None] | None = None  # ids of settled turns
    emitted_elsewhere: dict[str, None] = field(default_factory=dict)  # ids, in the task before
    traces: dict[str, None] = field(default_factory=dict)  # the first traces with turns here
    decisions: list[Turn] = field(default_factory=list)  # turns in which a person has decided
    recalled: bool = False  # whether its state was recalled from before its turns
    packed: bytes | None = None  # its turns and counts, which are no attributes meanwhile
    turns_packed: int = 0

    @property
    def turns(self) -> int:
        """The number of turns that are held, packed or not."""
        return len(self.block) if self.packed is None else self.turns_packed

    def pack(self) -> None:
        """Put the turns and counts into fewer bytes, until `unpack`; marks are lost."""
        self.marks.clear()
        self.turns_packed = len(self.block)
        held = tuple(getattr(self, name) for name in _PACKED)
        for name in _PACKED:
            delattr(self, name)
        self.packed = zlib.compress(pickle.dumps(held, pickle.HIGHEST_PROTOCOL), _PACKING_LEVEL)

    def unpack(self) -> None:
        """Bring the turns and counts back if they are packed."""
        if self.packed is None:
            return
        held = pickle.loads(zlib.decompress(self.packed))  # noqa: S301 - It never left the process.
        self.packed = None
        for name, value in zip(_PACKED, held, strict=True):
            setattr(self, name, value)

    def add(
        self, turn: Turn, order_ns: int, how: _core.Counting, kinds_read: Collection[str]
    ) -> CountedTurn:
        """Count and hold the next turn."""
        one = self.counters.count(_counted_from(turn), order_ns, how)
        self.block.add(turn, one, kinds_read)
        return one

    def wait_for(self, turns: Sequence[tuple[int, Turn]]) -> None:
        """Note turns that are held and may still move."""
        self.waiting += turns
        self.order_ns = turns[-1][0]
        self.keys.update(key_of(turn) for _, turn in turns)
        self.open_steps.update(_step_of(turn) for _, turn in turns if turn[AT["step"]] is not None)
        if len(self.waiting) > WAITING_MAX:
            self.crowded_ns = max(self.crowded_ns, _end_of(self.waiting[-WAITING_MAX][1]))

    def last_in_order(self, new: Sequence[Turn]) -> list[Turn] | None:
        """Return new turns in order if they come after all turns of their task, else None."""
        turns = sorted(new, key=_end_of) if len(new) > 1 else list(new)
        ends = [_end_of(turn) for turn in turns]
        if ends[0] <= self.order_ns or len(set(ends)) < len(ends):
            return None
        keys = {key_of(turn) for turn in turns}
        if len(keys) < len(turns) or not self.keys.isdisjoint(keys):
            return None
        steps = [_step_of(turn) for turn in turns if turn[AT["step"]] is not None]
        if len(set(steps)) < len(steps):
            return None
        if any(step in self.open_steps or step in (self.steps or ()) for step in steps):
            return None
        return turns

    def merged(self, new: Sequence[Turn], gone: Collection[_Id]) -> list[tuple[int, Turn]]:
        """Return the turns of a task that may move, with new ones, in order; each counts once.

        Turns that are `gone` no longer count, unless they are among the new ones.
        """
        # If a turn comes twice, the later one knows more: its result, from the input of a model.
        last = {key: turn for _, turn in self.waiting if (key := key_of(turn)) not in gone}
        for turn in new:
            key = key_of(turn)
            last.pop(key, None)
            last[key] = turn
        return placed(_apart(turn, self.steps or ()) for turn in last.values())

    def mark(self, groups: int, turns: int) -> None:
        """Mark the border after so many groups and waiting turns, if the last mark is far away."""
        if turns - (self.marks[-1].turns if self.marks else 0) >= MARK_TURNS:
            self.marks.append(Mark(groups, turns, self.counters.copy()))

    def mark_before(self, fresh: Sequence[tuple[int, Turn]]) -> Mark | None:
        """Return the last mark before which the waiting turns are the same as these."""
        if not self.marks:
            return None
        pairs = zip(self.waiting, fresh, strict=False)
        same = next((place for place, (a, b) in enumerate(pairs) if a != b), len(self.waiting))
        end = bisect_right(self.marks, min(same, len(fresh) - 1), key=attrgetter("turns"))
        return self.marks[end - 1] if end else None

    def go_back(self, mark: Mark, recovery: Recovery) -> Standing:
        """Drop the turns and marks after a mark; return how the task stood there."""
        self.keys.difference_update(key_of(turn) for _, turn in self.waiting[mark.turns :])
        del self.waiting[mark.turns :], self.groups[mark.groups :]
        del self.marks[self.marks.index(mark) + 1 :]
        steps = (_step_of(turn) for _, turn in self.waiting if turn[AT["step"]] is not None)
        self.open_steps = set(steps)
        self.block.cut(self.settled_turns + mark.turns)
        self.counters = mark.counters.copy()
        every = [group.happened for group in self.groups if any(group.happened)]
        passed = passage(self.block.rows[0].task, self.settled, every, recovery)
        self.ended_now = [*passed.ended]
        return passed.standing

    def begin_anew(self) -> None:
        """Drop the turns that may still move from the block; they are counted again."""
        self.block.cut(self.settled_turns)
        self.waiting, self.ended_now = [], []
        self.groups.clear()
        self.marks.clear()

    def settle_anew(
        self,
        name: str,
        fresh: list[tuple[int, Turn]],
        count: int,
        final: Happened,
        recovery: Recovery,
    ) -> Passage:
        """Settle the first turns of all that may move, which are counted again."""
        begin = self.settled_turns
        passed = passage(name, self.settled, [final], recovery)
        self.settled = passed.standing
        self.ended += passed.ended
        if count:
            self._end_at(self.block.rows[begin + count - 1])
        self.hold(count, fresh)
        return passed._replace(standing=self.settled)

    def settle(self, new: Sequence[Turn], gone: Collection[_Id], recovery: Recovery) -> bool:
        """Settle the turns that can no longer move, up to a mark.

        Return False if turns must be evaluated again.

        What was found in them when they came is what would be found in them now, unless one of the
        `new` turns comes before the last of them, or one of them is `gone` or among the new ones.
        """
        self.mark(len(self.groups), len(self.waiting))
        final = settling(self.waiting, self.settled_ns)
        marks = bisect_right(self.marks, final, key=attrgetter("turns"))
        self.turns_max = len(self.block) + TURNS_MORE
        if not marks:
            return True
        groups, count, counters = self.marks[marks - 1]
        touched = {*gone, *map(key_of, new)}
        if any(_end_of(turn) < self.settled_ns for turn in new) or any(
            key_of(turn) in touched for _, turn in self.waiting[:count]
        ):
            return False
        steps = {_step_of(turn) for _, turn in self.waiting[:count] if turn[AT["step"]] is not None}
        if steps and any(_step_of(turn) in steps for _, turn in self.waiting[count:]):
            return False  # A slow call stands apart from its step from now on.
        last = self.block.rows[self.settled_turns + count - 1]
        every = [group.happened for group in self.groups[:groups] if any(group.happened)]
        passed = passage(last.task, self.settled, every, recovery)
        self.settled = passed.standing
        self.ended += passed.ended
        self.settle_events(event.id for event in passed.events)
        over = self._end_at(last)
        opened = {key: loop for key, loop in self.now.loops.items() if key not in over}
        self.now = Standing(opened, self.now.state)
        del self.ended_now[: len(passed.ended)]  # The first of them, as groups are in order.
        del self.groups[:groups]
        self.marks = [
            Mark(mark.groups - groups, mark.turns - count, mark.counters)
            for mark in self.marks[marks:]
        ]
        self.settled_counters = counters
        self.settled_counters.settle()
        self.hold(count, self.waiting)
        return True

    def _end_at(self, last: LoopRow) -> Collection[Key]:
        """End the settled loops that cannot go on after the last settled turn; return them."""
        loops, over = still_open(self.settled.loops, last)
        self.ended += over
        self.settled = Standing(loops, self.settled.state)
        return {loop.key for loop in over}

    def settle_events(self, ids: Iterable[str]) -> None:
        """Note the events that were sent for settled moments, which come only once."""
        for key in ids:
            self.emitted.pop(key, None)
            if self.emitted_before is None:
                self.emitted_before = BoundedDict(EVENTS_KEPT_MAX)
            self.emitted_before[key] = None

    def hold(self, count: int, fresh: Sequence[tuple[int, Turn]]) -> None:
        """Hold counted turns; the first `count` of them are settled."""
        for order_ns, turn in fresh[:count]:
            self.settled_order_ns = order_ns
            if turn[AT["step"]] is not None:
                if self.steps is None:
                    self.steps = BoundedDict(STEPS_KEPT_MAX)
                self.steps[_step_of(turn)] = None
        self.settled_turns += count
        self.settled_since += count
        self.order_ns = self.settled_order_ns
        waiting, self.waiting = fresh[count:], []
        self.keys.clear()
        self.open_steps.clear()
        if waiting:
            self.wait_for(waiting)

    def note(self, new: Sequence[Turn]) -> None:
        """Note the traces of new turns, their last end, and the decisions of persons."""
        for turn in new:
            self.newest_ns = max(self.newest_ns, _end_of(turn))
            if len(self.traces) <= TRACES_KEPT_MAX:
                self.traces[turn[AT["trace_id"]]] = None
            if turn[AT["kind"]] == "user" and turn[AT["name"]] is not None:
                self.decisions.append(turn)

    @property
    def emitted_ever(self) -> dict[str, None]:
        """The ids of the last events that were sent for the task."""
        before = self.emitted_before or ()
        return dict.fromkeys((*before, *self.emitted_elsewhere, *self.emitted))

    def decisions_for(self, moves: Sequence[Move]) -> Iterator[Turn]:
        """Yield the decisions of persons, as turns of the task that these turns move to."""
        moved = {key for move in moves for key in move.keys}
        for turn in self.decisions:
            if key_of(turn) not in moved:
                yield (moves[0].after, *turn[1:])

    def may_go(self, moves: Sequence[Move]) -> bool:
        """Return whether the turns of these moves can leave the task.

        They can if the task has no other turns, or if none of them is settled.
        """
        if self.recalled:
            return False
        return self.is_left_by(moves) or all(self.keys >= move.keys for move in moves)

    @property
    def every_trace(self) -> Collection[str] | None:
        """All traces that had turns in the task; None if there may be others."""
        return None if self.recalled or len(self.traces) > TRACES_KEPT_MAX else self.traces

    def is_left_by(self, moves: Sequence[Move]) -> bool:
        """Return whether the task has only turns of traces that move as a whole."""
        whole = {move.trace_id for move in moves if move.is_whole}
        return len(self.traces) <= TRACES_KEPT_MAX and whole >= self.traces.keys()

    @property
    def settled_ns(self) -> int:
        """The time before which turns that end come too late."""
        return max(self.newest_ns - HORIZON_S * NS_PER_S, self.crowded_ns)

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


def settling(waiting: Sequence[tuple[int, Turn]], horizon_ns: int) -> int:
    """Return how many turns lie so far back that no span in time can come before them."""
    moves = (order_ns for order_ns, turn in waiting if _end_of(turn) >= horizon_ns)
    moves_ns = min(moves, default=_NO_MOVE_NS)
    return bisect_left(waiting, moves_ns, key=itemgetter(0))


def _apart(turn: Turn, settled: Collection[_Id]) -> Turn:
    """Place a call at its own end if the first call of its step is settled.

    It ended too long after the first to stand with it, and it must not stand with other calls of
    the step.
    """
    step = AT["step"]
    if not settled or turn[step] is None or _step_of(turn) not in settled:
        return turn
    return (*turn[:step], None, *turn[step + 1 :])
