"""The rule `no_progress_repeat`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, ladder_setting, repeats, setting
from looptrace.rules.counting import RowRule
from looptrace.rules.turns import UNKNOWN, Lane, LaneSpec
from looptrace.rules.vocabulary import in_a_row, pair, recent


@dataclass(frozen=True, slots=True)
class NoProgressRepeat(RowRule):
    """Attempts at a task report the same completed work, with the same status and blockers.

    ## Looping
    - `attempt(in_progress)->"login page" x3`

    ## Not looping
    - `attempt(in_progress)->"login page" x2`: a report may come twice.
    - `attempt(in_progress)->"{n} of 9 pages" x5`: the work grows.
    - `attempt(in_progress) x5`: the completed work is unknown.
    - `attempt(in_progress)->a attempt(in_progress)->b attempt(in_progress)->a`: different work.
    - `attempt(pending)->a attempt(in_progress)->a attempt(done)->a`: the status changes.
    - `attempt(blocked, key {n})->a x4`: new blockers each time.
    - `$a attempt(in_progress)->none $b attempt(in_progress)->none x2`: two sub-tasks begin.
    """

    name = "no_progress_repeat"
    lane = LaneSpec(by="subtask", kinds=("attempt",))

    attempts_min: int = setting(
        3, ge=2, le=50, doc="Attempts in a row with the same completed work that make a loop."
    )
    window_s: int = setting(3_600, ge=60, le=604_800, doc="Seconds within which they must be.")
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(5, "force_next")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the attempts in a row with the same report, all within the window."""
        blockers = np.where(lane.call == UNKNOWN, 1, lane.call)  # Most attempts have none.
        report = pair(lane.outcome, pair(lane.status, blockers))
        reached = in_a_row(lane, report)
        reached = recent(lane, reached, self.attempts_min, self.window_s)
        return repeats(reached, self.attempts_min, pair(report, lane.subtask))

    def say(self, loop: Loop) -> str:
        """Name the work."""
        return f"{loop.attempts} attempts reported the same completed work"
