"""How long turns took, for the rules that read it; no other rule pays for it."""

import numpy as np
import polars as pl

from looptrace import semconv
from looptrace.analyzer.text.asked_persons import PERSON_PATTERN, asks_person
from looptrace.rules.turns import AROUND_MAX, Codes, TurnTimes
from looptrace.rules.vocabulary import NS_PER_S

# Turns of fewer seconds are no long ones.
LONG_S = 60
# A call that a person has not answered, by its name or as its framework ended it.
_INTERRUPTED = pl.col("error_type").eq_missing(semconv.WAITS_FOR_PERSON)
_UNANSWERED = pl.col("outcome").is_null() & ~pl.col("failed").fill_null(value=False)
ASKS_PERSON = (pl.col("kind") == "tool") & (
    _INTERRUPTED | (_UNANSWERED & pl.col("name").str.contains(PERSON_PATTERN))
)
# The task, the name of the call, and since when it waits.
WAITS = (
    pl.col("task"),
    pl.col("name").alias("asks"),
    pl.when(_INTERRUPTED).then("end_ns").otherwise("start_ns").alias("waits_ns"),
)


def waits_of(turns: pl.DataFrame) -> pl.DataFrame:
    """Return the tasks whose last turn waits for a person, with `WAITS`."""
    steps = turns.filter(pl.col("kind") != "switch")
    last = steps.group_by("task", maintain_order=True).agg(pl.all().sort_by("end_ns").last())
    return last.filter(ASKS_PERSON).select(*WAITS)


def times_of(
    task: Codes, start_ns: Codes, end_ns: Codes, names: pl.Series, traces: pl.Series
) -> TurnTimes:
    """Return how long turns took, in the order of their tasks."""
    before_ns = np.zeros_like(end_ns)
    same = task[1:] == task[:-1]
    before_ns[1:][same] = end_ns[:-1][same]
    known = names.cast(pl.String).fill_null("")
    every = known.unique()
    asking = every.filter(pl.Series([asks_person(name) for name in every], dtype=pl.Boolean))
    return TurnTimes(
        took_ns=end_ns - start_ns,
        quiet_ns=end_ns - _at_work_until(task, start_ns, end_ns),
        idle_ns=np.where(before_ns > 0, np.maximum(start_ns - before_ns, 0), 0),
        goes_on=(traces == traces.shift()).fill_null(value=False).to_numpy(),
        asks_person=known.is_in(asking.implode()).to_numpy(),
        silent=(known == semconv.SILENT).to_numpy(),
    )


def _at_work_until(task: Codes, start_ns: Codes, end_ns: Codes) -> Codes:
    """Return when the last turn ended that began within each turn, else when that began.

    A turn around it, such as the request to a sub-agent, may end just before it when both are given
    up. Of turns that take a moment only the one before is looked at.
    """
    until_ns = np.empty_like(end_ns)
    until_ns[:1], until_ns[1:] = start_ns[:1], np.maximum(start_ns[1:], end_ns[:-1])
    until_ns[1:][task[1:] != task[:-1]] = start_ns[1:][task[1:] != task[:-1]]
    rows = (end_ns - start_ns >= LONG_S * NS_PER_S).nonzero()[0]
    for back in range(1, AROUND_MAX + 1):
        before = rows - back
        is_during = (task[before] == task[rows]) & (end_ns[before] > start_ns[rows])
        rows = rows[(before >= 0) & is_during]
        is_around = start_ns[rows - back] < start_ns[rows]
        until_ns[rows] = np.where(is_around, start_ns[rows], end_ns[rows - back])
        rows = rows[is_around]
        if not len(rows):
            break
    return until_ns
