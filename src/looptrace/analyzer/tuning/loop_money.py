"""What the responses of loops cost, by the prices of the user."""

from collections.abc import Iterable

import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.prices import Prices
from looptrace.analyzer.engine.analysis import Money
from looptrace.analyzer.tuning.backtest import money_of


def spent_by(turns: pl.DataFrame, prices: Prices) -> tuple[float, dict[str, int]]:
    """Return what the responses among turns cost, and how many have no price, by model."""
    responses = turns.filter(kind="model")
    priced = prices.of(responses["name"].drop_nulls().unique().to_list())
    return money_of(responses, priced)


def loop_money(findings: Iterable[Finding], turns: pl.DataFrame, prices: Prices) -> Money:
    """Return what the responses of each loop cost; `turns` has those of tasks with findings."""
    responses = turns.filter(kind="model")
    of_task = responses.partition_by("task", as_dict=True)
    priced = prices.of(responses["name"].drop_nulls().unique().to_list())
    spent: dict[str, float] = {}
    unpriced: set[str] = set()
    for finding in findings:
        inside = pl.col("turn").is_between(finding.turn_first, finding.turn_last)
        if finding.agent:
            inside &= pl.col("agent") == finding.agent
        mine = of_task.get((finding.task,), responses.clear()).filter(inside)
        spent[finding.id], missing = money_of(mine, priced)
        if missing:
            unpriced.add(finding.id)
    return Money(prices.currency, spent, frozenset(unpriced), prices.source)
