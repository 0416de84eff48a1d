"""The live driver: turns as they arrive in, findings out, the same as in batch.

Of each task the engine keeps the turns that may still move, and of the settled ones before them
as many as the rules look back on. A turn is settled when it lies `HORIZON_S` before the newest of
its task; what arrives later than that is counted and left out. All other turns of a task are judged
anew whenever one arrives, by the functions that serve batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import islice

import polars as pl

from looptrace.analyzer.detect.columns import columns, encode_columns
from looptrace.analyzer.detect.counters import GROUPS, continue_counters
from looptrace.analyzer.detect.evaluate import find_stretches
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.persons import remembered
from looptrace.analyzer.detect.stretches import Growth, Key, Stretch, continue_stretches
from looptrace.analyzer.engine.batch import finding_of, in_order, openings_of
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.state_machine import Moment, TaskState, advance
from looptrace.analyzer.gates.timeline import moments_of, with_history
from looptrace.analyzer.schema.turns import STEP_SPREAD_S, TURN_KEY, ordered
from looptrace.bounded_dict import BoundedDict
from looptrace.rules.vocabulary import NS_PER_S

# Spans may arrive this long after younger ones of their task.
LATENESS_S = 60
# A late call may also belong to a step that stands at its first end.
HORIZON_S = LATENESS_S + STEP_SPREAD_S
# A call that is slower than this many later parallel steps of its task is not looked for.
STEPS_KEPT_MAX = 1_000


Happened = dict[str, list[Moment]]


@dataclass(frozen=True, slots=True)
class Fed:
    """What turns brought: findings that opened or grew, new events, and the tasks' states now."""

    findings: list[Finding]
    events: list[GateEvent]
    states: list[TaskState]
    openings: dict[str, Finding] = field(default_factory=dict)  # as `Detection` has them


