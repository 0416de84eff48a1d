"""The rule `repeated_failure`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import (
    Evaluation,
    Loop,
    Rule,
    Rung,
    SettingError,
    ladder_setting,
    setting,
)
from looptrace.rules.turns import UNKNOWN, Lane, LaneSpec
from looptrace.rules.vocabulary import edits_among, same_among


@dataclass(frozen=True, slots=True)
class RepeatedFailure(Rule):
    """One failure keeps coming back in a task, whoever tries and whatever lies between.

    A failure is compared with the last failures of its task, by its message. Another agent's count
    with them, and so do those that came after other work: edits that leave the same error are
    attempts. Failures of the outside (rate limits, network, authentication, dependencies) are not
    the agent's own and do not count. But a login, a module that is missing, and a server on the
    agent's own machine that still fail after its edits are, and count once for each edit.

    ## Looping
    - `test()->!"expected 42, got 41" (edit(cart.py, {n})->ok test()->!"expected 42, got 41") x2`
    - `@first test()->!"expected 42" x2 @second test()->!"expected 42"`: another agent counts on.
    - `(run()->!"Cannot find module './build'" edit(a.js, {n})->ok) x3`: its edits do not mend it.

    ## Not looping
    - `(get(/)->!"connect ECONNREFUSED 127.0.0.1:80" wait(5)->ok) x5`: its server starts.
    - `test()->!"expected 42, got 41" edit(cart.py)->ok test()->!"expected 42, got 41"`: only twice.
    - `test()->!"expected {n}" x5`: another message each time.
    - `(fetch(a)->!"429 Too Many Requests" wait(60)->ok) x5`: not the agent's own failure.
    - `(user("Try again.") test()->!"expected 42") x4`: a person asked for each attempt.
    - `(test()->!? edit(cart.py, {n})->ok) x4`: nobody knows how it failed.
    """

    name = "repeated_failure"
    lane = LaneSpec(by="task", kinds=("tool",), failures=True)

    attempts_min: int = setting(
        3, ge=2, le=50, doc="Equal failures, the first included, that make a loop."
    )
    window: int = setting(
        10, ge=2, le=100, doc="Failures of the task that one is compared with, itself included."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "gate"),))

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        if self.attempts_min > self.window:
            raise SettingError(
                f"{self.name}.attempts_min is {self.attempts_min}, "
                f"which its window of {self.window} failures cannot hold."
            )

    @property
    def lookback(self) -> int:
        """The window."""
        return self.window

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the failures among the last of the task that equal each one."""
        mended = edits_among(lane, lane.mendable, self.window)
        reached = same_among(lane, lane.error, self.window) + mended
        codes = np.where(lane.error == UNKNOWN, lane.mendable, lane.error)
        length = np.minimum(self.window, lane.position + 1)
        period = np.ones_like(reached)
        return Evaluation(reached, self.attempts_min, period, length, codes, spans="same")

    def say(self, loop: Loop) -> str:
        """Name the first call that failed so."""
        return f"one failure came back {loop.attempts} times in the task, first in {loop.labels[0]}"
