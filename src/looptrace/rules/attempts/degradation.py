"""The rule `degradation`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, ladder_setting, repeats, setting
from looptrace.rules.counting import RowRule
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import rises, same_as, streak


@dataclass(frozen=True, slots=True)
class Degradation(RowRule):
    """More tests fail, or coverage falls, from one attempt to the next.

    The figures come from calls and attempts, or were recorded alone. They are compared with the
    figures before them, which must be of the same call. More failing tests are not worse if no
    fewer pass: new tests fail at first.

    ## Looping
    - `progress(tests_failed={n}) x3`
    - `progress(coverage=80) progress(coverage=75) progress(coverage=70)`
    - `(edit(a, {n})->ok progress(tests_failed={n})) x4`

    ## Not looping
    - `progress(tests_failed={n}) x2`: one change may break a test.
    - `progress(tests_failed=1) progress(tests_failed=2) progress(tests_failed=1)`: it got better.
    - `progress(tests_failed=3) x5`: the figures did not get worse.
    - `progress(tests_failed={n}, tests_total={n}) x5`: tests are written first.
    - `progress(tests_failed={n}, coverage={n}0) x5`: more of the code is covered.
    - `(progress(tests_failed={n}) user("Go on.")) x4`: a person looked at it.
    """

    name = "degradation"
    lane = LaneSpec(by="task", kinds=("tool", "attempt", "progress"), measured=True)

    attempts_min: int = setting(
        3, ge=2, le=50, doc="Attempts, each worse than the one before, that make a loop."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "pivot"), Rung(4, "gate")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the figures in a row of which each is worse than the one before."""
        turns, rows = lane.turns, lane.rows
        failed, coverage = turns.tests_failed[rows], turns.coverage[rows]
        passed = turns.tests_total[rows] - failed
        some = ~np.isnan(passed)
        as_many = np.zeros(len(rows), dtype=np.bool_)
        as_many[1:] = some[1:] & some[:-1] & (passed[1:] >= passed[:-1])
        more_fail = rises(lane, failed) & ~as_many & ~rises(lane, coverage)
        less_covered = rises(lane, -coverage) & ~rises(lane, -failed)
        same = same_as(lane, lane.measured, 1)
        worse = [streak(lane, same & one) for one in (more_fail, less_covered)]
        return repeats(np.maximum(*worse) + 1, self.attempts_min, lane.measured)

    def say(self, loop: Loop) -> str:
        """Recommend a rollback."""
        return (
            f"{loop.attempts} attempts in a row, each with worse figures than the one before: "
            "roll back to the state before the first of them"
        )
