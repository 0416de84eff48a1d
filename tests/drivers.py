"""The two drivers under one name, so that a test can hold them against each other."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import polars as pl
import pytest

from looptrace.analyzer.detect.counters import DAY_S, Counting
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.prices import Price, Prices
from looptrace.analyzer.detect.ruleset import DEFAULT, RuleSet
from looptrace.analyzer.engine import live as live_engine
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.live import LiveEngine
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.rules.contract import Rule

# Of the model that all notation has.
PRICES = Prices("USD", (Price("model", 3, 15, 0.3),))


def ruleset(rules: Sequence[Rule] | None) -> RuleSet:
    """Return what judges: these rules, by default all with their defaults."""
    counting = Counting(prices=PRICES)
    return DEFAULT if rules is None else RuleSet(tuple(rules), counting=counting)


def findings_of(turns: pl.DataFrame, rules: RuleSet = DEFAULT) -> list[Finding]:
    """Return the findings in turns (`TURN_SCHEMA`, numbered), by task, first turn and rule."""
    return list(detect(turns, DetectionPolicy(rules)).findings)


def batch(turns: pl.DataFrame, rules: Sequence[Rule] | None = None) -> list[Finding]:
    """Judge whole tasks."""
    return findings_of(turns, ruleset(rules))


@contextmanager
def resting(*, at_once: bool) -> Iterator[None]:
    """Let each task of a live engine rest after each round, as quiet tasks do."""
    with pytest.MonkeyPatch.context() as patch:
        if at_once:
            patch.setattr(live_engine, "QUIET_ROUNDS", 0)
            patch.setattr(live_engine, "QUIET_S", -DAY_S)
        yield


def live(
    turns: pl.DataFrame, rules: Sequence[Rule] | None = None, seed: int | None = None
) -> list[Finding]:
    """Judge turns as they arrive: each tick brings a turn of each task, or as a seed chooses."""
    engine = LiveEngine(DetectionPolicy(ruleset(rules)))
    for tick in _ticks(turns, seed):
        engine.feed(tick)
    return engine.findings()


def _ticks(turns: pl.DataFrame, seed: int | None) -> Iterator[pl.DataFrame]:
    """Yield the turns of all tasks side by side, of each one by one or up to twelve at a time."""
    chance = random.Random(seed)
    ticks: list[int] = []
    turns = turns.sort("task", maintain_order=True)
    for count in turns["task"].rle().struct["len"]:
        tick, end = 0, len(ticks) + count
        while len(ticks) < end:
            size = 1 if seed is None else chance.randint(0, 12)
            ticks += [tick] * min(size, end - len(ticks))
            tick += 1
    ticking = turns.with_columns(tick=pl.Series(ticks))
    yield from ticking.sort("tick", maintain_order=True).partition_by("tick", include_key=False)
