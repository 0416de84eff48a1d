"""The rule `completed_task_revisit`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, ladder_setting, repeats, setting
from looptrace.rules.counting import RowRule
from looptrace.rules.turns import STATUSES, Lane, LaneSpec
from looptrace.rules.vocabulary import pair, recent, streak


@dataclass(frozen=True, slots=True)
class CompletedTaskRevisit(RowRule):
    """A completed task is attempted again.

    ## Looping
    - `attempt(done) x3`

    ## Not looping
    - `attempt(done) x2`: one more attempt is a check.
    - `attempt(in_progress)->"part {n}" x4 attempt(done)`: work, and then its end.
    - `(attempt(done) attempt(pending)) x3`: the task was reopened.
    - `(user("Once more.") attempt(done)) x4`: a person asked for it.
    - `$a attempt(done) $b attempt(done) $c attempt(done)`: three sub-tasks are done, each once.
    """

    name = "completed_task_revisit"
    lane = LaneSpec(by="subtask", kinds=("attempt",))

    attempts_min: int = setting(
        3, ge=2, le=50, doc="Attempts in a row, all done, that make a loop."
    )
    window_s: int = setting(3_600, ge=60, le=604_800, doc="Seconds within which they must be.")
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "force_next"),))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the attempts in a row with the status done, all within the window."""
        done = lane.status == STATUSES.index("done") + 1
        reached = streak(lane, done)
        reached = recent(lane, reached, self.attempts_min, self.window_s)
        return repeats(reached, self.attempts_min, pair(done.astype(np.int64), lane.subtask))

    def say(self, loop: Loop) -> str:
        """Say how often the finished task was attempted."""
        return f"a completed task was attempted {loop.attempts} times"
