"""The rule `repeated_failure`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import (
    Evaluation,
    Loop,
    Rule,
    Rung,
    among,
    check_window,
    ladder_setting,
    setting,
)
from looptrace.rules.turns import Lane, LaneSpec, NewTurn
from looptrace.rules.vocabulary import pair, same_among


@dataclass(frozen=True, slots=True)
class RepeatedFailure(Rule):
    """One failure keeps coming back in a task while nothing else succeeds, whoever tries.

    A failure is compared with the last failures of its task, by its message, and by its arguments
    where it only looks at something. Another agent's count with them. Counting begins anew with a
    call that succeeds and does more than look or wait; `persistent_failure` counts what outlasts
    these. Failures of the outside (rate limits, network, authentication, dependencies) do not
    count.

    ## Looping
    - `test()->!"expected 42, got 41" read(cart.py)->ok test()->!"expected 42, got 41" x2`
    - `@first test()->!"expected 42" x2 @second test()->!"expected 42"`: another agent counts on.

    ## Not looping
    - `test()->!"expected 42, got 41" x2`: only twice.
    - `test()->!"expected {n}" x5`: another message each time.
    - `fetch(/{n})->!"404 Not Found" x5`: each is another page.
    - `(test()->!"expected 42" edit(cart.py, {n})->ok) x3`: it tries something in between.
    - `(fetch(a)->!"429 Too Many Requests" wait(60)->ok) x5`: not the agent's own failure.
    - `(user("Try again.") test()->!"expected 42") x4`: a person asked for each attempt.
    - `test()->!? x4`: nobody knows how it failed.
    """

    name = "repeated_failure"
    lane = LaneSpec(by="task", kinds=("tool",), failures=True)

    attempts_min: int = setting(
        3, ge=2, le=50, doc="Equal failures, the first included, that make a loop."
    )
    window: int = setting(
        10, ge=2, le=100, doc="Failures of the task that one is compared with, itself included."
    )
    window_s: int = setting(
        3_600, ge=60, le=604_800, doc="Seconds after which a failure is no longer counted."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "gate"),))

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        check_window(self, self.attempts_min, self.window, "failures")

    @property
    def lookback(self) -> int:
        """The window."""
        return self.window

    def may_fire(self, turn: NewTurn) -> bool:
        """Return whether the failure came before."""
        return turn.again("error")

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the equal failures among the last of the task, since anything succeeded."""
        codes = pair(lane.error, lane.works_seen + 1)
        reached = same_among(lane, codes, self.window, self.window_s)
        length = np.minimum(self.window, lane.position + 1)
        return among(reached, self.attempts_min, codes, length)

    def say(self, loop: Loop) -> str:
        """Name the first call that failed so."""
        return f"one failure came back {loop.attempts} times in the task, first in {loop.labels[0]}"
