"""The live driver: turns in as they arrive, findings out, the same as in batch.

For each task the core keeps the turns that may still move, and as many of the settled turns before
them as the rules look back on. A turn is settled when it lies `HORIZON_S` before the newest of its
task. Turns that arrive later than that are counted as late and left out, until all turns of their
task are evaluated anew (`LiveSpans.mend`). The core counts the turns that came and those after
them, and says which rules may fire there; only these evaluate their lanes.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from looptrace.analyzer.detect.budgets.ledger import Ledger
from looptrace.analyzer.detect.budgets.stretches import budget_stretches, crossings_at
from looptrace.analyzer.detect.evaluate import kinds_read, reads_times, stretches_in
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.ruleset import leaving_out
from looptrace.analyzer.detect.stretches import Growth, Stretch
from looptrace.analyzer.engine.batch import finding_of, in_order, openings_of
from looptrace.analyzer.engine.live_moments import Happened, Standing, passage
from looptrace.analyzer.engine.live_task import HORIZON_S, Group, LiveTask, by_task
from looptrace.analyzer.engine.live_turns import (
    FEW_ROWS,
    HeldRows,
    first_of,
    gate_turns_of,
    read,
    seen_of,
    watch_of,
)
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.gates.timeline import reset_of, with_history
from looptrace.analyzer.normalize.trace_buffer import Move
from looptrace.analyzer.schema.turns import AT, TURN_SCHEMA, TurnKey, TurnTuple
from looptrace.rules.vocabulary import NS_PER_S

# Turns are evaluated in groups of at least so many, and in at most so many groups at once. What
# happened in a group is found again if one of its turns moves.
GROUP_TURNS, GROUPS_MAX = 8, 32
# A task is quiet if it was not fed for so many rounds, and its last turn ended so many seconds
# before the newest one of the round. Rounds alone would rest tasks at work that are fed in turn,
# and time alone would trust the clocks of all agents.
QUIET_ROUNDS, QUIET_S = 100, 60
# At least so many quiet tasks may rest after a round, else as many as were fed in it.
RESTING_A_ROUND = 4


@dataclass(frozen=True, slots=True)
class Fed:
    """The results of a feed: loops that opened or grew, new events, and states of tasks.

    The states are of tasks that are held anew, and of those at which something happened.
    """

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


class _Group(NamedTuple):
    """Turns that are evaluated together, by their places among all that may move."""

    begin: int
    end: int
    happened: Happened


@dataclass(slots=True)
class _Part:
    """Turns of one task that are evaluated, and how the task stood before them."""

    task: LiveTask
    since: Standing
    groups: list[_Group]
    asked: Collection[int]  # places of the rules that may fire at them
    settling: int  # turns that can no longer move


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
        self.late = 0  # turns left out because they came too late
        self.late_tasks: dict[str, None] = {}  # tasks without them; `renew` takes them all
        self.evicted = 0  # tasks dropped to make room for others
        self._recall = recall
        self._tasks_max = tasks_max
        self._tasks: dict[str, LiveTask] = {}  # The one that was fed last comes last.
        self._rules = leaving_out(policy.rule_set)
        self._forms = policy.rule_set.forms()
        self._kinds_read = kinds_read(self._forms)
        self._timed = {forms.name for forms in self._forms if reads_times([forms])}
        self._names_models = policy.rule_set.names_models
        self._recovery = policy.recovery
        self.ledger = Ledger(policy.budgets, policy.rule_set.counting.prices)
        self._awake: dict[str, int] = {}  # by name, the round in which it was fed last
        self._round = 0
        self._watch = watch_of(policy.rule_set, policy.recovery.history_max)
        self._untold: dict[str, None] = {}  # tasks whose state was not told since they are held

    def __len__(self) -> int:
        """Return the number of tasks that are held."""
        return len(self._tasks)

    @property
    def kept(self) -> int:
        """The number of turns that are held, for all tasks."""
        return sum(len(task.turns) for task in self._tasks.values())

    def may_move(self, moves: Sequence[Move]) -> list[bool]:
        """Return for each move whether its turns can leave their task and reach the other in time.

        Of the turns that would leave a task together, all can leave or none.
        """
        may = {name: self._may_leave(name, mine) for name, mine in by_task(moves).items()}
        return [may[move.before] for move in moves]

    def _may_leave(self, name: str, moves: Sequence[Move]) -> bool:
        if name not in self._tasks or not self._tasks[name].may_go(moves, self._watch):
            return False
        others = ((self._tasks.get(move.after), move.first_ns) for move in moves)
        return all(
            not other or first_ns >= other.turns.settled_ns(self._watch)
            for other, first_ns in others
        )

    def feed(self, turns: pl.DataFrame) -> Fed:
        """Take turns (`TURN_SCHEMA`) in any order; return what is new because of them."""
        names = TURN_SCHEMA.names()
        # A selection that changes nothing takes as long as a rule does.
        turns = turns if turns.columns == names else turns.select(names)
        return self.take(turns if turns.height > FEW_ROWS else turns.rows())

    def take(
        self,
        turns: Sequence[TurnTuple] | pl.DataFrame,
        gone: Sequence[tuple[str, TurnKey]] = (),
        moves: Sequence[Move] = (),
    ) -> Fed:
        """Take turns in any order; return what is new because of them.

        Turns that are `gone` are no longer in the task that is named with them, unless they are
        settled there. Turns that moved, as `may_move` allowed, are among the turns.
        """
        fed = Fed([], [], [])
        if decisions := self._moved(moves, fed):
            turns = [*turns, *decisions]
        arrived, spending, decisions = read(turns)
        fires = self.ledger.take(spending, (key for _, key in gone))
        self._touch(arrived)
        for turn in decisions:
            self._tasks[turn[AT["task"]]].decisions.append(turn)
        # A late response of one task may be what fires at a later one of another.
        others = {*fires, *(name for name, _ in gone)} & self._tasks.keys()
        names = [*arrived, *(others - arrived.keys())]
        held = [self._tasks[name].turns for name in names]
        at = {name: place for place, name in enumerate(names)} if others else {}
        lost = [(at[name], key) for name, key in gone if name in at]
        is_spent = self.ledger.fires
        watched = [p for p, name in enumerate(names) if name in fires or is_spent(name)]
        news = self._watch.take(turns, names, held, lost, watched)
        taken = [self._part(names[told[0]], told, fires.get(names[told[0]], ())) for told in news]
        parts = [part for part in taken if part]
        self._evaluate([p for p in parts if p.asked or self.ledger.fires(p.task.name)])
        for part in parts:
            self._advance(part, fed)
            part.task.settle(part.settling, self._watch)
            self._untold.pop(part.task.name, None)
        untold = (self._tasks.get(name) for name in self._untold)
        fed.states.extend(task.now.state for task in untold if task)
        self._untold.clear()
        self._let_rest(names)
        over = len(self._tasks) - (self._tasks_max or len(self._tasks))
        if over > 0:
            self._drop(list(islice(self._tasks, over)))
            self.evicted += over
        return fed

    def renew(self, tasks: Collection[str]) -> list[TurnTuple]:
        """Forget the turns of tasks, all of which come next; return the decisions of persons.

        Their events are known, so that those that come again are sent as moved.
        """
        decisions: list[TurnTuple] = []
        for name in tasks:
            before, self._tasks[name] = self._tasks[name], LiveTask.of(TaskState(name))
            self._tasks[name].emitted_elsewhere.update(before.emitted_ever)
            self._untold[name] = None
            decisions += before.decisions
        return decisions

    def traces_of(self, name: str) -> Collection[str] | None:
        """Return all traces that had turns in a task; None if some may be unknown."""
        task = self._tasks.get(name)
        return None if task is None else task.every_trace

    def _touch(self, names: Iterable[str]) -> None:
        """Hold these tasks, and make them the last to be dropped."""
        for name in names:
            task = self._tasks.pop(name, None)
            if task is None:
                # Counts start again with the next turn; a gate still waits for a person.
                state = self._recall(name)
                waits = state.gate is not None
                task = LiveTask.of(state if waits else TaskState(name), recalled=waits)
                self._untold[name] = None
            self._tasks[name] = task

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            del self._tasks[name]
            self._awake.pop(name, None)

    def _let_rest(self, fed: Collection[str]) -> None:
        """Let some quiet tasks rest: most tasks that are held are over."""
        for name in fed:
            self._awake.pop(name, None)
            self._awake[name] = self._round
        self._round += 1
        fed_before = self._round - QUIET_ROUNDS
        if next(iter(self._awake.values()), fed_before) >= fed_before:
            return
        ended_ns = [self._tasks[name].turns.settled_ns(self._watch) for name in fed]
        since_ns = max(ended_ns, default=0) - QUIET_S * NS_PER_S
        for name in list(islice(self._awake, max(RESTING_A_ROUND, len(fed)))):
            turns = self._tasks[name].turns
            is_new = turns.settled_ns(self._watch) > since_ns
            if is_new or self._awake[name] >= fed_before:
                return
            del self._awake[name]
            turns.rest()

    def _moved(self, moves: Sequence[Move], fed: Fed) -> list[TurnTuple]:
        """Prepare tasks for turns that move between them; return decisions that move too.

        A task that all turns leave is dropped.
        """
        decisions: list[TurnTuple] = []
        for name, mine in by_task(moves).items():
            left = self._tasks[name]
            self._touch(dict.fromkeys(move.after for move in mine))
            for move in mine:
                self._tasks[move.after].emitted_elsewhere.update(left.emitted_ever)
            if left.is_left_by(mine):
                decisions += left.decisions_for(mine)
                self._drop([name])
                fed.states.append(TaskState(name))
        return decisions

    def _part(
        self,
        name: str,
        told: tuple[int, int, bool, int | None, int, int],
        fires: Collection[tuple[str, ...]],
    ) -> _Part | None:
        """Return the turns of a task with news at which something may happen.

        Budgets fire otherwise than before at the turns with the keys of `fires`.
        """
        task = self._tasks[name]
        _, late, was_settled, changed, evaluated, settling = told
        self.late += late
        if late or was_settled:
            self.late_tasks[name] = None
        if fires:
            fired = first_of(fires, task.turns)
            changed = min((at for at in (changed, fired) if at is not None), default=None)
        if changed is None:
            task.settle(settling, self._watch)
            return None
        begin, since = task.go_back(changed, evaluated)
        asked, resets = task.turns.look(begin, self._watch)
        if since is task.now and not (asked or resets or self.ledger.fires(name)):
            task.settle(settling, self._watch)
            return None
        size = max(GROUP_TURNS, -(-(task.waiting - begin) // GROUPS_MAX))
        borders = [*range(begin, task.waiting, size), task.waiting]
        groups = [_Group(*ends, Happened([], [])) for ends in pairwise(borders)]
        reader = HeldRows([task.turns], [0])
        for place, reason in resets:
            row = reader[place]
            about = (row.trace_id, row.span_id, row.call_id, row.kind, row.name, row.text)
            reset = reset_of(name, row.turn, row.end_ns, reason, *about)
            groups[(place - task.turns.settled - begin) // size].happened.resets.append(reset)
        return _Part(task, since, groups, asked, settling)

    def _evaluate(self, parts: Sequence[_Part]) -> None:
        """Evaluate the turns by the rules that may fire, and add the stretches to the parts."""
        if not parts:
            return
        asked = sorted(set[int]().union(*(part.asked for part in parts)))
        every = [self._forms[place] for place in asked]
        held, since = [part.task.turns for part in parts], [0] * len(parts)
        # So does a limit of a long task; a model is looked up in earlier turns.
        if all(forms.lookback == 1 for forms in every) and not self._names_models:
            since = [part.task.turns.settled + part.groups[0].begin for part in parts]
        reader = HeldRows(held, since)
        ends = [*accumulate(len(turns) - begin for turns, begin in zip(held, since, strict=True))]
        fresh = np.zeros((max(len(part.groups) for part in parts), ends[-1]), dtype=np.bool_)
        over = np.zeros(ends[-1], dtype=np.bool_)  # Turns of tasks with a budget that fires.
        for part, end in zip(parts, ends, strict=True):
            first = end - part.task.waiting
            if self.ledger.fires(part.task.name):
                over[first + part.groups[0].begin : end] = True
            for rows, group in zip(fresh, part.groups, strict=False):
                rows[first + group.begin : first + group.end] = True
        reading = (self._rules, self._kinds_read, reader)
        seen = seen_of(held, since, np.logical_or.reduce(fresh), *reading, times=reads_times(every))
        by_name = {part.task.name: part for part in parts}
        for number, loops in enumerate(stretches_in(seen, every, reader, [*fresh])):
            crossings = crossings_at(self.ledger, np.flatnonzero(fresh[number] & over), reader)
            for loop in (*loops, *budget_stretches(seen.turns, reader, crossings)):
                by_name[loop.task].groups[number].happened.loops.append(loop)

    def _advance(self, part: _Part, fed: Fed) -> None:
        """Advance a task through what happened in its fresh turns; each event is sent once."""
        task, before = part.task, part.task.now
        groups = [group for group in part.groups if any(group.happened)]
        if part.since is before and not groups:
            fed.states.append(before.state)
            return
        task.now = part.since.with_gate(task.kept)
        every: list[GateEvent] = []
        grown: list[Growth] = []
        for begin, end, happened in groups:
            passed = passage(task.name, task.now, happened, self._recovery)
            task.groups.append(Group(begin, end, passed))
            task.now = passed.standing
            task.ended_now += passed.ended
            fed.loops.extend(loop for loop in passed.ended if loop not in before.loops.values())
            grown += passed.grown
            every += passed.events
        task.keep_gate(before.state, every, self._timed)
        # An agent that is named late changes an event that was sent; it is not a new event.
        # A gate that is open again may have been another one meanwhile.
        gate, gate_before = task.now.state.gate, before.state.gate
        opened = gate.id if gate and gate != gate_before else None
        sent = task.emitted
        new = {e.id: e for e in every if e.gate == opened or sent.get(e.id) != e.agent}
        moved = {key for key in new if key in task.emitted_elsewhere or key in sent}
        sent |= {key: event.agent for key, event in new.items()}
        events = list(new.values())
        if any(event.type == "gate_opened" for event in events):
            seen = gate_turns_of(task.turns)
            events = with_history(events, seen, self._recovery.history_max)
            fed.openings.update(openings_of(events, grown, seen))
        known = before.loops
        fed.loops.extend(loop for key, loop in task.now.loops.items() if loop != known.get(key))
        fed.states.append(task.now.state)
        for event in events:
            (fed.moved if event.id in moved else fed.events).append(event)

    def forget(self, now_ns: int) -> int:
        """Drop idle tasks that wait for nobody; return how many there were.

        Counts start again after such a pause, so a task that goes on loses only the numbers of its
        turns.
        """
        since_ns = now_ns - (self._rules.counting.idle_s + HORIZON_S) * NS_PER_S
        idle = [
            name
            for name, task in self._tasks.items()
            if task.turns.settled_ns(self._watch) < since_ns and not task.paused
        ]
        self._drop(idle)
        return len(idle)

    def findings(self) -> list[Finding]:
        """Return every finding so far, by task, first turn and rule."""
        tasks = self._tasks.values()
        every = (loop for t in tasks for loop in (*t.ended, *t.ended_now, *t.now.loops.values()))
        return in_order([finding_of(loop) for loop in every])
