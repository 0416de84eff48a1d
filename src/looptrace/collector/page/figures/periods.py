"""Figures of tasks, loops and gates in a period, by bars of equal length."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import polars as pl

from looptrace.collector.store import reader
from looptrace.collector.store.gate_metrics import mean, opened_gates
from looptrace.collector.store.tables.finding_rows import PART_COLUMNS, loops_of_rows
from looptrace.rules.vocabulary import NS_PER_S

_MINUTE_NS = 60 * NS_PER_S
_HOUR_NS = 60 * _MINUTE_NS
_DAY_NS = 24 * _HOUR_NS
# The lengths of bars by name, and those of bars of everything, of which there are so many at most.
BAR_NAMES = {
    5 * _MINUTE_NS: "5 minutes",
    _HOUR_NS: "an hour",
    6 * _HOUR_NS: "6 hours",
    _DAY_NS: "a day",
    7 * _DAY_NS: "a week",
    30 * _DAY_NS: "30 days",
}
_BAR_LENGTHS_NS = (_HOUR_NS, 6 * _HOUR_NS, _DAY_NS, 7 * _DAY_NS, 30 * _DAY_NS)
_BARS_MAX = 60
_COST_COLUMNS = ["cost_input_tokens", "cost_output_tokens"]


class Period(NamedTuple):
    """A choice of the overview: bars up to now; none for everything."""

    name: str
    bars: int
    bar_ns: int

    @property
    def before(self) -> str:
        """The name of the time before it."""
        return self.name.replace("the last ", "the ") + " before"


PERIODS: Mapping[str, Period] = {
    "1": Period("the last hour", 12, 5 * _MINUTE_NS),
    "24": Period("the last 24 hours", 24, _HOUR_NS),
    "168": Period("the last 7 days", 7, _DAY_NS),
    "720": Period("the last 30 days", 30, _DAY_NS),
    "2184": Period("the last 13 weeks", 13, 7 * _DAY_NS),
    "8640": Period("the last 360 days", 12, 30 * _DAY_NS),
    "": Period("everything", 0, 0),
}


class Percentiles(NamedTuple):
    """Half of the values are at most the first, nine of ten at most the second."""

    half: float
    most: float
    longest: float


@dataclass(frozen=True, slots=True)
class StoredFigures:
    """What the figures of any period are made of, as tables.

    `tasks` has `task`, `last_ns` and whether it is `looping`; `loops` has `last_ns` of the task and
    `tokens`; `gates` are not withdrawn.
    """

    tasks: pl.DataFrame
    loops: pl.DataFrame
    gates: pl.DataFrame


@dataclass(frozen=True, slots=True)
class PeriodFigures:
    """The figures of a time. Tasks and loops count when the task had its last turn."""

    tasks: int
    looping: int
    gated: int  # tasks with a gate that opened in the time
    gates: int
    resolved: int  # of these gates
    no_loop: int  # that a person resolved so
    waits_s: Percentiles | None  # from a gate to its resolution
    times_until_gate: float | None
    loops: int
    tokens: int  # inside loops
    tokens_a_loop: Percentiles | None

    @property
    def looping_share(self) -> float | None:
        """The share of tasks with a loop."""
        return self.looping / self.tasks if self.tasks else None

    @property
    def gated_share(self) -> float | None:
        """The share of tasks with a gate."""
        return min(self.gated / self.tasks, 1.0) if self.tasks else None

    @property
    def no_loop_share(self) -> float | None:
        """The share of resolved gates that a person called no loop."""
        return self.no_loop / self.resolved if self.resolved else None


@dataclass(frozen=True, slots=True)
class TimeBar:
    """A bar of a chart, from a moment up to another."""

    start_ns: int
    end_ns: int
    figures: PeriodFigures

    @property
    def length(self) -> str:
        """How long it is, in words."""
        return BAR_NAMES[self.end_ns - self.start_ns]


def stored_figures(store_dir: Path, listed: pl.DataFrame) -> StoredFigures:
    """Read what figures are made of; `listed` has the tasks of `TaskIndex`."""
    columns = [*dict.fromkeys([*PART_COLUMNS, *_COST_COLUMNS])]
    findings = reader.read_rows(store_dir, "findings", pl.lit(value=True), columns)
    leads = findings.join(
        loops_of_rows(findings).filter(pl.col("id") == pl.col("loop")), on="id", how="semi"
    )
    tasks = listed.filter(pl.col("turns") > 0).select(
        "task", "last_ns", looping=pl.col("action") != ""
    )
    loops = leads.select("task", tokens=pl.sum_horizontal(_COST_COLUMNS))
    with reader.open_gates(store_dir) as gates:
        opened = opened_gates(gates).filter(pl.col("status") != "withdrawn")
    return StoredFigures(tasks, loops.join(tasks, on="task").drop("task", "looping"), opened)


def figures_in(stored: StoredFigures, start_ns: int, end_ns: int) -> PeriodFigures:
    """Return the figures of a time, without its end."""

    def within(table: pl.DataFrame, column: str) -> pl.DataFrame:
        return table.filter(pl.col(column).is_between(start_ns, end_ns, closed="left"))

    tasks, loops = within(stored.tasks, "last_ns"), within(stored.loops, "last_ns")
    gates = within(stored.gates, "opened_ns")
    resolved = gates.filter(status="resolved")
    waits_s = (resolved["resolved_ns"] - resolved["opened_ns"]) / NS_PER_S
    return PeriodFigures(
        tasks=tasks.height,
        looping=int(tasks["looping"].sum()),
        gated=gates["task"].n_unique(),
        gates=gates.height,
        resolved=resolved.height,
        no_loop=resolved.filter(decision="not_a_loop").height,
        waits_s=_percentiles(waits_s),
        times_until_gate=mean(gates["loop_count"] + 1),
        loops=loops.height,
        tokens=int(loops["tokens"].sum()),
        tokens_a_loop=_percentiles(loops["tokens"]),
    )


def bars_of(stored: StoredFigures, period: Period, now_ns: int) -> list[TimeBar]:
    """Return the bars of a period, in order of time; they begin at round times, in UTC."""
    length_ns, count = period.bar_ns, period.bars
    if not count:
        first_ns = min(
            (
                each
                for each in (stored.tasks["last_ns"].min(), stored.gates["opened_ns"].min())
                if each
            ),
            default=now_ns,
        )
        lasted_ns = now_ns - int(first_ns)  # type: ignore[arg-type] # The column has numbers.
        fitting = (each for each in _BAR_LENGTHS_NS if lasted_ns < (_BARS_MAX - 1) * each)
        length_ns = next(fitting, _BAR_LENGTHS_NS[-1])
        count = min(lasted_ns // length_ns + 2, _BARS_MAX)
    end_ns = (now_ns // length_ns + 1) * length_ns
    return list(_bars(stored, end_ns - count * length_ns, length_ns, count))


def _bars(stored: StoredFigures, first_ns: int, length_ns: int, count: int) -> Iterator[TimeBar]:
    for place in range(count):
        start_ns = first_ns + place * length_ns
        end_ns = start_ns + length_ns
        yield TimeBar(start_ns, end_ns, figures_in(stored, start_ns, end_ns))


def _percentiles(values: pl.Series) -> Percentiles | None:
    known = values.drop_nulls()
    if known.is_empty():
        return None
    shares = (known.quantile(share, "nearest") for share in (0.5, 0.9, 1.0))
    return Percentiles(*(float(value or 0.0) for value in shares))
