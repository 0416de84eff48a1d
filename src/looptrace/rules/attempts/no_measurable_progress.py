"""The rule `no_measurable_progress`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, counts, ladder_setting, setting
from looptrace.rules.turns import KINDS, UNKNOWN, Lane, LaneSpec, NewTurn


@dataclass(frozen=True, slots=True)
class NoMeasurableProgress(Rule):
    """Attempt follows attempt, and nothing shows that the task comes nearer to its end.

    Where a task has test figures that can be compared, they alone decide: a count of failing tests
    below the least so far, or coverage above the most so far, is progress. Figures without a
    failing test leave nothing to do, and do not count.

    Without figures, and where the task is of a kind that tests cannot judge (`setup`,
    `documentation`, `configuration`, `refactoring`), the tries are counted: attempts, recorded
    progress, and calls that failed by the agent's own fault. Progress then is a recorded marker,
    completed work that was not reported before, a sub-task that is done, or a call that succeeded,
    unless its tool only reads or searches by its name.

    ## Looping
    - `run_tests({n})->!"boom {n}" x6`
    - `(read(a{n})->"text {n}" run_tests({n})->!"boom {n}") x6`
    - `attempt(in_progress) x6`
    - `progress(tests_failed=3) (edit(a, {n})->ok progress(tests_failed=4)) x6`

    ## Not looping
    - `run_tests({n})->!"boom {n}" x5`: it may take some tries.
    - `(edit(a, {n})->ok run_tests({n})->!"boom {n}") x9`: code is written.
    - `attempt(in_progress)->"{n} of 9 pages" x9`: the work grows.
    - `(attempt(in_progress) progress(markers=1)) x9`: so it does here.
    - `progress(tests_failed=9) progress(tests_failed=7) progress(tests_failed=5) x4`: fewer fail.
    - `(edit(a, {n})->ok progress(tests_failed=0)) x9`: all tests pass.
    - `(progress(tests_failed=1) progress(tests_failed=0)) x9`: one test after the other.
    - `fetch({n})->!"connection refused {n}" x9`: the failures are of the outside.
    - `(user("Try {n}.") run_tests({n})->!"boom {n}") x9`: a person asked for each try.
    """

    name = "no_measurable_progress"
    lane = LaneSpec(by="task", kinds=("tool", "attempt", "progress"))
    exact = False

    attempts_min: int = setting(
        6, ge=2, le=100, doc="Attempts without progress, in a row, that make a loop."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(6, "warn"), Rung(9, "pivot"), Rung(12, "gate")))

    @property
    def lookback(self) -> int:
        """The turn itself; the engine counts since the last progress."""
        return 1

    def may_fire(self, turn: NewTurn) -> bool:
        """Return whether there was none for long enough."""
        return max(turn.turns_since_best, turn.tries_since_progress) >= self.attempts_min

    def evaluate(self, lane: Lane) -> Evaluation:
        """Compare the count since the last progress, of figures where there are some."""
        turns, rows = lane.turns, lane.rows
        measured = (turns.figures_compared > 0) & ~turns.untested
        figures = np.where(turns.measured == UNKNOWN, 0, turns.turns_since_best)
        is_try = turns.failed & ~turns.external | (turns.kind != KINDS.index("tool"))
        tries = np.where(is_try, turns.tries_since_progress, 0)
        before = -turns.turns_since_best_before, turns.tries_since_progress_before
        reached, began = np.where(measured, figures, tries), np.where(measured, *before)
        return counts(reached[rows], self.attempts_min, began[rows])

    def say(self, loop: Loop) -> str:
        """Ask for what would show progress."""
        return (
            f"{loop.attempts} attempts without measurable progress: "
            "write a test that would show it, and make it pass"
        )
