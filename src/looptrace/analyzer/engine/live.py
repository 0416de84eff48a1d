"""The live driver: turns in as they arrive, findings out, the same as in batch.

For each task the engine keeps the turns that may still move, and as many of the settled turns
before them as the rules look back on. A turn is settled when it lies `HORIZON_S` before the newest
of its task. Turns that arrive later than that are counted as late and left out, until all turns of
their task are evaluated anew (`LiveSpans.mend`). A turn that comes after all others of its task is
counted and evaluated alone, by the functions that serve batch. If a turn comes before others, these
are counted and evaluated again, starting from the last mark before them or from the settled turns.
It is long because all that a turn may change is here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from looptrace.analyzer.detect.evaluate import kinds_read, stretches_in
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.stretches import Stretch
from looptrace.analyzer.engine.batch import finding_of, in_order, openings_of
from looptrace.analyzer.engine.live_lookback import bounds_of, lookbacks_of, needed
from looptrace.analyzer.engine.live_moments import Happened, Passage, Standing, passage
from looptrace.analyzer.engine.live_task import (
    HORIZON_S,
    MARK_TURNS,
    TURNS_MORE,
    Group,
    LiveTask,
    Mark,
    by_task,
    settling,
)
from looptrace.analyzer.engine.live_tasks import LiveTasks
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.engine.turn_block import (
    AT,
    reader_of,
    reset_at,
    rows_of,
    seen_of,
)
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.gates.timeline import with_history
from looptrace.analyzer.normalize.trace_buffer import Move
from looptrace.analyzer.schema.turns import Turn, TurnKey
from looptrace.rules.turns import KINDS
from looptrace.rules.vocabulary import NS_PER_S

# Up to this many turns of a task that come at once and in order are each counted alone, and more if
# more than that would be counted again with them.
TOGETHER_MAX = TURNS_MORE
# If more turns are counted again, all rules evaluate them; no rule is asked about each turn.
ASKED_MAX = 64
# Turns that may move are evaluated in at most so many groups at once.
GROUPS_MAX = 32


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
    since: Standing | None = None  # the task before them, if they follow a mark
    asked: set[str] = field(default_factory=set)  # rules that may fire at them
    asked_all: bool = False
    # If they are all turns that may still move: these turns, and how many of them are settled now.
    anew: list[tuple[int, Turn]] | None = None
    settles: int = 0
    final: Happened = field(default_factory=lambda: Happened([], []))  # at settled turns
    groups: list[Group] = field(default_factory=list)  # the turns that may move


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
        self.late_tasks: dict[str, None] = {}  # tasks without them; `renew` takes them all
        self._tasks = LiveTasks(recall, tasks_max)
        self._counting = policy.rule_set.counting.compiled
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

    def renew(self, tasks: Collection[str]) -> list[Turn]:
        """Forget the turns of tasks, all of which come next; return the decisions of persons.

        Their events are known, so that those that come again are sent as moved.
        """
        return [turn for name in tasks for turn in self._tasks.renew(name)]

    def traces_of(self, name: str) -> Collection[str] | None:
        """Return all traces that had turns in a task; None if some may be unknown."""
        task = self._tasks.peek(name)
        return None if task is None else task.every_trace

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
            if name not in self._tasks:
                continue
            if key in self._tasks[name].keys:
                held.setdefault(name, set()).add(key)
            else:  # It is settled.
                self.late_tasks[name] = None
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
            self._tasks[name].note(mine)
            if len(kept) < len(mine):
                self.late += len(mine) - len(kept)
                self.late_tasks[name] = None
            if kept:
                in_time[name] = kept
        return in_time

    def _parts(
        self, arrived: dict[str, list[Turn]], gone: Mapping[str, Collection[TurnKey]]
    ) -> dict[str, _Part]:
        """Count turns; return the turns of each task to be evaluated.

        For most tasks these are the new turns. If a new turn does not come last, or a turn is gone,
        they begin at a mark before it. They are all turns that may still move if there is no mark,
        or if more turns come at once than were there, because most may be settled.
        """
        parts: dict[str, _Part] = {}
        for name in [*arrived, *(gone.keys() - arrived.keys())]:
            task, new, left = self._tasks[name], arrived.get(name, ()), gone.get(name, ())
            last = None
            is_room = len(task.block) + len(new) <= task.turns_max
            if len(new) <= max(TOGETHER_MAX, len(task.waiting)):
                last = task.last_in_order(new) if new and not left else None
                if last is not None or task.marks:
                    is_room = is_room or task.settle(new, left, self._policy.recovery)
            if last is not None and is_room:
                parts[name] = self._in_order(task, last)
                continue
            fresh = task.merged(new, left)
            mark = task.mark_before(fresh) if is_room else None
            parts[name] = self._since(task, mark, fresh) if mark else self._all_anew(task, fresh)
        return parts

    def _in_order(self, task: LiveTask, turns: Sequence[Turn]) -> _Part:
        """Count turns that come last, and find the rules that may fire at them."""
        part = _Part(task, len(task.block))
        placed = [(turn[AT["end_ns"]], turn) for turn in turns]
        self._count(part, placed)
        task.wait_for(placed)
        return part

    def _since(self, task: LiveTask, mark: Mark, fresh: list[tuple[int, Turn]]) -> _Part:
        """Count again the turns after a mark."""
        since = task.go_back(mark, self._policy.recovery)
        part = _Part(task, len(task.block), since)
        placed = fresh[mark.turns :]
        self._ask_all_of_many(part, len(placed))
        self._count(part, placed)
        task.wait_for(placed)
        return part

    def _all_anew(self, task: LiveTask, fresh: list[tuple[int, Turn]]) -> _Part:
        """Count again all turns that may still move; some of them are settled now."""
        part = _Part(task, task.settled_turns, anew=fresh)
        self._ask_all_of_many(part, len(fresh))
        part.settles = settling(fresh, task.settled_ns)
        task.begin_anew()
        task.counters = task.settled_counters
        for order_ns, turn in fresh[: part.settles]:
            self._add(part, turn, order_ns, part.final)
        task.counters = task.settled_counters.copy()
        self._count(part, fresh[part.settles :])
        task.settled_counters.settle()
        return part

    def _ask_all_of_many(self, part: _Part, turns: int) -> None:
        if turns > ASKED_MAX:
            part.asked_all = True
            part.asked.update(forms.name for forms in self._forms)

    def _count(self, part: _Part, turns: Sequence[tuple[int, Turn]]) -> None:
        """Count turns that may move, in groups, with a mark before each group that is far enough.

        They follow the turns of the task that are waiting.
        """
        task, before = part.task, len(part.task.waiting)
        size = max(MARK_TURNS, -(-len(turns) // GROUPS_MAX))
        for begin in range(0, len(turns), size):
            members = turns[begin : begin + size]
            task.mark(len(task.groups) + len(part.groups), before + begin)
            part.groups.append(Group(len(members), Happened([], [])))
            for order_ns, turn in members:
                self._add(part, turn, order_ns, part.groups[-1].happened)

    def _add(self, part: _Part, turn: Turn, order_ns: int, happened: Happened) -> None:
        """Count and hold a turn, and find the rules that may fire at it."""
        one = part.task.add(turn, order_ns, self._counting, self._kinds_read)
        if reset := reset_at(turn, one):
            happened.resets.append(reset)
        if not part.asked_all:
            one.compare_with(part.task.block.numbers)
            part.asked.update(
                bound.name
                for bound in self._bounds[one.kind]
                if bound.name not in part.asked and bound.allows(one)
            )

    def _evaluate(self, parts: Sequence[_Part]) -> None:
        """Evaluate the turns by the rules that may fire, and add the stretches to the parts."""
        if not parts:
            return
        blocks = [part.task.block for part in parts]
        ends = np.cumsum([len(block) for block in blocks]).tolist()
        fresh = np.zeros((1 + max(len(part.groups) for part in parts), ends[-1]), dtype=np.bool_)
        for part, end in zip(parts, ends, strict=True):
            place = end - len(part.task.block) + part.begin
            counts = [part.settles, *(group.turns for group in part.groups)]
            for rows, turns in zip(fresh, counts, strict=False):
                rows[place : place + turns] = True
                place += turns
        asked = set[str]().union(*(part.asked for part in parts))
        every = [forms for forms in self._forms if forms.name in asked]
        seen = seen_of(blocks, np.logical_or.reduce(fresh), self._rules, self._kinds_read)
        by_task = {part.task.block.rows[0].task: part for part in parts if len(part.task.block)}
        for number, loops in enumerate(stretches_in(seen, every, reader_of(blocks), [*fresh])):
            for loop in loops:
                part = by_task[loop.task]
                happened = part.groups[number - 1].happened if number else part.final
                happened.loops.append(loop)

    def _take(self, name: str, part: _Part, fed: Fed) -> None:
        """Advance a task through what happened in its fresh turns; each event is sent once."""
        task, recovery = part.task, self._policy.recovery
        before, settled = task.now, Passage(part.since or task.now)
        if part.anew is not None:
            settled = task.settle_anew(name, part.anew, part.settles, part.final, recovery)
        task.groups += part.groups
        happened = [group.happened for group in part.groups if any(group.happened)]
        if settled.standing is before and not happened:
            fed.states.append(before.state)
            return
        passed = passage(name, settled.standing, happened, recovery)
        task.now = passed.standing
        task.ended_now += passed.ended
        # An agent that is named late changes an event that was sent; it is not a new event.
        sent, more = task.emitted, [*settled.events, *passed.events]
        new = {each.id: each for each in more if sent.get(each.id) != each.agent}
        moved = {key for key in new if key in task.emitted_elsewhere or key in sent}
        sent |= {key: event.agent for key, event in new.items()}
        # Settled moments come only once.
        task.settle_events(event.id for event in settled.events)
        events = list(new.values())
        if any(event.type == "gate_opened" for event in events):
            rows = task.block.frame()
            events = with_history(events, rows, recovery.history_max)
            fed.openings.update(openings_of(events, [*settled.grown, *passed.grown], rows))
        known = before.loops
        fed.loops.extend(loop for loop in passed.ended if loop not in known.values())
        fed.loops.extend(loop for key, loop in task.now.loops.items() if loop != known.get(key))
        fed.states.append(task.now.state)
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
