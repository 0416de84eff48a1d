"""The rule `no_measurable_progress`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, counts, ladder_setting, setting
from looptrace.rules.counting import TurnRule
from looptrace.rules.needs import reaches
from looptrace.rules.turns import KINDS, UNKNOWN, Lane, LaneSpec


@dataclass(frozen=True, slots=True)
class NoMeasurableProgress(TurnRule):
    """Attempt follows attempt, and nothing shows progress.

    If a task has comparable test figures, only they decide: fewer failing tests or more coverage
    than ever before is progress. Figures without a failing test leave nothing to improve, and do
    not count.

    If a task has no figures, or is of a kind that tests cannot measure (`setup`, `documentation`,
    `configuration`, `refactoring`), the rule counts tries: attempts, recorded progress, and calls
    that failed by the agent's own fault, but for looks, such as at a missing page. Progress is then
    a recorded marker, newly reported completed work, a completed sub-task, or a successful call of
    a tool whose name does not say that it only reads or searches.

    ## Looping
    - `run_tests({n})->!"boom {n}" x6`
    - `(read(a{n})->"text {n}" run_tests({n})->!"boom {n}") x6`
    - `attempt(in_progress) x6`
    - `progress(tests_failed=3) (edit(a, {n})->ok progress(tests_failed=4)) x6`

    ## Not looping
    - `run_tests({n})->!"boom {n}" x5`: some tries are normal.
    - `(edit(a, {n})->ok run_tests({n})->!"boom {n}") x9`: code is written.
    - `attempt(in_progress)->"{n} of 9 pages" x9`: the work grows.
    - `(attempt(in_progress) progress(markers=1)) x9`: markers are recorded.
    - `progress(tests_failed=9) progress(tests_failed=7) progress(tests_failed=5) x4`: fewer fail.
    - `(edit(a, {n})->ok progress(tests_failed=0)) x9`: all tests pass.
    - `(progress(tests_failed=1) progress(tests_failed=0)) x9`: one test after the other.
    - `fetch({n})->!"connection refused {n}" x9`: the failures are external.
    - `(read(a{n})->!"no such file {n}" read(b{n})->"text {n}") x9`: looks are no tries.
    - `(user("Try {n}.") run_tests({n})->!"boom {n}") x9`: a person asked for each try.
    """

    name = "no_measurable_progress"
    lane = LaneSpec(by="task", kinds=("tool", "attempt", "progress"))
    needs = reaches("turns_since_best", "attempts_min") | reaches(
        "tries_since_progress", "attempts_min"
    )
    exact = False

    attempts_min: int = setting(
        6, ge=2, le=100, doc="Attempts in a row without progress that make a loop."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(6, "warn"), Rung(9, "pivot"), Rung(12, "gate")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Compare the count since the last progress, of figures if the task has some."""
        turns, rows = lane.turns, lane.rows
        measured = (turns.figures_compared > 0) & ~turns.untested
        figures = np.where(turns.measured == UNKNOWN, 0, turns.turns_since_best)
        is_try = turns.failed & ~turns.external | (turns.kind != KINDS.index("tool"))
        tries = np.where(is_try, turns.tries_since_progress, 0)
        before = -turns.turns_since_best_before, turns.tries_since_progress_before
        reached, began = np.where(measured, figures, tries), np.where(measured, *before)
        return counts(reached[rows], self.attempts_min, began[rows])

    def say(self, loop: Loop) -> str:
        """Recommend a test that shows progress."""
        return (
            f"{loop.attempts} attempts without measurable progress: "
            "write a test that shows progress, and make it pass"
        )
