"""Thresholds from one's own finished tasks, one for each kind of task.

A threshold is the smallest at which healthy tasks would have raised no more false alarms a day than
are wanted. Each value is tried: the turns are evaluated with it. An alarm is a task in which any
rule fires.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Any

import polars as pl

from looptrace.analyzer.detect.counters import DAY_S, add_counters
from looptrace.analyzer.detect.evaluate import evaluate_rules
from looptrace.analyzer.detect.ruleset import Override, RuleSet
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.schema.turns import IS_USER
from looptrace.analyzer.settings.sections import Settings, with_rules
from looptrace.errors import InputError
from looptrace.rules.contract import Rule, Rung, SettingError
from looptrace.rules.vocabulary import NS_PER_S

# The threshold setting of each rule.
THRESHOLDS = (
    *("attempts_min", "rounds_min", "times_min", "max_errors", "max_visits", "max_transitions"),
    *("max_iterations", "max_runtime_s"),
)
# Fewer tasks are not enough; a kind with fewer tasks is evaluated with the others.
TASKS_MIN = 30
# However few tasks there are a day, only one in this many may raise a false alarm; otherwise a
# threshold would be lowered until all of them did.
TASKS_AN_ALARM_MIN = 100
# A task is finished after this time without turns, or when its last attempt completed it.
FINISHED_AFTER_S = 3_600
# The decisions of a person on a gate that was not needed.
NOT_A_LOOP = "not_a_loop"


class CalibrationError(InputError):
    """There are too few tasks to learn from; the message is one line that says what is missing."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A threshold for a kind of task (None: all others), with its false alarms."""

    kind: str | None
    rule: str
    setting: str
    now: int
    then: int
    alarms_now: int
    alarms_then: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """The proposed thresholds, and their effect.

    `tasks` counts healthy tasks by kind, and `left_out` those that are unfinished or unknown.
    `loops` are those that a person confirmed. Alarms are tasks.
    """

    days: float
    tasks: Mapping[str | None, int]
    left_out: int
    alarms_now: int
    alarms_then: int
    loops: int
    loops_found_now: int
    loops_found_then: int
    proposals: tuple[Proposal, ...]
    settings: Settings

    def a_day(self, alarms: int) -> float:
        """Return the number of alarms a day."""
        return alarms / self.days


# The outcome of a task: it was healthy, a person confirmed its loop, or it is not known yet.
WELL, LOOPED, OPEN = "well", "looped", "open"


