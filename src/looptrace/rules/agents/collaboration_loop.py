"""The rule `collaboration_loop`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, ladder_setting, repeats, setting
from looptrace.rules.counting import RowRule
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import alike_in_a_row, streak, within


@dataclass(frozen=True, slots=True)
class CollaborationLoop(RowRule):
    """One agent gives another the same request, again and again.

    A request is the called agent and the text of the request. There is no window in time, but a gap
    of more than a day ends the row. Requests in other words are the same only if the settings say
    how [meaning](../near_sameness.md) is compared.

    ## Looping
    - `handoff(reviewer, "Review the login code.") x4`

    ## Not looping
    - `handoff(reviewer, "Review the login code.") x3`: the third may still bring an answer.
    - `handoff(reviewer, "Review part {n}.") x6`: different work each time.
    - `handoff(reviewer, ?) x6`: the request is unknown.
    - `(handoff(reviewer, "Review it.") handoff(tester, "Test it.")) x4`: two agents in turn.
    """

    name = "collaboration_loop"
    lane = LaneSpec(by="agent", kinds=("handoff",))
    compares_meaning = True

    attempts_min: int = setting(
        4, ge=2, le=50, doc="Equal requests to one agent, in a row, that make a loop."
    )
    gap_s: int = setting(
        86_400, ge=60, le=2_592_000, doc="Seconds between two requests that end the row."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(4, "gate"),))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count equal requests in a row, back to the last gap."""
        near = streak(lane, within(lane, 1, self.gap_s)) + 1
        alike = alike_in_a_row(lane, lane.call, self.attempts_min)
        return repeats(np.minimum(alike, near), self.attempts_min, np.ones_like(lane.rows))

    def say(self, loop: Loop) -> str:
        """Name the agent and the request."""
        words = ", some in other words" if loop.reworded else ""
        return f"{loop.labels[0]} was requested {loop.attempts} times{words}"
