"""The live driver: turns as they arrive in, findings out, the same as in batch.

Of each task the engine keeps the turns that may still move, and of the settled ones before them
as many as the rules look back on. A turn is settled when it lies `HORIZON_S` before the newest of
its task; what arrives later than that is counted and left out. A turn that comes after all others
of its task is counted on and judged alone, by the functions that serve batch. Where it comes before
some, all that may still move are counted and judged anew, on from the settled ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from looptrace.analyzer.detect.counters import carriers
from looptrace.analyzer.detect.evaluate import kinds_read, stretches_in
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.stretches import Growth, Stretch, continue_stretches
from looptrace.analyzer.engine.batch import finding_of, in_order, openings_of
from looptrace.analyzer.engine.live_moments import Happened, happened_to, moments_in, still_open
from looptrace.analyzer.engine.live_task import (
    HORIZON_S,
    TURNS_MORE,
    LiveTask,
    Standing,
    by_task,
    settling,
)
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.engine.turn_block import (
    AT,
    EMPTY,
    TurnBlock,
    count_on,
    encoded,
    gather_from,
    joined,
    put_in_order,
    rows_of,
    seen_of,
    turns_of,
)
from looptrace.analyzer.fingerprint.single_turns import Turn
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.state_machine import TaskState, advance
from looptrace.analyzer.gates.timeline import with_history
from looptrace.analyzer.normalize.call_matches import TurnKey
from looptrace.analyzer.normalize.trace_buffer import Move
from looptrace.rules.turns import LaneSpec
from looptrace.rules.vocabulary import NS_PER_S


@dataclass(frozen=True, slots=True)
class Fed:
    """What turns brought: loops that opened or grew, new events, and the tasks' states now."""

    loops: list[Stretch]
    events: list[GateEvent]
    states: list[TaskState]
    openings: dict[str, Finding] = field(default_factory=dict)  # as `Detection` has them
    # Events that were told of another task, before its turns were known to be of this one.
    moved: list[GateEvent] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """The findings that opened or grew, whose evidence is as long as their loops."""
        return in_order([finding_of(loop) for loop in self.loops])


class _Part(NamedTuple):
    """Turns of one task that are evaluated, after others that they are counted on from."""

    name: str
    before: TurnBlock
    fresh: TurnBlock
    # How many of the fresh are settled now; None where they are only the turns that are new, and
    # not all that may still move.
    settles: int | None = None


