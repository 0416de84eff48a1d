"""Why a task was flagged or was not: its turns, and how far each rule got at each of them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from looptrace.analyzer.counts import counted
from looptrace.analyzer.judge import coded, columns
from looptrace.analyzer.ruleset import DEFAULT, RuleSet


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one rule got: attempts at each turn, None where it does not look at the turn."""

    rule: str
    needed: int
    reached: tuple[int | None, ...]


def progress_of(turns: pl.DataFrame, judging: RuleSet = DEFAULT) -> list[Progress]:
    """Return for each rule how far it got at each row of numbered turns (`TURN_SCHEMA`).

    0 means that the turn does not say enough to be compared, or that no pattern ends there.
    """
    seen = columns(counted(coded(turns), judging.counting))
    found = []
    for rule in judging.rules:
        lane = seen.lane(rule.lane)
        verdict = rule.judge(lane)
        reached: list[int | None] = [None] * turns.height
        for row, attempts in zip(lane.rows.tolist(), verdict.reached.tolist(), strict=True):
            reached[row] = attempts
        found.append(Progress(rule.name, verdict.needed, tuple(reached)))
    return found
