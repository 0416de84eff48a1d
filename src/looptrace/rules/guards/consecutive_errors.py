"""The rule `consecutive_errors`."""

from dataclasses import dataclass

from looptrace.rules.contract import Evaluation, Loop, Rung, counts, ladder_setting, setting
from looptrace.rules.counting import TurnRule
from looptrace.rules.needs import exceeds
from looptrace.rules.turns import Lane, LaneSpec


@dataclass(frozen=True, slots=True)
class ConsecutiveErrors(TurnRule):
    """Many calls of a task fail in a row, by the agent's own fault.

    A guard: the failures need not be alike. Calls of all agents count; external failures
    neither count nor end the row.

    ## Looping
    - `run({n})->!"boom {n}" x11`

    ## Not looping
    - `run({n})->!"boom {n}" x10`: as many as allowed.
    - `(run({n})->!"boom {n}" x5 read({n})->"text {n}") x9`: some succeed.
    - `fetch({n})->!"connection refused {n}" x20`: the failures are external.
    - `(run({n})->!"boom {n}" x9 user("Go on.")) x3`: a person spoke.
    """

    name = "consecutive_errors"
    lane = LaneSpec(by="task", kinds=("tool",))
    learns_limit = True
    needs = exceeds("errors", "max_errors")
    checked = "after_loops"

    max_errors: int = setting(10, ge=1, le=1_000, doc="Failed calls in a row that are allowed.")
    ladder: tuple[Rung, ...] = ladder_setting((Rung(1, "gate"),))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Compare the count of failures in a row."""
        turns, rows = lane.turns, lane.rows
        return counts(turns.errors[rows], self.max_errors + 1, turns.errors_before[rows])

    def say(self, loop: Loop) -> str:
        """Name the guard and the count."""
        return f"the task exceeded consecutive_errors ({self.max_errors}) with {loop.attempts}"
