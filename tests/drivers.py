"""The two drivers under one name, so that a test can hold them against each other."""

from __future__ import annotations

import random
from collections.abc import Sequence

import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.ruleset import DEFAULT, RuleSet
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.live import LiveEngine
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.rules.contract import Rule


def ruleset(rules: Sequence[Rule] | None) -> RuleSet:
    """Return what judges: these rules, by default all with their defaults."""
    return DEFAULT if rules is None else RuleSet(tuple(rules))


def findings_of(turns: pl.DataFrame, rules: RuleSet = DEFAULT) -> list[Finding]:
    """Return the findings in turns (`TURN_SCHEMA`, numbered), by task, first turn and rule."""
    return list(detect(turns, DetectionPolicy(rules)).findings)


def batch(turns: pl.DataFrame, rules: Sequence[Rule] | None = None) -> list[Finding]:
    """Judge whole tasks."""
    return findings_of(turns, ruleset(rules))


def live(
    turns: pl.DataFrame, rules: Sequence[Rule] | None = None, seed: int | None = None
) -> list[Finding]:
    """Judge turns as they arrive: one at a time, or in batches whose sizes a seed chooses."""
    sizes = random.Random(seed)
    engine = LiveEngine(DetectionPolicy(ruleset(rules)))
    start = 0
    while start < turns.height:
        size = 1 if seed is None else sizes.randint(1, 12)
        engine.feed(turns[start : start + size])
        start += size
    return engine.findings()
