"""Why a task was flagged or was not: its turns, and how far each rule got at each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from looptrace.analyzer.counts import counted
from looptrace.analyzer.judge import coded, ruled
from looptrace.analyzer.ruleset import DEFAULT, OFF, RuleSet

_UNSEEN = -1


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one rule got: attempts at each turn, and how many make a loop there.

    `reached` is None where the rule does not look at the turn, or is off.
    """

    rule: str
    needed: tuple[int, ...]
    reached: tuple[int | None, ...]

    @property
    def furthest(self) -> int | None:
        """Index of the first turn that reached most, among those that fire if there are any."""
        seen = [
            (attempts >= needed, attempts, -i)
            for i, (attempts, needed) in enumerate(zip(self.reached, self.needed, strict=True))
            if attempts is not None
        ]
        return -max(seen)[2] if seen else None


def progress_of(turns: pl.DataFrame, judging: RuleSet = DEFAULT) -> list[Progress]:
    """Return for each rule how far it got at each row of numbered turns (`TURN_SCHEMA`).

    0 means that the turn does not say enough to be compared, or that no pattern ends there.
    """
    found = []
    for one in ruled(counted(coded(turns), judging.counting), judging):
        on = one.held != OFF
        rows, verdict = one.lane.rows[on], one.verdict
        reached, needed = np.full(turns.height, _UNSEEN), np.zeros(turns.height, np.int64)
        reached[rows] = verdict.reached[on]
        needed[rows] = np.broadcast_to(verdict.needed, on.shape)[on]
        attempts = (None if count == _UNSEEN else count for count in reached.tolist())
        found.append(Progress(one.rules[0].name, tuple(needed.tolist()), tuple(attempts)))
    return found
