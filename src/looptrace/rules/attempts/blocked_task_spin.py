"""The rule `blocked_task_spin`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, ladder_setting, repeats, setting
from looptrace.rules.counting import RowRule
from looptrace.rules.turns import STATUSES, UNKNOWN, Lane, LaneSpec
from looptrace.rules.vocabulary import in_a_row, pair, recent


@dataclass(frozen=True, slots=True)
class BlockedTaskSpin(RowRule):
    """A task is attempted again and again while the same things block it.

    ## Looping
    - `attempt(blocked, no licence key) x3`

    ## Not looping
    - `attempt(blocked, no licence key) x2`: the second may have been started too early.
    - `attempt(blocked, missing part {n}) x4`: new blockers each time.
    - `attempt(blocked, ?) x4`: nobody said what blocks it.
    - `(attempt(blocked, key) attempt(in_progress)) x3`: work in between.
    - `($a attempt(blocked, key) $b attempt(blocked, key)) x2`: one thing blocks two sub-tasks.
    """

    name = "blocked_task_spin"
    lane = LaneSpec(by="subtask", kinds=("attempt",))

    attempts_min: int = setting(
        3, ge=2, le=50, doc="Attempts in a row with the same blockers that make a loop."
    )
    window_s: int = setting(3_600, ge=60, le=604_800, doc="Seconds within which they must be.")
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "unblock_authority"),))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the blocked attempts in a row with the same blockers, all within the window."""
        blocked = lane.status == STATUSES.index("blocked") + 1
        blockers = np.where(blocked, lane.call, UNKNOWN)
        reached = in_a_row(lane, blockers)
        reached = recent(lane, reached, self.attempts_min, self.window_s)
        return repeats(reached, self.attempts_min, pair(blockers, lane.subtask))

    def say(self, loop: Loop) -> str:
        """Name the blockers."""
        return f"{loop.attempts} attempts in a row were {loop.labels[0]}"
