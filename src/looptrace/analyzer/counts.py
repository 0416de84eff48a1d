"""Counts that have no bound: turns, messages, tokens, visits to phases, transitions.

Rules look back on a bounded number of turns, so whatever counts from the start of a task is counted
here, in batch over whole tasks, and live onwards from the last settled turn of each group.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

TOKENS = ("input_tokens", "output_tokens")

_IS_USER = pl.col("kind") == "user"
_PHASE_BEFORE = pl.col("phase").forward_fill().shift(1).over("task", "epoch")
_ENTERS = (
    pl.col("phase").is_not_null()
    & ~_IS_USER
    & (pl.col("phase_before").is_null() | (pl.col("phase") != pl.col("phase_before")))
)
_MOVES = pl.col("enters") & pl.col("phase_before").is_not_null()
_VISITED = ("task", "epoch", "phase")
_MOVED = ("task", "epoch", "phase_before", "phase")

# The last settled turn of each of these groups carries its counts forward.
GROUPS = (("task",), ("task", "agent"), _VISITED, _MOVED)

_COLUMNS = {
    "epoch": pl.Int64,
    "phase_before": pl.String,
    "enters": pl.Boolean,
    "visits": pl.Int64,
    "moves": pl.Int64,
    **{f"{name}_{end}": pl.Int64 for name in TOKENS for end in ("sum", "total")},
}


def counted(turns: pl.DataFrame) -> pl.DataFrame:
    """Add to the ordered turns of whole tasks what counts from the task's start.

    `epoch` counts a person's messages, `*_sum` the tokens of the agent and `*_total` those of the
    task. `phase_before` is the last known phase before the turn, and `enters` says that its own is
    another one. `visits` counts the turns that entered its phase, and `moves` those that came to it
    from `phase_before`; both count anew after a person's message.
    """
    return _with_counts(turns, _from_start, _PHASE_BEFORE)


def continued(rows: pl.DataFrame) -> pl.DataFrame:
    """Do the same, and number the turns, where those that are `settled` have their counts already.

    Of the settled turns only the last of each of the `GROUPS` need be there.
    """
    rows = rows.with_columns(
        pl.lit(None, kind).alias(name)
        for name, kind in _COLUMNS.items()
        if name not in rows.columns
    )
    rows = rows.with_columns(_onwards("turn", ~_IS_USER, "task").cast(pl.UInt32))
    phase_before = pl.when("settled").then("phase_before").otherwise(_PHASE_BEFORE)
    return _with_counts(rows, _onwards, phase_before)


def _with_counts(
    rows: pl.DataFrame, count: Callable[..., pl.Expr], phase_before: pl.Expr
) -> pl.DataFrame:
    spent = {name: pl.col(name).fill_null(0) for name in TOKENS}
    rows = rows.with_columns(
        count("epoch", _IS_USER, "task"),
        *(count(f"{name}_sum", tokens, "task", "agent") for name, tokens in spent.items()),
        *(count(f"{name}_total", tokens, "task") for name, tokens in spent.items()),
    )
    if rows["phase"].null_count() == rows.height:  # As in most traces; saves half of the time.
        none = pl.lit(0, pl.Int64)
        return rows.with_columns(
            phase_before=pl.lit(None, pl.String),
            enters=pl.lit(value=False),
            visits=none,
            moves=none,
        )
    rows = rows.with_columns(phase_before=phase_before).with_columns(enters=_ENTERS)
    return rows.with_columns(
        count("visits", pl.col("enters"), *_VISITED), count("moves", _MOVES, *_MOVED)
    )


def _from_start(name: str, new: pl.Expr, *group: str) -> pl.Expr:
    return new.cast(pl.Int64).cum_sum().over(*group).alias(name)


def _onwards(name: str, new: pl.Expr, *group: str) -> pl.Expr:
    """Count what is new on top of the count that the group's last settled turn has."""
    before = pl.col(name).filter(pl.col("settled")).last().over(*group).fill_null(0)
    since = pl.when("settled").then(0).otherwise(new.cast(pl.Int64)).cum_sum().over(*group)
    return pl.when("settled").then(name).otherwise(before + since).alias(name)
