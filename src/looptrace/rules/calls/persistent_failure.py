"""The rule `persistent_failure`."""

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
from looptrace.rules.turns import UNKNOWN, Lane, LaneSpec, NewTurn
from looptrace.rules.vocabulary import attempts_among, pair, same_among


@dataclass(frozen=True, slots=True)
class PersistentFailure(Rule):
    """One failure is still there after all that the agents of a task did about it.

    A failure is compared with the last failures of its task, by its message, and by its arguments
    where it only looks at something. They count where a call succeeded between them that did more
    than look or wait. Without one `repeated_failure` counts them. Edits that differ are attempts,
    so that the gate comes late.

    Failures of the outside (rate limits, network, dependencies) are not the agent's own. But a
    login, a module that is missing, and a server on the agent's own machine that still fail after
    its edits are, and count once for each edit.

    ## Looping
    - `(test()->!"expected 42, got 41" edit(cart.py, {n})->ok) x3`
    - `(test()->!"expected 42" lint()->!"style {n}" read(a)->ok run(fix {n})->ok) x3`
    - `(run()->!"Cannot find module './build'" edit(a.js, {n})->ok) x3`: its edits do not mend it.

    ## Not looping
    - `test()->!"expected 42, got 41" edit(cart.py)->ok test()->!"expected 42, got 41"`: only twice.
    - `(test()->!"expected {n}" edit(cart.py, {n})->ok) x5`: another message each time.
    - `(get(/)->!"connect ECONNREFUSED 127.0.0.1:80" wait(5)->ok) x5`: its server starts.
    - `(fetch(a)->!"429 Too Many Requests" edit(a.py, {n})->ok) x5`: not the agent's own failure.
    - `(test()->!? edit(cart.py, {n})->ok) x4`: nobody knows how it failed.
    """

    name = "persistent_failure"
    lane = LaneSpec(by="task", kinds=("tool",), failures=True)

    attempts_min: int = setting(
        3, ge=2, le=50, doc="Equal failures with a success between them that make a loop."
    )
    window: int = setting(
        20, ge=2, le=100, doc="Failures of the task that one is compared with, itself included."
    )
    window_s: int = setting(
        3_600, ge=60, le=604_800, doc="Seconds after which a failure is no longer counted."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(5, "pivot"), Rung(8, "gate")))

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        check_window(self, self.attempts_min, self.window, "failures")

    @property
    def lookback(self) -> int:
        """The window."""
        return self.window

    def may_fire(self, turn: NewTurn) -> bool:
        """Return whether the failure came before."""
        return turn.again("error") or turn.again("mendable")

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the equal failures among the last of the task that a success lies between."""
        every = same_among(lane, lane.error, self.window, self.window_s)
        alone = pair(lane.error, lane.works_seen + 1)  # Counted by `repeated_failure`.
        own = np.where(every > same_among(lane, alone, self.window, self.window_s), every, 0)
        mendable = lane.mendable
        reached = own + attempts_among(lane, mendable, self.window, self.window_s)
        codes = np.where(lane.error == UNKNOWN, mendable, lane.error)
        length = np.minimum(self.window, lane.position + 1)
        return among(reached, self.attempts_min, codes, length)

    def say(self, loop: Loop) -> str:
        """Name the first call that failed so."""
        return f"one failure outlasts {loop.attempts} attempts, first in {loop.labels[0]}"
