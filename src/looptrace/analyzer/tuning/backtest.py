"""Two settings over the same turns: the gates of each, and the turns after them.

A gate would have stopped its task until a person decides. So the turns after it, up to the next
message of a person or to the end of the task, are the most that it would have saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import mul

import polars as pl

from looptrace.analyzer.detect.counters import add_counters
from looptrace.analyzer.detect.persons import PERSONS
from looptrace.analyzer.detect.prices import (
    PRICED_TOKENS,
    TOKENS_PER_PRICE,
    Price,
    Prices,
    money_parts,
)
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.fingerprint.fingerprints import compared_by
from looptrace.analyzer.gates.events import GateCause, GateEvent
from looptrace.analyzer.schema.turns import IS_STEP
from looptrace.analyzer.settings.sections import Settings
from looptrace.rules.contract import Action
from looptrace.rules.vocabulary import NS_PER_S

# A task, and the number of earlier messages of a person.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of turns. Money is for responses with a price and tokens; the others are counted.

    `unpriced` counts the responses of each model without a price ("" for no model), and `untold`
    those without tokens.
    """

    turns: int = 0
    duration_ns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float = 0.0
    unpriced: Mapping[str, int] = field(default_factory=dict)
    untold: int = 0

    @property
    def seconds(self) -> float:
        """The time by the clock."""
        return self.duration_ns / NS_PER_S

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            turns=self.turns + other.turns,
            duration_ns=self.duration_ns + other.duration_ns,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            money=self.money + other.money,
            unpriced=Counter(self.unpriced) + Counter(other.unpriced),
            untold=self.untold + other.untold,
        )


@dataclass(frozen=True, slots=True)
class Opened:
    """A gate that would have opened, and the turns after it until a person stepped in."""

    turn: int
    rule: str
    why: GateCause | None
    reason: str
    after: Spent


@dataclass(frozen=True, slots=True)
class BacktestRow:
    """A task, or its part between two messages of a person, with the gate of each setting, if any.

    There is at most one, because an open gate waits for a person.
    """

    task: str
    a: Opened | None
    b: Opened | None


@dataclass(frozen=True, slots=True)
class Total:
    """The totals of one of the two: findings, events, and the turns after gates."""

    findings: int = 0
    actions: Mapping[Action, int] = field(default_factory=dict)
    after: Spent = field(default_factory=Spent)


@dataclass(frozen=True, slots=True)
class Backtest:
    """Two settings side by side; rows are ordered by task and turn."""

    tasks: int
    turns: int
    currency: str | None  # None where there are no prices
    prices: str  # the package that they are from, with its version and day, or ""
    a: Total
    b: Total
    rows: tuple[BacktestRow, ...]

    @property
    def without_gate(self) -> int:
        """The number of tasks that neither would have stopped."""
        return self.tasks - len({row.task for row in self.rows})


def backtest(
    parts: Iterable[pl.DataFrame], a: Settings, b: Settings, prices: Prices | None = None
) -> Backtest:
    """Evaluate two settings on parts of whole tasks (`TURN_SCHEMA`), which share no task."""
    return joined((backtest_part(part, a, b, prices) for part in parts), prices)


def backtest_part(
    turns: pl.DataFrame, a: Settings, b: Settings, prices: Prices | None = None
) -> PartBacktest:
    """Evaluate two settings on a part of whole tasks (`TURN_SCHEMA`)."""
    as_a = compared_by(turns, a.policy.sameness)
    as_b = as_a if a.policy.sameness == b.policy.sameness else compared_by(turns, b.policy.sameness)
    return PartBacktest(
        tasks=turns["task"].n_unique(),
        turns=turns.filter(IS_STEP).height,
        a=_side_of(as_a, a, prices),
        b=_side_of(as_b, b, prices),
    )


def joined(parts: Iterable[PartBacktest], prices: Prices | None = None) -> Backtest:
    """Join parts that share no task."""
    tasks = turns = 0
    side_a, side_b = _Side(), _Side()
    for part in parts:
        tasks += part.tasks
        turns += part.turns
        side_a.add(part.a)
        side_b.add(part.b)
    places = sorted({*side_a.gates, *side_b.gates})
    return Backtest(
        tasks=tasks,
        turns=turns,
        currency=prices.currency if prices else None,
        prices=prices.source if prices else "",
        a=side_a.total(),
        b=side_b.total(),
        rows=tuple(
            BacktestRow(place[0], side_a.gates.get(place), side_b.gates.get(place))
            for place in places
        ),
    )


