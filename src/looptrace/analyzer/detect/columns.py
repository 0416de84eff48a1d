"""Counted turns to the columns that rules see."""

from collections.abc import Collection
from dataclasses import fields
from math import nan
from typing import Any

import numpy as np
import polars as pl

from looptrace.analyzer.detect.times import times_of
from looptrace.analyzer.fingerprint.similarity import Meaning, meanings_of
from looptrace.analyzer.schema.columns import CODED, COUNTED
from looptrace.rules.turns import Codes, Figures, Turns

_FIGURES = ("tests_failed", "tests_total", "coverage")
_SEEN = {field.name for field in fields(Turns)}
_CODE = "_code"
_CODES = [
    c.name
    for c in (*CODED, *COUNTED)
    if c.name.endswith(_CODE) and c.name.removesuffix(_CODE) in _SEEN
]
# Columns that rules see as the table has them; texts and codes become other arrays.
_PLAIN = [c.name for c in (*CODED, *COUNTED) if c.name in _SEEN and c.dtype != pl.String]


def columns(
    table: pl.DataFrame,
    *,
    texts: Collection[str] = (),
    meaning: Meaning | None = None,
    times: bool = False,
) -> Turns:
    """Return the columns that rules see of counted turns.

    They hold texts only for the kinds of turn in `texts`, because most rules read none. They hold
    the meanings of requests only if `meaning` is given, and `times` only if they are asked for.
    """
    task = _task_numbers(table["task"])
    start_ns, end_ns = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
    numbers: dict[str, Any] = {name: _figures_of(table[name]) for name in _FIGURES}
    numbers |= {name: table[name].to_numpy() for name in _PLAIN}
    numbers |= {name.removesuffix(_CODE): table[name].to_numpy() for name in _CODES}
    return Turns(
        task=task,
        texts=_texts(table, texts),
        kind=table["kind"].to_physical().cast(pl.Int64).to_numpy(),
        end_ns=end_ns,
        failed=table["failed"].fill_null(value=False).to_numpy(),
        meanings=meanings_of(table, meaning) if meaning else None,
        timed=(
            times_of(task, start_ns, end_ns, table["name"], table["trace_id"]) if times else None
        ),
        **numbers,
    )


def _texts(table: pl.DataFrame, kinds: Collection[str]) -> tuple[str | None, ...]:
    """Return the output of turns of these kinds; an empty tuple if there is no such turn."""
    kind = pl.col("kind")
    of_kinds = kind.is_in(list(kinds))
    if not table.select(of_kinds.any()).item():
        return ()
    put_out = (
        pl.when(kind.is_in(["model", "handoff"]))
        .then("text")
        .otherwise(pl.coalesce("error", "result"))
    )
    return tuple(table.select(pl.when(of_kinds).then(put_out)).to_series().to_list())


def _figures_of(values: pl.Series) -> Figures:
    if values.null_count() == len(values):
        return np.broadcast_to(np.float64(nan), len(values))
    return values.cast(pl.Float64).fill_null(nan).to_numpy()


def _task_numbers(tasks: pl.Series) -> Codes:
    """Return the number of each turn's task; the turns of a task are adjacent."""
    hashes = tasks.hash().to_numpy()
    numbers = np.zeros(len(hashes), dtype=np.int64)
    np.cumsum(hashes[1:] != hashes[:-1], out=numbers[1:])
    return numbers
