"""One task of the live engine: the turns that are held of it, and how it stands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from looptrace.analyzer.detect.stretches import Key, Stretch
from looptrace.analyzer.engine.turn_block import AT, EMPTY, TurnBlock, joined
from looptrace.analyzer.fingerprint.single_turns import Turn
from looptrace.analyzer.gates.state_machine import EVENTS_KEPT_MAX, TaskState
from looptrace.analyzer.normalize.span_fields import TIME_NS_MAX
from looptrace.analyzer.normalize.trace_buffer import Move
from looptrace.analyzer.schema.turns import STEP_SPREAD_S, TURN_KEY
from looptrace.bounded_dict import BoundedDict
from looptrace.rules.turns import UNKNOWN
from looptrace.rules.vocabulary import NS_PER_S

# Spans may arrive this long after younger ones of their task.
LATENESS_S = 60
# A late call may also belong to a step that stands at its first end.
HORIZON_S = LATENESS_S + STEP_SPREAD_S
# A call that is slower than this many later parallel steps of its task is not looked for.
STEPS_KEPT_MAX = 1_000
# Of a task with turns of more traces it is not known whether all of them have moved on.
TRACES_KEPT_MAX = 100
# Before every time.
NEVER_NS = -(2**63) + HORIZON_S * NS_PER_S
# After so many turns more those that lie behind the horizon are settled, which costs as much as
# some turns; tasks that began at once do so one after the other.
TURNS_MORE = 32

_Id = tuple[str | None, ...]
key_of: Callable[[Turn], _Id] = itemgetter(*(AT[name] for name in TURN_KEY))
_step_of: Callable[[Turn], _Id] = itemgetter(AT["trace_id"], AT["step"])


class Standing(NamedTuple):
    """How a task stands after some turn: its loops that may go on, and its state."""

    loops: dict[Key, Stretch]
    state: TaskState


@dataclass(slots=True)
class LiveTask:
    """What is held of one task."""

    settled: Standing  # after the turns that cannot move any more
    now: Standing  # after all turns
    block: TurnBlock = EMPTY  # the turns that may still move, and the settled ones before them
    settled_turns: int = 0  # how many of the block
    near: TurnBlock = EMPTY  # those of the block that a turn after them depends on
    turns_max: int = TURNS_MORE  # of the block, until more are settled
    keys: set[_Id] = field(default_factory=set)  # of the turns that may still move
    open_steps: set[_Id] = field(default_factory=set)  # trace and step of those
    steps: BoundedDict[_Id, None] = field(  # trace and step, settled
        default_factory=lambda: BoundedDict(STEPS_KEPT_MAX)
    )
    newest_ns: int = NEVER_NS  # the last end
    order_ns: int = NEVER_NS  # the place of the last turn
    ended: list[Stretch] = field(default_factory=list)
    ended_now: list[Stretch] = field(default_factory=list)  # by turns that may still move
    # Agents of events by id, until their turn is settled.
    emitted: dict[str, str] = field(default_factory=dict)
    emitted_before: BoundedDict[str, None] = field(  # ids of settled turns
        default_factory=lambda: BoundedDict(EVENTS_KEPT_MAX)
    )
    emitted_elsewhere: dict[str, None] = field(default_factory=dict)  # ids, in the task before
    traces: BoundedDict[str, None] = field(  # whose turns came
        default_factory=lambda: BoundedDict(TRACES_KEPT_MAX + 1)
    )
    decisions: list[Turn] = field(default_factory=list)  # turns in which a person has decided
    recalled: bool = False  # whether its state is known from before its turns

    def add(self, turns: TurnBlock) -> None:
        """Hold turns that come after all others."""
        self.block = joined([self.block, turns])
        self.near = joined([self.near, turns])
        self.order_ns = turns.turns[-1][AT["end_ns"]]
        self.keys.update(map(key_of, turns.turns))
        self.open_steps.update(_step_of(turn) for turn in turns.turns if turn[AT["step"]])

    def last_in_order(self, new: TurnBlock) -> TurnBlock | None:
        """Return new turns in their order if they come after all turns of their task, else None.

        None too where the task has so many turns that some are to be settled.
        """
        ends = [turn[AT["end_ns"]] for turn in new.turns]
        if len(new) > 1:
            new = new.take(np.argsort(ends, kind="stable"))
            ends.sort()
        if ends[0] <= self.order_ns or len(set(ends)) < len(ends):
            return None
        steps = [_step_of(turn) for turn in new.turns if turn[AT["step"]] is not None]
        keys = {key_of(turn) for turn in new.turns}
        if len(set(steps)) < len(steps) or len(keys) < len(new) or not self.keys.isdisjoint(keys):
            return None
        if any(step in self.open_steps or step in self.steps for step in steps):
            return None
        if len(self.block) + len(new) > self.turns_max:
            return None
        new.numbers["order_ns"] = ends
        return new

    def merged(self, new: TurnBlock, gone: Collection[_Id]) -> TurnBlock:
        """Return the turns of a task that may move, with new ones; each turn counts once.

        Those that are `gone` count no more, unless they are among the new ones.
        """
        before = self.block.part(self.settled_turns, len(self.block))
        waiting = joined([before, new])
        # Of a turn that comes twice the later knows more: its result, from what a model was given.
        last = {
            key: place
            for place, turn in enumerate(waiting.turns)
            if (key := key_of(turn)) not in gone or place >= len(before)
        }
        return _apart(waiting.take(np.array(list(last.values()), dtype=np.int64)), self.steps)

    def note(self, new: TurnBlock) -> None:
        """Note whose turns came, and what a person decided."""
        for turn in new.turns:
            self.traces[turn[AT["trace_id"]]] = None
            if turn[AT["kind"]] == "user" and turn[AT["name"]] is not None:
                self.decisions.append(turn)

    @property
    def emitted_ever(self) -> dict[str, None]:
        """The ids of the last events that were told of the task."""
        return dict.fromkeys((*self.emitted_before, *self.emitted_elsewhere, *self.emitted))

    def decisions_for(self, moves: Sequence[Move]) -> Iterator[Turn]:
        """Yield what people decided, as turns of the task that these turns move to."""
        moved = {key for move in moves for key in move.keys}
        for turn in self.decisions:
            if key_of(turn) not in moved:
                yield (moves[0].after, *turn[1:])

    def may_go(self, moves: Sequence[Move]) -> bool:
        """Return whether the turns of these moves can leave the task.

        They can if it has no others, or if none of them is settled.
        """
        if self.recalled:
            return False
        return self.is_left_by(moves) or all(self.keys >= move.keys for move in moves)

    def is_left_by(self, moves: Sequence[Move]) -> bool:
        """Return whether the task has no turns but those of traces that move as a whole."""
        whole = {move.trace_id for move in moves if move.is_whole}
        return len(self.traces) <= TRACES_KEPT_MAX and whole >= self.traces.keys()

    def hold(self, kept: TurnBlock, settled: list[Turn], waiting: TurnBlock, more: int) -> None:
        """Hold the turns that may still move, and the settled ones that others depend on.

        `settled` are those that have become so, and `more` how many turns may come until the next.
        """
        for turn in settled:
            if turn[AT["step"]] is not None:
                self.steps[_step_of(turn)] = None
        self.settled_turns = len(kept)
        self.block = joined([kept, _apart(waiting, self.steps)])
        self.order_ns = int(self.block.numbers["order_ns"][-1]) if len(self.block) else NEVER_NS
        self.keys = set(map(key_of, waiting.turns))
        self.open_steps = {_step_of(turn) for turn in waiting.turns if turn[AT["step"]]}
        self.turns_max = len(self.block) + TURNS_MORE + more

    @property
    def settled_ns(self) -> int:
        """Turns that end before this come too late."""
        return self.newest_ns - HORIZON_S * NS_PER_S

    @property
    def paused(self) -> bool:
        """Whether there is an open gate now."""
        return self.now.state.gate is not None


def by_task(moves: Iterable[Move]) -> dict[str, list[Move]]:
    """Return moves by the task that their turns leave."""
    leaving: dict[str, list[Move]] = {}
    for move in moves:
        leaving.setdefault(move.before, []).append(move)
    return leaving


def settling(fresh: TurnBlock, horizon_ns: int) -> int:
    """Return how many turns lie so far back that no span in time can come to stand before them."""
    order_ns = fresh.numbers["order_ns"]
    moves_ns = order_ns[fresh.numbers["end_ns"] >= horizon_ns].min(initial=TIME_NS_MAX)
    return int(np.searchsorted(order_ns, moves_ns))


def _apart(waiting: TurnBlock, settled: Collection[_Id]) -> TurnBlock:
    """Let calls stand at their own ends where the first of their step is settled.

    They ended too long after it to stand with it, and must not stand with one another.
    """
    for place, turn in enumerate(waiting.turns):
        if settled and turn[AT["step"]] is not None and _step_of(turn) in settled:
            step = AT["step"]
            waiting.turns[place] = (*turn[:step], None, *turn[step + 1 :])
            waiting.numbers["step_code"][place] = UNKNOWN
    return waiting
