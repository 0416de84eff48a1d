"""The live driver: turns in as they arrive, findings out, the same as in batch.

For each task the engine keeps the turns that may still move, and as many of the settled turns
before them as the rules look back on. A turn is settled when it lies `HORIZON_S` before the newest
of its task. Turns that arrive later than that are counted as late and left out. A turn that comes
after all others of its task is counted and evaluated alone, by the functions that serve batch. If a
turn comes before others, all turns that may still move are counted and evaluated again, starting
from the settled ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from looptrace.analyzer.detect.evaluate import kinds_read, stretches_in
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.single_columns import SingleTurn, encode_turn
from looptrace.analyzer.detect.stretches import Growth, Stretch, continue_stretches
from looptrace.analyzer.engine.batch import finding_of, in_order, openings_of
from looptrace.analyzer.engine.live_lookback import bounds_of, lookbacks_of, needed
from looptrace.analyzer.engine.live_moments import Happened, moments_in, still_open
from looptrace.analyzer.engine.live_task import (
    HORIZON_S,
    TURNS_MORE,
    Group,
    LiveTask,
    Standing,
    by_task,
    settling,
)
from looptrace.analyzer.engine.live_tasks import LiveTasks
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.engine.turn_block import (
    AT,
    gather_from,
    reset_at,
    rows_of,
    seen_of,
)
from looptrace.analyzer.fingerprint.single_turns import Turn
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.state_machine import TaskState, advance
from looptrace.analyzer.gates.timeline import with_history
from looptrace.analyzer.normalize.call_matches import TurnKey
from looptrace.analyzer.normalize.trace_buffer import Move
from looptrace.rules.turns import KINDS
from looptrace.rules.vocabulary import NS_PER_S

# Up to this many turns of a task that come at once and in order are each counted alone, and more if
# more than that would be counted again with them.
TOGETHER_MAX = TURNS_MORE
# If more turns are counted again, all rules evaluate them; no rule is asked about each turn.
ASKED_MAX = 64


@dataclass(frozen=True, slots=True)
class Fed:
    """The results of a feed: loops that opened or grew, new events, and current states of tasks."""

    loops: list[Stretch]
    events: list[GateEvent]
    states: list[TaskState]
    openings: dict[str, Finding] = field(default_factory=dict)  # as `Detection` has them
    # Events that were sent for another task before its turns were known to belong to this one.
    moved: list[GateEvent] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """The findings that opened or grew, with evidence as long as their loops."""
        return in_order([finding_of(loop) for loop in self.loops])


@dataclass(slots=True)
class _Part:
    """Turns of one task that are evaluated, after other turns that the task holds."""

    task: LiveTask
    begin: int  # place of the first of them in the block of the task
    asked: set[str] = field(default_factory=set)  # rules that may fire at them
    asked_all: bool = False
    # If they are all turns that may still move: these turns, and how many of them are settled now.
    anew: list[tuple[int, Turn]] | None = None
    settles: int = 0
    final: Happened = field(default_factory=lambda: Happened([], []))  # at settled turns
    moving: Happened = field(default_factory=lambda: Happened([], []))  # at turns that may move


class LiveEngine:
    """Finds loops in turns as they arrive, in any batches and however tasks interleave."""

    def __init__(
        self,
        policy: DetectionPolicy = DEFAULT,
        recall: Callable[[str], TaskState] = TaskState,
        tasks_max: int | None = None,
    ) -> None:
        """Evaluate by this policy.

        If there are more tasks than `tasks_max`, those fed longest ago are dropped. `recall` gives
        the state of a task that is fed and not held, so that a gate outlasts the drop.
        """
        self._policy = policy
        self._rules = policy.rule_set
        self.late = 0  # turns left out because they came too late
        self._tasks = LiveTasks(policy.rule_set.counting, recall, tasks_max)
        self._forms = policy.rule_set.forms()
        self._kinds_read = kinds_read(self._forms)
        self._bounds = [bounds_of(kind, self._forms, policy.rule_set) for kind in KINDS]
        self._lookbacks = lookbacks_of(self._forms)
        self._stagger = 0

    def __len__(self) -> int:
        """Return the number of tasks that are held."""
        return len(self._tasks)

    @property
    def evicted(self) -> int:
        """The number of tasks that were dropped to make room for others."""
        return self._tasks.evicted

    @property
    def kept(self) -> int:
        """The number of turns that are held, for all tasks."""
        return sum(task.turns for task in self._tasks.every())

    def may_move(self, moves: Sequence[Move]) -> list[bool]:
        """Return for each move whether its turns can leave their task and reach the other in time.

        Of the turns that would leave a task together, all can leave or none.
        """
        may = {name: self._may_leave(name, mine) for name, mine in by_task(moves).items()}
        return [may[move.before] for move in moves]

    def _may_leave(self, name: str, moves: Sequence[Move]) -> bool:
        if name not in self._tasks or not self._tasks[name].may_go(moves):
            return False
        others = ((self._tasks.peek(move.after), move.first_ns) for move in moves)
        return all(not other or first_ns >= other.settled_ns for other, first_ns in others)

    def feed(self, turns: pl.DataFrame) -> Fed:
        """Take turns (`TURN_SCHEMA`) in any order; return what is new because of them."""
        return self.take(rows_of(turns))

    def take(
        self,
        turns: Sequence[Turn],
        gone: Iterable[tuple[str, TurnKey]] = (),
        moves: Sequence[Move] = (),
    ) -> Fed:
        """Take turns in any order; return what is new because of them.

        Turns that are `gone` are no longer in the task that is named with them, unless they are
        settled there. Turns that moved, as `may_move` allowed, are among the turns.
        """
        fed = Fed([], [], [])
        decisions = self._moved(moves, fed)
        parts = self._parts(self._in_time([*turns, *decisions]), self._held(gone))
        self._evaluate([part for part in parts.values() if part.asked])
        for name, part in parts.items():
            self._take(name, part, fed)
        fed_tasks = [part.task for part in parts.values()]
        self._keep([task for task in fed_tasks if task.settled_since])
        self._tasks.end_round(fed_tasks)
        return fed

    def _moved(self, moves: Sequence[Move], fed: Fed) -> list[Turn]:
        """Prepare tasks for turns that move between them; return decisions that move too.

        A task that all turns leave is dropped.
        """
        decisions: list[Turn] = []
        for name, mine in by_task(moves).items():
            left = self._tasks[name]
            self._tasks.touch(dict.fromkeys(move.after for move in mine))
            for move in mine:
                self._tasks[move.after].emitted_elsewhere.update(left.emitted_ever)
            if left.is_left_by(mine):
                decisions += left.decisions_for(mine)
                self._tasks.drop([name])
                fed.states.append(TaskState(name))
        return decisions

    def _held(self, gone: Iterable[tuple[str, TurnKey]]) -> dict[str, set[TurnKey]]:
        """Return by task the turns that may still move."""
        held: dict[str, set[TurnKey]] = {}
        for name, key in gone:
            if name in self._tasks and key in self._tasks[name].keys:
                held.setdefault(name, set()).add(key)
        return held

    def _in_time(self, turns: Iterable[Turn]) -> dict[str, list[Turn]]:
        """Return the turns of each task that come in time."""
        arrived: dict[str, list[Turn]] = {}
        for turn in turns:
            arrived.setdefault(turn[AT["task"]], []).append(turn)
        self._tasks.touch(arrived)
        in_time: dict[str, list[Turn]] = {}
        for name, mine in arrived.items():
            settled_ns = self._tasks[name].settled_ns
            kept = [turn for turn in mine if turn[AT["end_ns"]] >= settled_ns]
            self.late += len(mine) - len(kept)
            if kept:
                in_time[name] = kept
        return in_time

    def _parts(
        self, arrived: dict[str, list[Turn]], gone: Mapping[str, Collection[TurnKey]]
    ) -> dict[str, _Part]:
        """Count turns; return the turns of each task to be evaluated.

        For most tasks these are the new turns. They are all turns that may still move if a new turn
        does not come last, a turn is gone, or more come at once than were there, because most may
        be settled.
        """
        parts: dict[str, _Part] = {}
        for name, new in arrived.items():
            task = self._tasks[name]
            task.note(new)
            last = None
            if name not in gone and len(new) <= max(TOGETHER_MAX, len(task.waiting)):
                last = task.last_in_order(new)
            if last is not None and len(task.block) + len(new) > task.turns_max:
                last = last if task.settle(self._policy.recovery) else None
            if last is None:
                parts[name] = self._all_anew(task, task.merged(new, gone.get(name, ())))
            else:
                parts[name] = self._in_order(task, last)
        for name in gone.keys() - arrived.keys():
            task = self._tasks[name]
            parts[name] = self._all_anew(task, task.merged((), gone[name]))
        return parts

    def _in_order(self, task: LiveTask, turns: Sequence[Turn]) -> _Part:
        """Count turns that come last, and find the rules that may fire at them."""
        part = _Part(task, len(task.block))
        for turn in turns:
            self._add(part, encode_turn(turn, turn[AT["end_ns"]]), part.moving)
        task.wait_for([(turn[AT["end_ns"]], turn) for turn in turns])
        return part

    def _all_anew(self, task: LiveTask, fresh: list[tuple[int, Turn]]) -> _Part:
        """Count again all turns that may still move; some of them are settled now."""
        part = _Part(task, task.settled_turns, anew=fresh)
        if len(fresh) > ASKED_MAX:
            part.asked_all = True
            part.asked.update(forms.name for forms in self._forms)
        part.settles = settling(fresh, task.settled_ns)
        task.block.cut(part.begin)
        task.counters = task.settled_counters
        for place, (order_ns, turn) in enumerate(fresh):
            if place == part.settles:
                task.counters = task.settled_counters.copy()
            happened = part.final if place < part.settles else part.moving
            self._add(part, encode_turn(turn, order_ns), happened)
        if task.counters is task.settled_counters:
            task.counters = task.settled_counters.copy()
        task.settled_counters.steps.clear()
        return part

    def _add(self, part: _Part, one: SingleTurn, happened: Happened) -> None:
        """Count and hold a turn, and find the rules that may fire at it."""
        if not part.asked_all:
            part.task.block.compare(one)
        part.task.add(one, self._kinds_read)
        if reset := reset_at(one):
            happened.resets.append(reset)
        if not part.asked_all:
            bounds = self._bounds[one.kind]
            part.asked.update(
                name
                for name, rule in bounds
                if name not in part.asked and (rule is None or rule.may_fire(one))
            )

    def _evaluate(self, parts: Sequence[_Part]) -> None:
        """Evaluate the turns by the rules that may fire, and add the stretches to the parts."""
        if not parts:
            return
        blocks = [part.task.block for part in parts]
        ends = np.cumsum([len(block) for block in blocks]).tolist()
        settles, moves = np.zeros((2, ends[-1]), dtype=np.bool_)
        for part, end in zip(parts, ends, strict=True):
            begin = end - len(part.task.block) + part.begin
            settles[begin : begin + part.settles] = True
            moves[begin + part.settles : end] = True
        asked = set[str]().union(*(part.asked for part in parts))
        every = [forms for forms in self._forms if forms.name in asked]
        seen = seen_of(blocks, settles | moves, self._rules, self._kinds_read)
        final, moving = stretches_in(seen, every, gather_from(blocks), (settles, moves))
        by_task = {part.task.block.rows[0].task: part for part in parts if len(part.task.block)}
        for loop in final:
            by_task[loop.task].final.loops.append(loop)
        for loop in moving:
            by_task[loop.task].moving.loops.append(loop)

    def _take(self, name: str, part: _Part, fed: Fed) -> None:
        """Advance a task through what happened in its fresh turns; each event is sent once."""
        task, recovery, moving = part.task, self._policy.recovery, part.moving
        before, grown, over = task.now, list[Growth](), list[GateEvent]()
        since = before
        if part.anew is not None:
            update = continue_stretches(task.settled.loops, part.final.loops)
            moments = moments_in(name, part.final, update.grown)
            state, over = advance(task.settled.state, moments, recovery)
            open_loops, over_loops = update.opened, list[Stretch]()
            if part.settles:
                last = task.block.rows[part.begin + part.settles - 1]
                open_loops, over_loops = still_open(open_loops, last)
            since = task.settled = Standing(open_loops, state)
            task.ended += [*update.ended, *over_loops]
            task.ended_now = []
            grown += update.grown
            task.groups.clear()
            task.hold(part.settles, part.anew)
        if task.waiting:
            count = len(task.block) - part.begin - part.settles
            task.groups.append(Group(count, moving))
        if part.anew is None and not moving.loops and not moving.resets:
            fed.states.append(before.state)
            return
        now = continue_stretches(since.loops, moving.loops)
        state, late = advance(since.state, moments_in(name, moving, now.grown), recovery)
        task.now = Standing(now.opened, state)
        task.ended_now += now.ended
        # An agent that is named late changes an event that was sent; it is not a new event.
        new = {each.id: each for each in (*over, *late) if task.emitted.get(each.id) != each.agent}
        moved = {key for key in new if key in task.emitted_elsewhere or key in task.emitted}
        task.emitted |= {key: event.agent for key, event in new.items()}
        task.settle_events(event.id for event in over)  # Settled moments come only once.
        events = list(new.values())
        if any(event.type == "gate_opened" for event in events):
            rows = task.block.frame()
            events = with_history(events, rows, recovery.history_max)
            fed.openings.update(openings_of(events, [*grown, *now.grown], rows))
        known = before.loops
        fed.loops.extend(loop for loop in now.ended if loop not in known.values())
        fed.loops.extend(loop for key, loop in now.opened.items() if loop != known.get(key))
        fed.states.append(state)
        for event in events:
            (fed.moved if event.id in moved else fed.events).append(event)

    def _keep(self, tasks: Sequence[LiveTask]) -> None:
        """Drop the settled turns that no other turns depend on."""
        if not tasks:
            return
        counts = [task.settled_turns for task in tasks]
        blocks = [task.block for task in tasks]
        wanted = needed(blocks, counts, self._lookbacks, self._policy.recovery.history_max)
        borders = np.cumsum([0, *counts]).tolist()
        for task, begin, count in zip(tasks, borders, counts, strict=False):
            places = wanted[begin : begin + count].nonzero()[0].tolist()
            task.block.keep(places, count)
            task.settled_turns, task.settled_since = len(places), 0
            self._stagger = (self._stagger + 1) % TURNS_MORE
            task.turns_max = len(task.block) + TURNS_MORE + self._stagger

    def forget(self, now_ns: int) -> int:
        """Drop idle tasks that wait for nobody; return how many there were.

        Counts start again after such a pause, so a task that goes on loses only the numbers of its
        turns.
        """
        return self._tasks.forget(now_ns - (self._rules.counting.idle_s + HORIZON_S) * NS_PER_S)

    def findings(self) -> list[Finding]:
        """Return every finding so far, by task, first turn and rule."""
        tasks = self._tasks.every()
        every = (loop for t in tasks for loop in (*t.ended, *t.ended_now, *t.now.loops.values()))
        return in_order([finding_of(loop) for loop in every])
