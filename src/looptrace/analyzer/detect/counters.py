"""Turns to coded and counted ones: the columns that rules see, and those that findings show.

The core codes, marks and counts each turn (`core/src/count`), for files and for live spans. Here
the columns of turns go into it and come back.
"""

from collections.abc import Set
from dataclasses import dataclass, field

import polars as pl

from looptrace import _core
from looptrace.analyzer.detect.persons import Persons
from looptrace.analyzer.detect.phases import Converging
from looptrace.analyzer.detect.prices import Prices
from looptrace.analyzer.schema.columns import CODED, COUNTED
from looptrace.rules.contract import check_bounds, numbers, setting

DAY_S = 86_400
# Why counts start again. A completion resets the counts for the turns after it. "message" stands in
# place of "person" if messages may not resolve a gate. A run is begun by the same prompt after a
# pause (a heartbeat, a schedule, a restart), or by anything after a rest.
RESETS = ("person", "message", "completed", "idle", "run")


@dataclass(frozen=True, slots=True)
class Counting:
    """How to count: the pauses that mean something, and the metric of iterative phases.

    If a phase converges on a metric, its visits and the transitions to it are counted again from
    zero whenever that metric gets better.
    """

    idle_s: int = setting(DAY_S, ge=60, le=2_592_000, doc="Seconds of silence that reset counts.")
    converging: Converging = field(default_factory=dict)
    poll_wait_s: int = setting(
        30,
        ge=1,
        le=86_400,
        doc="Idle seconds, with the call's own, that make a call that only looks again a poll.",
    )
    pending_wait_s: int = setting(
        3,
        ge=1,
        le=86_400,
        doc="Seconds between two looks that make the second a poll, if its result is running, "
        "pending or queued, or if its call waits.",
    )
    run_pause_s: int = setting(
        60,
        ge=1,
        le=86_400,
        doc="Idle seconds before the same prompt, as of a schedule or a heartbeat, begins a new "
        "run of the task; counts begin anew with it.",
    )
    run_rest_s: int = setting(
        3_600,
        ge=60,
        le=2_592_000,
        doc="Idle seconds before any turn begins a new run of the task.",
    )
    persons: Persons = field(default_factory=Persons)
    prices: Prices | None = None  # None where money does not count

    def __post_init__(self) -> None:
        check_bounds("recovery", numbers(self))  # The section of the settings with these fields.

    @property
    def compiled(self) -> _core.Counting:
        """The settings as the core needs them."""
        seconds = (
            *(self.idle_s, self.poll_wait_s, self.pending_wait_s),
            *(self.run_pause_s, self.run_rest_s),
        )
        persons = self.persons
        converging = [(phase, *metric) for phase, metric in self.converging.items()]
        by_decision = persons.resolved_by == "decision"
        return _core.Counting(
            seconds,
            persons.messages,
            persons.messages_kept,
            by_decision,
            converging,
            self.prices.by_kind if self.prices else None,
        )


def add_counters(turns: pl.DataFrame, how: Counting) -> pl.DataFrame:
    """Add `CODED` and `COUNTED` to ordered turns of whole tasks, counted from their start."""
    made = how.compiled.counted(turns.select("task", *_core.COUNTED_FROM))
    return _with(turns, pl.DataFrame(made))


def counted_where_asked(
    turns: pl.DataFrame, how: Counting, needs: _core.Needs, tasks: Set[str]
) -> tuple[pl.DataFrame, set[int]]:
    """Return the counted turns of the tasks in which a rule may fire, and of these other `tasks`.

    The second result is the places of the rules that may fire, as `needs` has them.
    """
    given = turns.select("task", *_core.COUNTED_FROM)
    made, asked = how.compiled.asked(given, needs, tasks)
    table = pl.DataFrame(made)
    return _with(turns[table["place"]], table), asked


def _with(turns: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    return turns.with_columns(
        table[
            f"{column.name}_text"
            if column.dtype == pl.String
            else column.name.removesuffix("_code")
        ].alias(column.name)
        for column in (*CODED, *COUNTED)
    )