def calibrated(
    parts: Iterable[pl.DataFrame], settings: Settings, alarms_per_day: float
) -> Calibration:
    """Propose thresholds from parts (as `sorted_out`) of whole tasks, which share no task.

    Raises:
        CalibrationError: if there are too few finished tasks.
    """
    turns = list(parts)
    rows = pl.concat(turns) if turns else None
    counts = {} if rows is None else _tasks_of(rows, WELL)
    enough = [kind for kind, count in counts.items() if count >= TASKS_MIN]
    small = sum(counts[kind] for kind in counts if kind not in enough)
    if None not in enough and small >= TASKS_MIN:
        enough.append(None)
    left_out = 0 if rows is None else sum(_tasks_of(rows, OPEN).values())
    if rows is None or not enough:
        raise CalibrationError(
            f"there are {small} finished tasks without a loop; at least {TASKS_MIN} are needed."
            f" {left_out} more still run, or have an unresolved gate."
        )
    rows = rows.with_columns(kind_of=_pooled(enough))
    tasks = _tasks_of(rows, WELL)
    seconds = rows.select(pl.col("end_ns").max() - pl.col("end_ns").min()).item() / NS_PER_S
    days = max(seconds / DAY_S, 1.0)
    kinds = [_Kind(kind, settings, rows, WELL) for kind in enough]
    now = {(kind.kind, name): kind.now(name) for kind in kinds for name in kind.rules}
    tasks = {kind: tasks[kind] for kind in enough}
    allowed = min(floor(alarms_per_day * days), sum(tasks.values()) // TASKS_AN_ALARM_MIN)
    then = _best(kinds, tasks, allowed)
    looped = _tasks_of(rows, LOOPED)
    loops = [_Kind(kind, settings, rows, LOOPED) for kind in enough if kind in looped]
    return Calibration(
        days=days,
        tasks=tasks,
        left_out=left_out + sum(counts.values()) - sum(tasks.values()),
        alarms_now=_alarms(kinds, now),
        alarms_then=_alarms(kinds, then),
        loops=sum(looped[kind.kind] for kind in loops),
        loops_found_now=_alarms(loops, now),
        loops_found_then=_alarms(loops, then),
        proposals=tuple(_proposals(kinds, then)),
        settings=_with(settings, kinds, then),
    )


def sorted_out(part: pl.DataFrame, settings: Settings, now_ns: int) -> pl.DataFrame:
    """Return the turns coded and counted, with `kind_of` each task and what `became` of it."""
    detection = detect(part, settings.policy)
    undecided = {state.task for state in detection.states if state.gate}
    decisions: dict[str, set[str | None]] = defaultdict(set)
    for event in detection.events:
        if event.type == "gate_resolved":
            decisions[event.task].add(event.decision)
    # A person's message in the trace does not tell whether there was a loop.
    undecided |= {task for task, given in decisions.items() if None in given}
    looped = {task for task, given in decisions.items() if given - {NOT_A_LOOP, None}}
    rows = add_counters(part, settings.policy.rule_set.counting)
    last = pl.struct("kind", "name").filter(~IS_USER).last().over("task")
    is_done = (last.struct["kind"] == "attempt") & (last.struct["name"] == "done")
    quiet_ns = now_ns - pl.col("end_ns").max().over("task")
    finished = is_done.fill_null(value=False) | (quiet_ns >= FINISHED_AFTER_S * NS_PER_S)
    task = pl.col("task")
    return rows.with_columns(
        kind_of=pl.col("task_kind").drop_nulls().first().over("task"),
        became=pl.when(task.is_in(looped))
        .then(pl.lit(LOOPED))
        .when(task.is_in(undecided) | ~finished)
        .then(pl.lit(OPEN))
        .otherwise(pl.lit(WELL)),
    )


def _tasks_of(rows: pl.DataFrame, became: str) -> dict[str | None, int]:
    """Count the tasks with this outcome by kind."""
    counts = rows.filter(became=became).group_by("kind_of").agg(pl.col("task").n_unique())
    return dict(sorted(counts.iter_rows(), key=lambda pair: pair[0] or ""))


def _pooled(enough: Sequence[str | None]) -> pl.Expr:
    """Remove kinds with too few tasks, so that these are evaluated with the others."""
    kinds = [kind for kind in enough if kind is not None]
    return pl.when(pl.col("kind_of").is_in(kinds)).then("kind_of")


class _Kind:
    """The tasks of one kind, with a cache of the tasks in which a rule with a threshold fires."""

    def __init__(
        self, kind: str | None, settings: Settings, rows: pl.DataFrame, became: str
    ) -> None:
        self.kind = kind
        is_mine = pl.col("kind_of").eq_missing(pl.lit(kind, pl.String))
        self._turns = rows.filter(is_mine, pl.col("became") == became)
        self._rule_set = settings.policy.rule_set
        self.rules = {rule.name: rule for rule in _rules_of(kind, self._rule_set) if _is_set(rule)}
        self._alarmed: dict[tuple[str, int], frozenset[str]] = {}

    def now(self, name: str) -> int:
        return _value(self.rules[name])

    def alarmed(self, name: str, value: int) -> frozenset[str]:
        """Return the tasks in which a rule fires with a threshold."""
        if (name, value) not in self._alarmed:
            rule = with_threshold(self.rules[name], value)
            overrides = _others(self.kind, name, self._rule_set.overrides)
            rule_set = replace(self._rule_set, rules=(rule,), overrides=overrides)
            places = [
                evaluated.lane.rows[evaluated.evaluation.fires]
                for evaluated in evaluate_rules(self._turns, rule_set)
            ]
            fired = {task for rows in places for task in self._turns["task"].gather(rows).unique()}
            self._alarmed[name, value] = frozenset(fired)
        return self._alarmed[name, value]

    def smallest(self, name: str, allowed: int) -> int:
        """Return the smallest threshold with at most so many alarms, else the largest possible.

        Where no task comes near any threshold, nothing is known about the rule, and it stays
        unchanged.
        """
        rule = self.rules[name]
        _, about = rule.settings()[threshold_of(rule) or ""]
        greatest = bisect_left(
            range(about["ge"], about["le"] + 1), True, key=lambda value: not _may_be(rule, value)
        )
        values = range(about["ge"], about["ge"] + greatest)
        if not self.alarmed(name, values[0]):
            return self.now(name)
        place = bisect_left(values, True, key=lambda v: len(self.alarmed(name, v)) <= allowed)
        return values[min(place, len(values) - 1)]


def _rules_of(kind: str | None, rule_set: RuleSet) -> list[Rule]:
    """Return the rules in the form for tasks of a kind, for all of their turns."""
    forms: dict[str, Rule | None] = {rule.name: rule for rule in rule_set.rules}
    for override in rule_set.overrides:
        if kind is not None and override.selectors == {"task_kind": kind}:
            forms |= override.rules
    return [rule for rule in forms.values() if rule is not None]


def _others(kind: str | None, name: str, overrides: Sequence[Override]) -> tuple[Override, ...]:
    """Return the overrides of a rule, except the one for this kind of task alone."""
    return tuple(
        replace(override, rules={name: override.rules[name]})
        for override in overrides
        if name in override.rules and override.selectors != {"task_kind": kind}
    )


def threshold_of(rule: Rule) -> str | None:
    """Return the name of a rule's threshold, None where it has none."""
    return next((name for name in THRESHOLDS if name in rule.settings()), None)


def _is_set(rule: Rule | None) -> bool:
    """Return whether a rule has a threshold to be set; one that is off stays off."""
    return rule is not None and threshold_of(rule) is not None


def _value(rule: Rule) -> int:
    value, _ = rule.settings()[threshold_of(rule) or ""]
    return value


def with_threshold(rule: Rule, value: int) -> Rule:
    """Return a rule with another threshold, and its ladder at the same distance above it.

    Raises:
        SettingError: if the rule does not allow it.
    """
    now = _value(rule)
    changed: dict[str, Any] = {threshold_of(rule) or "": value}
    if rule.ladder[0].attempts == now:
        changed["ladder"] = tuple(Rung(r.attempts + value - now, r.action) for r in rule.ladder)
    return replace(rule, **changed)


def _may_be(rule: Rule, value: int) -> bool:
    try:
        with_threshold(rule, value)
    except SettingError:
        return False
    return True


_Thresholds = Mapping[tuple[str | None, str], int]


def _best(kinds: Sequence[_Kind], tasks: Mapping[str | None, int], allowed: int) -> _Thresholds:
    """Return the smallest thresholds at which no more tasks raise an alarm than allowed.

    Every rule may alarm in an equal share of tasks, the largest at which all rules together stay
    within the allowed number.
    """
    every = sum(tasks.values())

    def thresholds(share: int) -> _Thresholds:
        return {
            (trial.kind, name): trial.smallest(name, share * tasks[trial.kind] // every)
            for trial in kinds
            for name in trial.rules
        }

    too_many = bisect_left(
        range(1, allowed + 1), True, key=lambda share: _alarms(kinds, thresholds(share)) > allowed
    )
    return thresholds(too_many)


def _alarms(kinds: Sequence[_Kind], thresholds: _Thresholds) -> int:
    """Count the tasks in which any rule fires."""
    return sum(
        len(
            frozenset[str]().union(
                *(trial.alarmed(name, thresholds[trial.kind, name]) for name in trial.rules)
            )
        )
        for trial in kinds
    )


def _proposals(kinds: Sequence[_Kind], then: _Thresholds) -> Iterable[Proposal]:
    for trial in kinds:
        for name, rule in trial.rules.items():
            before, after = trial.now(name), then[trial.kind, name]
            if before != after:
                yield Proposal(
                    kind=trial.kind,
                    rule=name,
                    setting=threshold_of(rule) or "",
                    now=before,
                    then=after,
                    alarms_now=len(trial.alarmed(name, before)),
                    alarms_then=len(trial.alarmed(name, after)),
                )


def _with(settings: Settings, kinds: Sequence[_Kind], then: _Thresholds) -> Settings:
    """Return the settings with these thresholds: of a kind in an override, else for all turns."""
    rule_set = settings.policy.rule_set
    new = {
        (trial.kind, name): with_threshold(rule, then[trial.kind, name])
        for trial in kinds
        for name, rule in trial.rules.items()
    }
    rules = tuple(new.get((None, rule.name), rule) for rule in rule_set.rules)
    bases = {rule.name: rule for rule in rules}
    for_kinds = [
        Override({n: r for (k, n), r in new.items() if k == trial.kind}, task_kind=trial.kind)
        for trial in kinds
        if trial.kind is not None
    ]
    differ = [
        replace(override, rules={n: r for n, r in override.rules.items() if r != bases.get(n)})
        for override in for_kinds
    ]
    known = {override.task_kind for override in for_kinds}
    kept = [
        replace(override, rules={n: r for n, r in override.rules.items() if not _is_set(r)})
        if override.selectors == {"task_kind": override.task_kind} and override.task_kind in known
        else override
        for override in rule_set.overrides
    ]
    # Settings for a phase, an agent or a tool still apply there, so that they come last.
    overrides = tuple(override for override in (*differ, *kept) if override.rules)
    return with_rules(settings, replace(rule_set, rules=rules, overrides=overrides))