@dataclass(slots=True)
class _Side:
    """The totals of one of the two settings, part by part."""

    findings: int = 0
    actions: Counter[Action] = field(default_factory=Counter)
    gates: dict[Place, Opened] = field(default_factory=dict)

    def add(self, part: _Side) -> None:
        self.findings += part.findings
        self.actions.update(part.actions)
        self.gates |= part.gates

    def total(self) -> Total:
        """Add up in one order, whatever the order of the parts: sums of money are not exact."""
        after = (self.gates[place].after for place in sorted(self.gates))
        return Total(self.findings, dict(self.actions), sum(after, Spent()))


@dataclass(frozen=True, slots=True)
class PartBacktest:
    """Two settings over a part of the tasks."""

    tasks: int
    turns: int
    a: _Side
    b: _Side


def _side_of(turns: pl.DataFrame, settings: Settings, prices: Prices | None) -> _Side:
    detection = detect(turns, settings.policy)
    gates = [event for event in detection.events if event.type == "gate_opened"]
    return _Side(
        findings=len(detection.findings),
        actions=Counter(event.action for event in detection.events if event.action),
        gates=_opened(gates, turns, settings, prices),
    )


def _opened(
    gates: list[GateEvent], turns: pl.DataFrame, settings: Settings, prices: Prices | None
) -> dict[Place, Opened]:
    """Add to each gate the turns after it."""
    stopped = turns.filter(pl.col("task").is_in({gate.task for gate in gates}))
    rows = add_counters(stopped, settings.policy.rule_set.counting)
    is_person = pl.col("speaker").is_in(PERSONS).fill_null(value=False)
    rows = rows.with_columns(is_person=is_person, asked=is_person.cum_sum().over("task"))
    by_task = {str(task): part for (task,), part in rows.partition_by("task", as_dict=True).items()}
    models = rows.filter(pl.col("kind") == "model")["name"].drop_nulls().unique().to_list()
    priced = prices.of(models) if prices else None
    opened: dict[Place, Opened] = {}
    for gate in gates:
        task = by_task[gate.task]
        # A message has the number of the turn before it, and comes after it.
        asked = task.filter(pl.col("is_person") & (pl.col("turn") < gate.turn)).height
        after = task.filter((pl.col("asked") == asked) & (pl.col("turn") > gate.turn))
        spent = _spent(after.filter(IS_STEP), gate.at_ns, priced)
        opened[gate.task, asked] = Opened(gate.turn, gate.rule, gate.why, gate.reason, spent)
    return opened


def _spent(turns: pl.DataFrame, since_ns: int, prices: Mapping[str, Price] | None) -> Spent:
    """Add up turns; seconds are by the clock, and money only where there are prices."""
    if turns.is_empty():
        return Spent()
    responses = turns.filter(pl.col("kind") == "model")
    money, unpriced = (0.0, {}) if prices is None else money_of(responses, prices)
    return Spent(
        turns=turns.height,
        duration_ns=max(turns.select(pl.col("end_ns").max()).item() - since_ns, 0),
        input_tokens=int(turns["input_tokens"].sum()),
        output_tokens=int(turns["output_tokens"].sum()),
        money=money,
        unpriced=unpriced,
        untold=responses.height - responses.drop_nulls(["input_tokens", "output_tokens"]).height,
    )


def money_of(responses: pl.DataFrame, prices: Mapping[str, Price]) -> tuple[float, dict[str, int]]:
    """Return the cost of responses, and the number of those without a price by model.

    `responses` are turns of models.
    """
    money, unpriced = 0.0, Counter[str]()
    tokens = responses.select("name", "service_tier", pl.col(PRICED_TOKENS).fill_null(0))
    for name, tier, *counts in tokens.iter_rows():
        if (price := prices.get(name)) is None:
            unpriced[name or ""] += 1
        else:
            money += sum(map(mul, money_parts(counts), price.by_kind(tier))) / TOKENS_PER_PRICE
    return money, dict(unpriced)
