"""The rule `external_failure`."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from looptrace.rules.contract import (
    Action,
    Evaluation,
    Loop,
    Rule,
    Rung,
    ladder_setting,
    repeats,
    setting,
)
from looptrace.rules.needs import has
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import streak


@dataclass(frozen=True, slots=True)
class ExternalFailure(Rule):
    """External failures repeat: a rate limit, a login, the network, a dependency.

    They are not the agent's fault, so the agent is asked to try again later. A person has to look
    only when they go on for long: the ladder's gate waits until the failures have lasted
    `gate_after_s`. Any other call of the task in between, of any agent, ends the row.

    ## Looping
    - `fetch(a)->!"429 Too Many Requests" x3`
    - `fetch(a)->!"connection refused" login()->!"401 Unauthorized" fetch(b)->!"429"`

    ## Not looping
    - `fetch(a)->!"429 Too Many Requests" x2 fetch(a)->ok`: a retry that succeeds.
    - `(fetch(a{n})->!"429 Too Many Requests" fetch(a{n})->ok) x9`: each retry succeeds.
    - `(fetch(a)->!"429 Too Many Requests" wait(60)->ok) x9`: it waits between the attempts.
    - `test()->!"expected 42, got 41" x9`: the agent's own failure.
    - `fetch(a)->!? x9`: the error is unknown.
    - `(user("Try again.") fetch(a)->!"429 Too Many Requests") x9`: a person asked for each attempt.
    """

    name = "external_failure"
    lane = LaneSpec(by="task", kinds=("tool",), once="twin_external")
    needs = has("external")

    attempts_min: int = setting(
        3, ge=2, le=50, doc="External failures in a row in the task that make a loop."
    )
    gate_after_s: int = setting(
        1_800, ge=60, le=604_800, doc="Seconds that they must last before there is a gate."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "retry_later"), Rung(5, "gate")))

    @property
    def lookback(self) -> int:
        """The failures of a loop."""
        return self.attempts_min

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the external failures in a row, whatever their message."""
        external = lane.external
        return repeats(streak(lane, external), self.attempts_min, external.astype(np.int64))

    def action(self, attempts: int, seconds: float = inf) -> Action:
        """Return the highest rung that is reached; a gate only after the time set for it."""
        lasts = seconds >= self.gate_after_s
        reached = [rung.action for rung in self.ladder if attempts >= rung.attempts]
        allowed = [action for action in reached if lasts or action != "gate"]
        return allowed[-1] if allowed else "retry_later"

    def say(self, loop: Loop) -> str:
        """Name the first call that failed."""
        return f"{loop.attempts} external failures in a row, first in {loop.labels[0]}"
