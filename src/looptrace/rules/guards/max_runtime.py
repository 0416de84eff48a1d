"""The rule `max_runtime`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, counts, ladder_setting, setting
from looptrace.rules.counting import TurnRule
from looptrace.rules.needs import exceeds
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import NS_PER_S


@dataclass(frozen=True, slots=True)
class MaxRuntime(TurnRule):
    """A task is at work longer than allowed.

    A guard: nothing need repeat. The time counts from the first turn of the task, its last
    completion, or a person's last message. A pause of five minutes or more is not work. Of a
    single turn an hour counts at most, because a call may wait for an approval.

    ## Looping
    - `start()->ok (~200 read({n})->"text {n}") x144`

    ## Not looping
    - `start()->ok (~200 read({n})->"text {n}") x140`: less than allowed.
    - `start()->ok ~28800 read(a)->text`: nobody worked in between.
    - `(~200 read({n})->"text {n}") x100 user("Go on.") (~200 read(a{n})->"a {n}") x100`: a person
      spoke.
    """

    name = "max_runtime"
    lane = LaneSpec(by="task", kinds=("tool", "model", "handoff", "attempt", "progress"))
    needs = exceeds("busy_ns", "max_runtime_s", NS_PER_S)
    checked = "before_loops"

    max_runtime_s: int = setting(
        28_800, ge=1, le=31_536_000, doc="Seconds at work that a task is allowed."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(1, "gate"),))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Compare the time at work since the first turn."""
        turns, rows = lane.turns, lane.rows
        over = turns.busy_ns[rows] > self.max_runtime_s * NS_PER_S
        return counts(np.where(over, turns.steps[rows], 0), 1, turns.epoch[rows] + 1)

    def say(self, loop: Loop) -> str:
        """Name the guard and the count."""
        return f"the task exceeded max_runtime ({self.max_runtime_s} s) with {loop.attempts} turns"
