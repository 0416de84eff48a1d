"""Counts that have no bound: turns, resets, tokens, visits to phases, transitions, progress.

Rules look back on a bounded number of turns, so whatever counts from the start of a task is counted
here, in batch over whole tasks, and live onwards from the last settled turn of each group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import polars as pl

from looptrace.analyzer.turns import IS_USER
from looptrace.rules.contract import check_bounds, numbers, setting
from looptrace.rules.vocabulary import NS_PER_S

TOKENS = ("input_tokens", "output_tokens")
DAY_S = 86_400
# What shows progress: fewer failing tests, more coverage, a marker of something completed.
METRICS = ("tests_failed", "coverage", "markers")
# Why counts begin anew. A completion does so for the turns that come after it.
RESETS = ("person", "completed", "idle")

_PHASE_BEFORE = pl.col("phase").forward_fill().shift(1).over("task", "epoch")
_ENTERS = (
    pl.col("phase").is_not_null()
    & ~IS_USER
    & (pl.col("phase_before").is_null() | (pl.col("phase") != pl.col("phase_before")))
)
_MOVES = pl.col("enters") & pl.col("phase_before").is_not_null()
_VISITED = ("task", "epoch", "phase", "converging")
_MOVED = ("task", "epoch", "phase_before", "phase", "converging")
_MEASURED = ("task", "epoch", "measured")
_COMPLETES = (
    (pl.col("kind") == "attempt") & (pl.col("name") == "done") & pl.col("subtask").is_null()
)

# The last settled turn of each of these groups carries its counts forward.
GROUPS = (("task",), ("task", "agent"), _VISITED, _MOVED, _MEASURED)

_COLUMNS = {
    "epoch": pl.Int64,
    "asked": pl.Int64,
    "reset": pl.String,
    "phase_before": pl.String,
    "enters": pl.Boolean,
    "visits": pl.Int64,
    "moves": pl.Int64,
    "converging": pl.Int64,
    "better": pl.Int64,
    **{f"{metric}_better": pl.Int64 for metric in METRICS},
    "tests_failed_best": pl.Int64,
    "coverage_best": pl.Float64,
    **{f"{name}_{end}": pl.Int64 for name in TOKENS for end in ("sum", "total")},
}


@dataclass(frozen=True, slots=True)
class Counting:
    """How to count: the pause that ends what was counted, and the metric of iterative phases.

    A phase that converges on a metric (of `METRICS`) has its visits and the transitions to it
    counted anew whenever that metric gets better.
    """

    idle_s: int = setting(
        DAY_S, ge=60, le=2_592_000, doc="Seconds of silence after which counts begin anew."
    )
    converging: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_bounds("recovery", numbers(self))  # The section of the settings that has it.


def counted(turns: pl.DataFrame, how: Counting) -> pl.DataFrame:
    """Add to the ordered turns of whole tasks what counts from the task's start.

    `epoch` counts the resets up to the turn, `asked` those but for completions, and `reset` says
    which of `RESETS` this turn made. `*_sum` are the tokens of the agent and `*_total` those of
    the task. `phase_before` is the last known phase before the turn, and `enters` says that its own
    is another one. `visits` counts the turns that entered its phase, and `moves` those that came to
    it from `phase_before`; both in the epoch. `better` counts the turns of the epoch that brought
    progress, and `measured` is the call whose figures a turn has.
    """
    rows = turns.with_columns(settled=pl.lit(value=False))
    return _with_counts(rows, how, _from_start).drop("settled")


def continued(rows: pl.DataFrame, how: Counting) -> pl.DataFrame:
    """Do the same, and number the turns, where those that are `settled` have their counts already.

    Of the settled turns only the last of each of the `GROUPS` need be there.
    """
    rows = rows.with_columns(_onwards("turn", ~IS_USER, "task").cast(pl.UInt32))
    return _with_counts(rows, how, _onwards)


def _with_counts(rows: pl.DataFrame, how: Counting, count: Callable[..., pl.Expr]) -> pl.DataFrame:
    spent = {name: pl.col(name).fill_null(0) for name in TOKENS}
    rows = rows.with_columns(
        pl.lit(None, kind).alias(name)
        for name, kind in _COLUMNS.items()
        if name not in rows.columns
    )
    rows = rows.with_columns(_unless_settled("reset", _reset(how.idle_s)))
    rows = rows.with_columns(
        count("epoch", pl.col("reset").is_not_null(), "task"),
        count("asked", (pl.col("reset") != "completed").fill_null(value=False), "task"),
        *(count(f"{name}_sum", tokens, "task", "agent") for name, tokens in spent.items()),
        *(count(f"{name}_total", tokens, "task") for name, tokens in spent.items()),
    )
    return _phases(_progress(rows, count), how, count)


def _reset(idle_s: int) -> pl.Expr:
    """Say which turns are the first after a reset, and why."""
    goes_on = pl.col("task") == pl.col("task").shift(1)
    paused = pl.col("end_ns") - pl.col("end_ns").shift(1) > idle_s * NS_PER_S
    return (
        pl.when(IS_USER)
        .then(pl.lit("person"))
        .when(goes_on & paused)
        .then(pl.lit("idle"))
        .when(goes_on & _COMPLETES.shift(1))
        .then(pl.lit("completed"))
    )


def _progress(rows: pl.DataFrame, count: Callable[..., pl.Expr]) -> pl.DataFrame:
    """Count which turns brought progress; the first figures of a call are what others beat."""
    nothing = pl.lit(0, pl.Int64)
    if all(rows[metric].null_count() == rows.height for metric in METRICS):  # As in most traces.
        return rows.with_columns(
            nothing.alias("better"),
            *(nothing.alias(f"{metric}_better") for metric in METRICS),
            measured=pl.lit(None, pl.String),
            tests_failed_best=pl.lit(None, pl.Int64),
            coverage_best=pl.lit(None, pl.Float64),
        )
    figures = pl.any_horizontal(pl.col("tests_failed", "coverage").is_not_null())
    rows = rows.with_columns(measured=pl.when(figures).then(pl.col("call").fill_null("")))
    rows = rows.with_columns(
        tests_failed_best=_known("tests_failed").cum_min().forward_fill().over(*_MEASURED),
        coverage_best=_known("coverage").cum_max().forward_fill().over(*_MEASURED),
    )
    before = pl.col("tests_failed_best", "coverage_best").shift(1).over(*_MEASURED)
    rows = rows.with_columns(before.name.suffix("_before"))
    new = {
        "tests_failed": pl.col("tests_failed") < pl.col("tests_failed_best_before"),
        "coverage": pl.col("coverage") > pl.col("coverage_best_before"),
        "markers": pl.col("markers") > 0,
    }
    new = {metric: holds.fill_null(value=False) for metric, holds in new.items()}
    rows = rows.with_columns(
        count("better", pl.any_horizontal(*new.values()), "task", "epoch"),
        *(count(f"{name}_better", holds, "task", "epoch") for name, holds in new.items()),
    )
    return rows.drop("tests_failed_best_before", "coverage_best_before")


def _known(metric: str) -> pl.Expr:
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
            moves=none,
            converging=none,
        )
    iterations = pl.lit(0, pl.Int64)
    for phase, metric in how.converging.items():
        iterations = (
            pl.when(pl.col("phase") == phase).then(f"{metric}_better").otherwise(iterations)
        )
    rows = rows.with_columns(_unless_settled("phase_before", _PHASE_BEFORE), converging=iterations)
    rows = rows.with_columns(enters=_ENTERS)
    return rows.with_columns(
        count("visits", pl.col("enters"), *_VISITED), count("moves", _MOVES, *_MOVED)
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
