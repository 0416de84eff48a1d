"""Coded turns to counted ones: turns, resets, tokens, visits to phases, transitions, progress.

These counts have no bound. Rules look back on a bounded number of turns, so whatever counts from
the start of a task is counted here, in batch over whole tasks, and live onwards from the last
settled turn of each group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from looptrace.analyzer.detect.persons import PERSONS, Persons, speakers_of
from looptrace.analyzer.schema.columns import COUNTED
from looptrace.analyzer.schema.turns import IS_STEP, IS_USER
from looptrace.rules.contract import check_bounds, numbers, setting
from looptrace.rules.vocabulary import NS_PER_S

TOKENS = ("input_tokens", "output_tokens")
DAY_S = 86_400
# What shows progress: fewer failing tests, more coverage, a marker of something completed.
Metric = Literal["tests_failed", "coverage", "markers"]
METRICS: tuple[Metric, ...] = get_args(Metric)
# Why counts begin anew. A completion does so for the turns that come after it, and a message stands
# for a person where it may resolve no gate.
RESETS = ("person", "message", "completed", "idle")

_PHASE_BEFORE = pl.col("phase").forward_fill().shift(1).over("task", "epoch")
_ENTERS = (
    pl.col("phase").is_not_null()
    & ~IS_USER
    & (pl.col("phase_before").is_null() | (pl.col("phase") != pl.col("phase_before")))
)
_TRANSITION = pl.col("enters") & pl.col("phase_before").is_not_null()
_VISITED = ("task", "epoch", "phase", "converging")
_TRANSITIONED = ("task", "epoch", "phase_before", "phase", "converging")
_MEASURED = ("task", "epoch", "measured")
# What fails after all tests passed is compared with what came after that, too.
_COMPARED = (*_MEASURED, "passed_before")
_COMPLETES = (
    (pl.col("kind") == "attempt") & (pl.col("name") == "done") & pl.col("subtask").is_null()
)

# What is counted since something happened, which for steps is never: own failures in a row, figures
# since the best, attempts and failures since there was progress.
SINCE = ("steps", "errors", "turns_since_best", "tries_since_progress")

# The last settled turn of each of these groups carries its counts forward.
GROUPS = (("task",), ("task", "agent"), _VISITED, _TRANSITIONED, _MEASURED)


@dataclass(frozen=True, slots=True)
class Counting:
    """How to count: the pauses that mean something, and the metric of iterative phases.

    A phase that converges on a metric (of `METRICS`) has its visits and the transitions to it
    counted anew whenever that metric gets better.
    """

    idle_s: int = setting(
        DAY_S, ge=60, le=2_592_000, doc="Seconds of silence after which counts begin anew."
    )
    converging: Mapping[str, str] = field(default_factory=dict)
    poll_wait_s: int = setting(
        30,
        ge=1,
        le=86_400,
        doc="Seconds in which nothing was done that make a poll of a call that only looks again.",
    )

    persons: Persons = field(default_factory=Persons)

    def __post_init__(self) -> None:
        check_bounds("recovery", numbers(self))  # The section of the settings that has it.


def add_counters(turns: pl.DataFrame, how: Counting) -> pl.DataFrame:
    """Add `COUNTED` to ordered, coded turns of whole tasks, counted from the start of each task."""
    rows = turns.with_columns(settled=pl.lit(value=False))
    return _with_counts(rows, how, _from_start).drop("settled")


def continue_counters(rows: pl.DataFrame, how: Counting) -> pl.DataFrame:
    """Add `turn` and `COUNTED` to ordered, coded turns; those that are `settled` have them already.

    Of the settled turns only the last of each of the `GROUPS` need be there.
    """
    rows = rows.with_columns(_onwards("turn", ~IS_USER, "task").cast(pl.UInt32))
    return _with_counts(rows, how, _onwards)


def _with_counts(rows: pl.DataFrame, how: Counting, count: Callable[..., pl.Expr]) -> pl.DataFrame:
    spent = {name: pl.col(name).fill_null(0) for name in TOKENS}
    rows = rows.with_columns(
        pl.lit(None, column.dtype).alias(column.name)
        for column in COUNTED
        if column.name not in rows.columns
    )
    rows = rows.with_columns(speakers_of(rows, how.persons))
    rows = rows.with_columns(_unless_settled("reset", _reset(how)))
    rows = rows.with_columns(
        count("epoch", pl.col("reset").is_not_null(), "task"),
        count("waits_seen", _waits(how.poll_wait_s), "task"),
        count("resets_seen", (pl.col("reset") != "completed").fill_null(value=False), "task"),
        *(count(f"{name}_sum", tokens, "task", "agent") for name, tokens in spent.items()),
        *(count(f"{name}_total", tokens, "task") for name, tokens in spent.items()),
    )
    rows = rows.with_columns(
        twin=_unless_settled("twin", _twin(rows)),
    )
    return _phases(_tries(_progress(rows, count)), how, count)


def _reset(how: Counting) -> pl.Expr:
    """Return why counts begin anew at a turn, null where they do not."""
    goes_on = pl.col("task") == pl.col("task").shift(1)
    paused = pl.col("end_ns") - pl.col("end_ns").shift(1) > how.idle_s * NS_PER_S
    by_message = "message" if how.persons.resolved_by == "decision" else "person"
    return (
        pl.when(pl.col("speaker") == "message")
        .then(pl.lit(by_message))
        .when(pl.col("speaker").is_in(PERSONS))
        .then(pl.lit("person"))
        .when(goes_on & paused)
        .then(pl.lit("idle"))
        .when(goes_on & _COMPLETES.shift(1))
        .then(pl.lit("completed"))
    )


def _waits(wait_s: int) -> pl.Expr:
    """Mark turns before which the task stood still, and turns that are pauses themselves."""
    goes_on = pl.col("task") == pl.col("task").shift(1)
    still = pl.col("start_ns") - pl.col("end_ns").shift(1) >= wait_s * NS_PER_S
    return ((goes_on & still) | pl.col("pauses")).fill_null(value=False)


def _progress(rows: pl.DataFrame, count: Callable[..., pl.Expr]) -> pl.DataFrame:
    """Count which turns brought progress; the first figures of a call are what others beat."""
    nothing = pl.lit(0, pl.Int64)
    bare = all(rows[metric].null_count() == rows.height for metric in METRICS)
    if bare and not (rows["improvements"] > 0).any():  # As in most traces.
        return rows.with_columns(
            nothing.alias("improvements"),
            nothing.alias("figures_compared"),
            *(pl.lit(value=False).alias(name) for name in ("compares", "gains", "improves")),
            *(nothing.alias(f"{metric}_improvements") for metric in METRICS),
            nothing.alias("passed"),
            measured=pl.lit(None, pl.String),
            tests_failed_best=pl.lit(None, pl.Int64),
            coverage_best=pl.lit(None, pl.Float64),
        )
    figures = pl.any_horizontal(pl.col("tests_failed", "coverage").is_not_null())
    rows = rows.with_columns(measured=pl.when(figures).then(pl.col("call").fill_null("")))
    passes = (pl.col("tests_failed") == 0).fill_null(value=False)
    rows = rows.with_columns(count("passed", passes, *_MEASURED))
    rows = rows.with_columns(passed_before=pl.col("passed") - passes)
    rows = rows.with_columns(
        tests_failed_best=_figure("tests_failed").cum_min().forward_fill().over(*_COMPARED),
        coverage_best=_figure("coverage").cum_max().forward_fill().over(*_COMPARED),
    )
    before = pl.col("tests_failed_best", "coverage_best").shift(1).over(*_COMPARED)
    rows = rows.with_columns(before.name.suffix("_before"))
    new = {
        "tests_failed": pl.col("tests_failed") < pl.col("tests_failed_best_before"),
        "coverage": pl.col("coverage") > pl.col("coverage_best_before"),
        "markers": pl.col("markers") > 0,
    }
    new = {metric: holds.fill_null(value=False) for metric, holds in new.items()}
    rivals = [pl.col(name, f"{name}_best_before").is_not_null() for name in METRICS[:2]]
    rows = rows.with_columns(
        compares=pl.any_horizontal(*(pl.all_horizontal(both) for both in rivals))
        & (pl.col("tests_failed").is_null() | (pl.col("tests_failed") > 0)),
        gains=new["tests_failed"] | new["coverage"] | passes,
        improves=pl.any_horizontal(*new.values()),
    )
    rows = rows.with_columns(
        count("figures_compared", pl.col("compares"), "task", "epoch"),
        count("improvements", pl.col("improves"), "task", "epoch"),
        *(count(f"{name}_improvements", holds, "task", "epoch") for name, holds in new.items()),
    )
    return rows.drop("tests_failed_best_before", "coverage_best_before", "passed_before")


def _twin(rows: pl.DataFrame) -> pl.Expr:
    """Mark turns that do what the turn before them does, in the same parallel step."""
    if rows["step"].null_count() == rows.height:
        return pl.lit(value=False)
    first = pl.col("order_ns").min().over("task", "trace_id", "step")
    named = ("task", "agent", "trace_id", "step", "order_ns", "call", "outcome")
    same = (pl.col(name) == pl.col(name).shift(1) for name in named)
    return (pl.all_horizontal(*same) & (pl.col("order_ns") == first)).fill_null(value=False)


def _tries(rows: pl.DataFrame) -> pl.DataFrame:
    """Count what was tried since something came of it; equal calls of one step are one try."""
    call, attempt = pl.col("kind") == "tool", pl.col("kind") == "attempt"
    own = pl.col("own") & ~pl.col("twin")
    rows = _with_work(rows, attempt)
    done = attempt & (pl.col("name") == "done").fill_null(value=False)
    progress = pl.col("improves") | pl.col("works") | pl.col("new_work") | done
    tries = own | attempt | (pl.col("kind") == "progress")
    never = pl.lit(value=False)
    since = {
        "steps": (IS_STEP, never),
        "errors": (own, call & ~pl.col("failed").fill_null(value=False)),
        "turns_since_best": (pl.col("compares"), pl.col("gains")),
        "tries_since_progress": (tries, progress),
    }
    groups = _Groups(rows)
    tried = rows.select(
        *(what.alias(f"{name}_what") for name, (what, _) in since.items()),
        *(ends.alias(f"{name}_ends") for name, (_, ends) in since.items()),
        *(pl.col(f"{name}_all", f"{name}_before").fill_null(0) for name in since),
        began_ns=pl.coalesce("began_ns", "end_ns"),
    )
    columns = {name: column.to_numpy() for name, column in tried.to_dict().items()}
    added = [column for name in since for column in groups.since(columns, name)]
    began = pl.Series("began_ns", columns["began_ns"][groups.first])
    return rows.with_columns(*added, began).drop("compares", "gains", "improves", "new_work")


def _with_work(rows: pl.DataFrame, attempt: pl.Expr) -> pl.DataFrame:
    """Add the last completed work that was reported, and which turns report other work."""
    if rows["work"].null_count() == rows.height and not (rows["kind"] == "attempt").any():
        return rows.with_columns(new_work=pl.lit(value=False))
    reported = pl.when("settled").then("work").otherwise(pl.when(attempt).then("outcome"))
    rows = rows.with_columns(work=reported.forward_fill().over("task", "epoch"))
    before = pl.col("work").shift(1).over("task", "epoch")
    other = pl.col("outcome").is_not_null() & pl.col("outcome").ne_missing(before)
    return rows.with_columns(new_work=attempt & other)


class _Groups:
    """The epochs of ordered tasks, as rows that stand together; settled rows come first in each.

    Counting is done in NumPy, because a window of Polars for each count takes ten times as long.
    """

    def __init__(self, rows: pl.DataFrame) -> None:
        begins = rows.select(
            pl.any_horizontal(pl.col("task", "epoch").ne_missing(pl.col("task", "epoch").shift(1)))
        )
        starts = begins.to_series().to_numpy().copy()
        starts[:1] = True
        self.settled = rows["settled"].to_numpy()
        self.number = np.cumsum(starts)
        self.first = np.flatnonzero(starts)[self.number - 1]
        ends = np.ones(rows.height, dtype=np.bool_)
        ends[:-1] = ~self.settled[1:] | starts[1:]
        self.carries = self.settled & ends  # the last settled row of each group

    def since(self, columns: Mapping[str, Any], name: str) -> list[pl.Series]:
        """Return the three columns of a name of `SINCE`, out of the columns of what is counted."""
        what, ends, kept, kept_before = (
            columns[f"{name}_{part}"] for part in ("what", "ends", "all", "before")
        )
        new = np.where(self.settled, np.where(self.carries, kept, 0), what)
        total = np.cumsum(new)
        total = total - (total - new)[self.first]
        marks = np.where(ends, total, 0)
        marks = np.where(self.settled, np.where(self.carries, kept_before, 0), marks)
        apart = self.number * (len(total) + total.max(initial=0) + 1)
        before = np.maximum.accumulate(marks + apart) - apart
        total = np.where(self.settled, kept, total)
        before = np.where(self.settled, kept_before, before)
        parts = {"": total - before, "_all": total, "_before": before}
        return [pl.Series(f"{name}{part}", values) for part, values in parts.items()]


def _figure(metric: str) -> pl.Expr:
    """Return a metric's figure, of a settled turn the best so far."""
    return pl.when("settled").then(f"{metric}_best").otherwise(metric)