class LiveEngine:
    """Finds loops in turns as they arrive, in any batches and however tasks interleave."""

    def __init__(
        self,
        policy: DetectionPolicy = DEFAULT,
        recall: Callable[[str], TaskState] = TaskState,
        tasks_max: int | None = None,
    ) -> None:
        """Judge by these rules.

        Of more tasks than `tasks_max` those are let go that were fed longest ago. `recall` says how
        a task stands that is fed and not held, so that a gate outlasts that.
        """
        self._policy = policy
        self._rules = policy.rule_set
        self.late = 0  # turns left out because they came too late
        self.evicted = 0  # tasks let go to make room for others
        self._recall = recall
        self._tasks_max = tasks_max
        self._tasks: dict[str, LiveTask] = {}  # the one that was fed last comes last
        self._forms = policy.rule_set.forms()
        self._kinds_read = kinds_read(self._forms)
        self._lookbacks: dict[LaneSpec, int] = {}
        for forms in self._forms:
            furthest = max(self._lookbacks.get(forms.lane, 1), forms.lookback)
            self._lookbacks[forms.lane] = furthest
        self._stagger = 0

    def __len__(self) -> int:
        """How many tasks are held."""
        return len(self._tasks)

    @property
    def kept(self) -> int:
        """How many turns are held, of all tasks."""
        return sum(len(task.block) for task in self._tasks.values())

    def may_move(self, moves: Sequence[Move]) -> list[bool]:
        """Return of each move whether its turns can leave their task, and reach the other in time.

        Of the turns that would leave a task together all do, or none.
        """
        may = {name: self._may_leave(name, mine) for name, mine in by_task(moves).items()}
        return [may[move.before] for move in moves]

    def _may_leave(self, name: str, moves: Sequence[Move]) -> bool:
        if name not in self._tasks or not self._tasks[name].may_go(moves):
            return False
        others = ((self._tasks.get(move.after), move.first_ns) for move in moves)
        return all(not other or first_ns >= other.settled_ns for other, first_ns in others)

    def feed(self, turns: pl.DataFrame) -> Fed:
        """Take turns (`TURN_SCHEMA`) in any order; returns what is new because of them."""
        return self.take(rows_of(turns))

    def take(
        self,
        turns: Sequence[Turn],
        gone: Iterable[tuple[str, TurnKey]] = (),
        moves: Sequence[Move] = (),
    ) -> Fed:
        """Take turns in any order; returns what is new because of them.

        Turns that are `gone` are no more in the task that is named with them, unless they are
        settled there. Those that have moved, as `may_move` has said, are among the turns.
        """
        fed = Fed([], [], [])
        decisions = self._moved(moves, fed)
        parts = self._parts(self._in_time([*turns, *decisions]), self._held(gone))
        if not parts:
            return fed
        parts, happened = self._evaluated(parts)
        for part, (final, moving) in zip(parts, happened, strict=True):
            self._take(part, final, moving, fed)
        self._keep([part for part in parts if part.settles is not None])
        self._evict()
        return fed

    def _moved(self, moves: Sequence[Move], fed: Fed) -> list[Turn]:
        """Prepare tasks for turns that move between them; returns what people decided of those.

        A task that all turns leave is let go.
        """
        decisions: list[Turn] = []
        for name, mine in by_task(moves).items():
            left = self._tasks[name]
            self._touch(dict.fromkeys(move.after for move in mine))
            for move in mine:
                self._tasks[move.after].emitted_elsewhere.update(left.emitted_ever)
            if left.is_left_by(mine):
                decisions += left.decisions_for(mine)
                self._let_go([name])
                fed.states.append(TaskState(name))
        return decisions

    def _held(self, gone: Iterable[tuple[str, TurnKey]]) -> dict[str, set[TurnKey]]:
        """Return by task those of the turns that may still move."""
        held: dict[str, set[TurnKey]] = {}
        for name, key in gone:
            if name in self._tasks and key in self._tasks[name].keys:
                held.setdefault(name, set()).add(key)
        return held

    def _in_time(self, turns: Sequence[Turn]) -> dict[str, TurnBlock]:
        """Return the turns of each task that do not come too late, with their codes."""
        if not turns:
            return {}
        places: dict[str, list[int]] = {}
        for place, turn in enumerate(turns):
            places.setdefault(turn[AT["task"]], []).append(place)
        self._touch(places)
        in_time: dict[str, list[int]] = {}
        for name, mine in places.items():
            settled_ns = self._tasks[name].settled_ns
            if kept := [place for place in mine if turns[place][AT["end_ns"]] >= settled_ns]:
                in_time[name] = kept
        late = len(turns) - sum(map(len, in_time.values()))
        self.late += late
        if late == len(turns):
            return {}
        block = encoded(turns)
        return {name: block.take(np.array(mine)) for name, mine in in_time.items()}

    def _touch(self, names: Iterable[str]) -> None:
        """Hold these tasks, and let them be the last to go."""
        for name in names:
            task = self._tasks.pop(name, None)
            if task is None:
                # Counts begin anew with what comes now; a gate waits for a person.
                state = self._recall(name)
                standing = Standing({}, state if state.gate else TaskState(name))
                task = LiveTask(standing, standing, recalled=state.gate is not None)
            self._tasks[name] = task

    def _parts(
        self, arrived: dict[str, TurnBlock], gone: Mapping[str, Collection[TurnKey]]
    ) -> list[_Part]:
        """Return what is to be evaluated: of most tasks the new turns, of some all that may move.

        The latter have too many turns, or a new one that does not come last, or one that is gone.
        """
        parts, anew = dict[str, _Part](), dict.fromkeys(gone, EMPTY)
        for name, new in arrived.items():
            task = self._tasks[name]
            task.note(new)
            last = task.last_in_order(new) if name not in gone else None
            task.newest_ns = max(task.newest_ns, *(turn[AT["end_ns"]] for turn in new.turns))
            if last is None:
                anew[name] = new
            else:
                parts[name] = _Part(name, task.near, last)
        for name, new in anew.items():
            anew[name] = self._tasks[name].merged(new, gone.get(name, ()))
        if anew:
            for name, fresh in zip(anew, put_in_order(list(anew.values())), strict=True):
                task = self._tasks[name]
                before = task.block.part(0, task.settled_turns)
                settles = settling(fresh, task.settled_ns)
                parts[name] = _Part(name, before, fresh, settles)
        return list(parts.values())

    def _evaluated(self, parts: list[_Part]) -> tuple[list[_Part], list[tuple[Happened, Happened]]]:
        """Count and judge the fresh turns; returns the counted parts, and what happened in each.

        That is what happened at settled turns, and what did at those that may still move.
        """
        sizes = np.array([(len(part.before), len(part.fresh)) for part in parts])
        task = np.repeat(np.arange(len(parts)), sizes.sum(axis=1))
        begins = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes.ravel())])
        block = joined([block for part in parts for block in (part.before, part.fresh)])
        fresh = np.repeat(np.tile([False, True], len(parts)), sizes.ravel())
        count_on(block, task, ~fresh, self._rules.counting)
        settles = np.zeros(len(block), dtype=np.bool_)
        counted: list[_Part] = []
        for part, begin, middle, end in zip(
            parts, begins[:-1:2].tolist(), begins[1::2].tolist(), begins[2::2].tolist(), strict=True
        ):
            settles[middle : middle + (part.settles or 0)] = True
            before = block.part(begin, middle) if part.settles is not None else EMPTY
            counted.append(part._replace(before=before, fresh=block.part(middle, end)))
        seen = seen_of(block, task, fresh, self._rules, self._kinds_read)
        marks = (settles, fresh & ~settles)
        loops = stretches_in(seen, self._forms, gather_from(block), marks)
        names = [part.name for part in parts]
        final, moving = (
            happened_to(names, each, block.resets(rows))
            for each, rows in zip(loops, marks, strict=True)
        )
        return counted, list(zip(final, moving, strict=True))

    def _take(self, part: _Part, final: Happened, moving: Happened, fed: Fed) -> None:
        """Take a task through what happened in its fresh turns; nothing is told again."""
        task, recovery = self._tasks[part.name], self._policy.recovery
        anew = part.settles is not None
        if not anew:
            task.add(part.fresh)
        before, grown, over = task.now, list[Growth](), list[GateEvent]()
        since = before
        if anew:
            update = continue_stretches(task.settled.loops, final.loops)
            moments = moments_in(part.name, final, update.grown)
            state, over = advance(task.settled.state, moments, recovery)
            open_loops, over_loops = still_open(update.opened, part.fresh.rows[: part.settles])
            since = task.settled = Standing(open_loops, state)
            task.ended += [*update.ended, *over_loops]
            task.ended_now = []
            grown += update.grown
        elif not moving.loops and not moving.resets:
            fed.states.append(before.state)
            return
        now = continue_stretches(since.loops, moving.loops)
        state, late = advance(since.state, moments_in(part.name, moving, now.grown), recovery)
        task.now = Standing(now.opened, state)
        task.ended_now += now.ended
        # An agent that is named late changes what was told, and tells nothing anew.
        new = {each.id: each for each in (*over, *late) if task.emitted.get(each.id) != each.agent}
        moved = {key for key in new if key in task.emitted_elsewhere or key in task.emitted}
        settled = {event.id for event in over}  # Settled moments come but once.
        agents = task.emitted | {key: event.agent for key, event in new.items()}
        task.emitted = {key: agent for key, agent in agents.items() if key not in settled}
        task.emitted_before.update(dict.fromkeys(settled))
        events = list(new.values())
        if any(event.type == "gate_opened" for event in events):
            rows = (joined([part.before, part.fresh]) if anew else task.block).frame()
            events = with_history(events, rows, recovery.history_max)
            fed.openings.update(openings_of(events, [*grown, *now.grown], rows))
        known = before.loops
        fed.loops.extend(loop for loop in now.ended if loop not in known.values())
        fed.loops.extend(loop for key, loop in now.opened.items() if loop != known.get(key))
        fed.states.append(state)
        for event in events:
            (fed.moved if event.id in moved else fed.events).append(event)

    def _keep(self, parts: Sequence[_Part]) -> None:
        """Keep the turns that may still move, and the settled ones that others depend on."""
        if not parts:
            return
        settled = [joined([p.before, p.fresh.part(0, p.settles or 0)]) for p in parts]
        for part, kept in zip(parts, self._needed(settled), strict=True):
            middle = part.settles or 0
            waiting = part.fresh.part(middle, len(part.fresh))
            self._stagger = (self._stagger + 1) % TURNS_MORE
            task = self._tasks[part.name]
            task.hold(kept, part.fresh.turns[:middle], waiting, self._stagger)
        blocks = [self._tasks[part.name].block for part in parts]
        for part, near in zip(parts, self._needed(blocks), strict=True):
            self._tasks[part.name].near = near

    def _needed(self, blocks: Sequence[TurnBlock]) -> list[TurnBlock]:
        """Return of counted turns of each task those that later turns of the task depend on."""
        block = joined(blocks)
        if not len(block):
            return list(blocks)
        sizes = [len(each) for each in blocks]
        task = np.repeat(np.arange(len(blocks)), sizes)
        rows = block.columns() | {"task": task}
        lasts = np.cumsum(sizes) - 1
        # A reset ends the counts of phases and the lanes, so that what lies before the last one is
        # never looked at; lanes of attempts go on over completions.
        goes_on = {
            outlasts: rows[name] == rows[name][lasts][task]
            for outlasts, name in ((False, "epoch"), (True, "resets_seen"))
        }
        wanted = carriers(rows, self._rules.counting.persons)
        turns = turns_of(block, task)
        for spec, lookback in self._lookbacks.items():
            lane = turns.lane(spec)
            looked_at = lane.rows[lane.following < lookback - 1]
            wanted[looked_at] |= goes_on[spec.outlasts_completion][looked_at]
        # A gate shows the last failures of its task.
        failures = np.cumsum(rows["failed"])
        later = failures[lasts][task] - failures
        shown = later < self._policy.recovery.history_max
        wanted |= rows["failed"] & goes_on[False] & shown
        places = wanted.nonzero()[0]
        borders = np.searchsorted(places, [0, *(lasts + 1)]).tolist()
        kept = block.take(places)
        return [kept.part(begin, end) for begin, end in pairwise(borders)]

    def _evict(self) -> None:
        over = len(self._tasks) - (self._tasks_max or len(self._tasks))
        if over > 0:
            self._let_go(list(islice(self._tasks, over)))
            self.evicted += over

    def _let_go(self, names: Collection[str]) -> None:
        for name in names:
            del self._tasks[name]

    def forget(self, now_ns: int) -> int:
        """Drop what is held of idle tasks that wait for nobody; returns how many there were.

        After such a pause counts begin anew, so that a task that goes on loses nothing but the
        numbers of its turns.
        """
        newest_ns = now_ns - (self._rules.counting.idle_s + HORIZON_S) * NS_PER_S
        idle = {
            name
            for name, task in self._tasks.items()
            if task.settled_ns < newest_ns and not task.paused
        }
        self._let_go(idle)
        return len(idle)

    def findings(self) -> list[Finding]:
        """Return every finding so far, by task, first turn and rule."""
        every = [
            loop
            for task in self._tasks.values()
            for loop in (*task.ended, *task.ended_now, *task.now.loops.values())
        ]
        return in_order([finding_of(loop) for loop in every])
