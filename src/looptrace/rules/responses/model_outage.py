"""The rule `model_outage`."""

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
class ModelOutage(Rule):
    """The service of a model fails again and again: a rate limit, a login, the network.

    These failures are not the agent's fault, so the agent is asked to try again later. A person has
    to look only when they go on for long: the ladder's gate waits until the failures have lasted
    `gate_after_s`. Any response ends the row.

    ## Looping
    - `fail("429 Too Many Requests") x3`
    - `fail("503 Service Unavailable") fail("connection refused") fail("429 Too Many Requests")`

    ## Not looping
    - `fail("429 Too Many Requests") x2 say("Done.")`: a retry that succeeds.
    - `(fail("429 Too Many Requests") x2 say("Step {n}.")) x4`: each retry succeeds.
    - `fail("maximum context length is 128000 tokens") x9`: the agent's own failure.
    """

    name = "model_outage"
    lane = LaneSpec(by="agent", kinds=("model",))
    needs = has("external")

    attempts_min: int = setting(
        3, ge=2, le=50, doc="Failures of the model's service in a row that make a loop."
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
        """Say how often."""
        return f"the model's service failed {loop.attempts} times in a row"
