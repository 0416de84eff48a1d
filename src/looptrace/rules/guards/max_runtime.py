"""The rule `max_runtime`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, counts, ladder_setting, setting
from looptrace.rules.turns import Lane, LaneSpec, NewTurn
from looptrace.rules.vocabulary import NS_PER_S


@dataclass(frozen=True, slots=True)
class MaxRuntime(Rule):
    """A task runs longer than allowed.

    This is a guard: the turns need not repeat anything. The time counts from the first turn of the
    task, its last completion, or a person's last message.

    ## Looping
    - `start()->ok ~28800 read({n})->"text {n}"`

    ## Not looping
    - `start()->ok ~28000 read({n})->"text {n}"`: less than allowed.
    - `start()->ok ~20000 user("Go on.") ~20000 read(a)->text`: a person spoke.
    """

    name = "max_runtime"
    lane = LaneSpec(by="task", kinds=("tool", "model", "handoff", "attempt", "progress"))
    checked = "before_loops"

    max_runtime_s: int = setting(
        28_800, ge=1, le=31_536_000, doc="Seconds of a task that are allowed."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(1, "gate"),))

    @property
    def lookback(self) -> int:
        """The turn itself; the engine counts from the start of the task."""
        return 1

    def may_fire(self, turn: NewTurn) -> bool:
        """Return whether it was too long."""
        return turn.end_ns - turn.began_ns > self.max_runtime_s * NS_PER_S

    def evaluate(self, lane: Lane) -> Evaluation:
        """Compare the time since the first turn."""
        turns, rows = lane.turns, lane.rows
        over = lane.end_ns - turns.began_ns[rows] > self.max_runtime_s * NS_PER_S
        return counts(np.where(over, turns.steps[rows], 0), 1, turns.epoch[rows] + 1)

    def say(self, loop: Loop) -> str:
        """Name the guard and the count."""
        return f"the task exceeded max_runtime ({self.max_runtime_s} s) with {loop.attempts} turns"