@dataclass(slots=True)
class _Task:
    """What is carried forward of the settled turns of one task."""

    settled_ns: int = -(2**63)  # turns that end before this come too late
    opened: dict[Key, Stretch] = field(default_factory=dict)
    ended: list[Stretch] = field(default_factory=list)
    current: list[Stretch] = field(default_factory=list)
    steps: BoundedDict[tuple[str, str], None] = field(  # trace and step, settled
        default_factory=lambda: BoundedDict(STEPS_KEPT_MAX)
    )
    state: TaskState | None = None  # after the settled turns
    paused: bool = False  # there is an open gate now
    told: dict[str, None] = field(default_factory=dict)  # ids, until their turn is settled


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
        self._tasks: dict[str, _Task] = {}  # the one that was fed last comes last
        self._rows: pl.DataFrame | None = None  # kept turns of all tasks, with `settled`

    def __len__(self) -> int:
        """How many tasks are held."""
        return len(self._tasks)

    @property
    def kept(self) -> int:
        """How many turns are held, of all tasks."""
        return 0 if self._rows is None else self._rows.height

    def feed(self, turns: pl.DataFrame) -> Fed:
        """Take turns (`TURN_SCHEMA`) in any order; returns what is new because of them."""
        if turns.is_empty():
            return Fed([], [], [])
        names = turns["task"].unique(maintain_order=True).to_list()
        self._touch(names)
        rows = self._merged(turns, names)
        if rows.is_empty():
            return Fed([], [], [])
        rows = rows.with_columns(settles=_settles())
        settles, waits = rows["settles"], ~(rows["settled"] | rows["settles"])
        final, moving = find_stretches(rows, self._rules, (settles.to_numpy(), waits.to_numpy()))
        settled = self._settle(rows, _by_task(final))
        found = _by_task(moving)
        changed: list[Stretch] = []
        grown: list[Growth] = []
        for name in names:
            task = self._tasks[name]
            now = continue_stretches(task.opened, found[name])
            before, task.current = task.current, [*now.ended, *now.opened.values()]
            changed += [stretch for stretch in task.current if stretch not in before]
            grown += now.grown
        events, states = self._decide(
            names,
            moments_of(rows.filter(settles), settled),
            moments_of(rows.filter(waits), grown),
        )
        events = with_history(events, rows, self._policy.recovery.history_max)
        openings = openings_of(events, [*settled, *grown], rows)
        self._keep(rows)
        self._evict()
        return Fed(in_order([finding_of(s) for s in changed]), events, states, openings)

    def _touch(self, names: list[str]) -> None:
        """Hold these tasks, and let them be the last to go."""
        for name in names:
            task = self._tasks.pop(name, None)
            if task is None:
                state = self._recall(name)
                # Counts begin anew with what comes now; a gate waits for a person.
                task = _Task(state=state, paused=True) if state.gate else _Task()
            self._tasks[name] = task

    def _evict(self) -> None:
        over = len(self._tasks) - (self._tasks_max or len(self._tasks))
        if over > 0:
            self._let_go(list(islice(self._tasks, over)))
            self.evicted += over

    def _let_go(self, names: Collection[str]) -> None:
        for name in names:
            del self._tasks[name]
        if self._rows is not None:
            self._rows = self._rows.filter(~pl.col("task").is_in(names))

    def _decide(
        self, names: list[str], settled: Happened, moving: Happened
    ) -> tuple[list[GateEvent], list[TaskState]]:
        """Take tasks through what happened to them; what was told before is not told again."""
        events: list[GateEvent] = []
        states: list[TaskState] = []
        for name in names:
            task = self._tasks[name]
            before = task.state or TaskState(name)
            task.state, final = advance(before, settled.get(name, ()), self._policy.recovery)
            state, told = advance(task.state, moving.get(name, ()), self._policy.recovery)
            new = {event.id: event for event in (*final, *told) if event.id not in task.told}
            over = {event.id for event in final}  # Settled moments come but once.
            task.told = dict.fromkeys(key for key in (*task.told, *new) if key not in over)
            task.paused = state.gate is not None
            events += new.values()
            states.append(state)
        return events, states

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
        every = [s for task in self._tasks.values() for s in (*task.ended, *task.current)]
        return in_order([finding_of(stretch) for stretch in every])

    def _merged(self, turns: pl.DataFrame, names: list[str]) -> pl.DataFrame:
        """Sort new turns in among the kept ones of their tasks; each turn counts once."""
        bounds = [self._tasks[name].settled_ns for name in names]
        settled_ns = pl.col("task").replace_strict(names, bounds, return_dtype=pl.Int64)
        in_time = turns.filter(pl.col("end_ns") >= settled_ns)
        self.late += turns.height - in_time.height
        waiting = encode_columns(in_time)
        settled = waiting.clear()
        if self._rows is not None:
            mine = pl.col("task").is_in(names)
            kept, self._rows = self._rows.filter(mine), self._rows.filter(~mine)
            settled = kept.filter("settled")
            waiting = pl.concat([kept.filter(~pl.col("settled")).select(waiting.columns), waiting])
        # Of a turn that comes twice the later knows more: its result, from what a model was given.
        waiting = waiting.unique(["task", *TURN_KEY], keep="last", maintain_order=True)
        waiting = ordered(self._apart(waiting, names)).with_columns(settled=pl.lit(value=False))
        rows = pl.concat([settled, waiting], how="diagonal")
        return continue_counters(rows.sort("task", maintain_order=True), self._rules.counting)

    def _apart(self, waiting: pl.DataFrame, names: list[str]) -> pl.DataFrame:
        """Let calls stand at their own ends where the first of their step is settled.

        They ended too long after it to stand with it, and must not stand with one another.
        """
        steps = [(name, *step) for name in names for step in self._tasks[name].steps]
        if not steps:
            return waiting
        key = ["task", "trace_id", "step"]
        begun = pl.DataFrame(steps, dict.fromkeys(key, pl.String), orient="row")
        late = waiting.join(
            begun.with_columns(begun=True), on=key, how="left", maintain_order="left"
        )
        alone = pl.when(pl.col("begun").is_null()).then("step")
        return late.with_columns(step=alone).drop("begun")

    def _settle(self, rows: pl.DataFrame, final: dict[str, list[Stretch]]) -> list[Growth]:
        """Carry forward what the turns say that can no longer move; returns how loops grew."""
        grown: list[Growth] = []
        for name, found in final.items():
            task = self._tasks[name]
            task.opened, ended, more = continue_stretches(task.opened, found)
            task.ended += ended
            grown += more
        for name, newest in rows.group_by("task").agg(pl.col("end_ns").max()).iter_rows():
            task = self._tasks[name]
            task.settled_ns = max(task.settled_ns, newest - HORIZON_S * NS_PER_S)
        parallel = rows.filter(pl.col("settles") & pl.col("step").is_not_null())
        for name, *step in parallel.select("task", "trace_id", "step").iter_rows():
            self._tasks[name].steps[tuple(step)] = None
        return grown

    def _keep(self, rows: pl.DataFrame) -> None:
        """Keep the turns that may still move, and the settled ones that rules look back on."""
        rows = rows.with_columns(pl.col("settled") | pl.col("settles")).drop("settles")
        settled = rows.filter("settled")
        wanted = remembered(settled, self._rules.counting.persons).to_numpy().copy()
        turns = columns(settled)
        # A reset ends the counts of phases and the lanes, so that what lies before the last one is
        # never looked at; lanes of attempts go on over completions.
        current = pl.col("epoch") == pl.col("epoch").max().over("task")
        outlasting = pl.col("resets_seen") == pl.col("resets_seen").max().over("task")
        goes_on = settled.select(current=current, outlasting=outlasting)
        for forms in self._rules.forms():
            lane = turns.lane(forms.lane)
            ends_by = "outlasting" if forms.lane.outlasts_completion else "current"
            looked_at = lane.rows[lane.following < forms.lookback - 1]
            wanted[looked_at] |= goes_on[ends_by].to_numpy()[looked_at]
        row = pl.col("row")
        last = [
            (row == row.last().over(*group)) & (current | pl.lit("epoch" not in group))
            for group in GROUPS
        ]
        # A gate shows the last failures of its task.
        failed = pl.col("failed").fill_null(value=False)
        later = failed.cast(pl.Int64).sum().over("task") - failed.cum_sum().over("task")
        last.append(failed & current & (later < self._policy.recovery.history_max))
        kept = settled.with_row_index("row").filter(
            pl.lit(pl.Series(wanted)) | pl.any_horizontal(last)
        )
        parts = [kept.drop("row"), rows.filter(~pl.col("settled"))]
        self._rows = pl.concat(parts if self._rows is None else [self._rows, *parts])


def _settles() -> pl.Expr:
    """Say which turns lie so far back that no span in time can come to stand before them."""
    horizon = pl.col("end_ns").max().over("task") - HORIZON_S * NS_PER_S
    moves = pl.when(pl.col("end_ns") >= horizon).then("order_ns").min().over("task")
    return ~pl.col("settled") & (pl.col("order_ns") < moves)


def _by_task(found: list[Stretch]) -> defaultdict[str, list[Stretch]]:
    by_task = defaultdict(list)
    for stretch in found:
        by_task[stretch.task].append(stretch)
    return by_task