def _phases(rows: pl.DataFrame, how: Counting, count: Callable[..., pl.Expr]) -> pl.DataFrame:
    """Count visits and transitions."""
    if rows["phase"].null_count() == rows.height:  # As in most traces; saves half of the time.
        none = pl.lit(0, pl.Int64)
        return rows.with_columns(
            phase_before=pl.lit(None, pl.String),
            enters=pl.lit(value=False),
            visits=none,
            transitions_seen=none,
            converging=none,
        )
    iterations = pl.lit(0, pl.Int64)
    for phase, metric in how.converging.items():
        iterations = (
            pl.when(pl.col("phase") == phase).then(f"{metric}_improvements").otherwise(iterations)
        )
    rows = rows.with_columns(_unless_settled("phase_before", _PHASE_BEFORE), converging=iterations)
    rows = rows.with_columns(enters=_ENTERS)
    return rows.with_columns(
        count("visits", pl.col("enters"), *_VISITED),
        count("transitions_seen", _TRANSITION, *_TRANSITIONED),
    )


def _unless_settled(name: str, expression: pl.Expr) -> pl.Expr:
    """Compute a column for turns that do not have it from before."""
    return pl.when("settled").then(name).otherwise(expression).alias(name)


def _from_start(name: str, new: pl.Expr, *group: str) -> pl.Expr:
    return new.cast(pl.Int64).cum_sum().over(*group).alias(name)


def _onwards(name: str, new: pl.Expr, *group: str) -> pl.Expr:
    """Count what is new on top of the count that the group's last settled turn has."""
    before = pl.col(name).filter(pl.col("settled")).last().over(*group).fill_null(0)
    since = pl.when("settled").then(0).otherwise(new.cast(pl.Int64)).cum_sum().over(*group)
    return pl.when("settled").then(name).otherwise(before + since).alias(name)
