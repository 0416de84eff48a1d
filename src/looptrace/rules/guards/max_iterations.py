"""The rule `max_iterations`."""

from dataclasses import dataclass

from looptrace.rules.contract import Evaluation, Loop, Rung, counts, ladder_setting, setting
from looptrace.rules.counting import TurnRule
from looptrace.rules.needs import exceeds
from looptrace.rules.turns import Lane, LaneSpec


@dataclass(frozen=True, slots=True)
class MaxIterations(TurnRule):
    """A task takes more turns than allowed.

    A guard: nothing need repeat. The turns of all agents count, since the
    task began, was completed, or a person last spoke.

    ## Looping
    - `read({n})->"text {n}" x1001`

    ## Not looping
    - `read({n})->"text {n}" x1000`: as many as allowed.
    - `read({n})->"text {n}" x600 user("Go on.") read({n})->"text {n}" x600`: a person spoke.
    """

    name = "max_iterations"
    lane = LaneSpec(by="task", kinds=("tool", "model", "handoff", "attempt", "progress"))
    learns_limit = True
    needs = exceeds("steps", "max_iterations")
    checked = "before_loops"

    max_iterations: int = setting(
        1_000, ge=1, le=1_000_000, doc="Turns of a task that are allowed."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(1, "gate"),))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Compare the count of turns."""
        turns, rows = lane.turns, lane.rows
        return counts(turns.steps[rows], self.max_iterations + 1, turns.epoch[rows] + 1)

    def say(self, loop: Loop) -> str:
        """Name the guard and the count."""
        return (
            f"the task exceeded max_iterations ({self.max_iterations}) with {loop.attempts} turns"
        )
