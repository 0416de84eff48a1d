"""The rule `empty_response`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, ladder_setting, repeats, setting
from looptrace.rules.counting import RowRule
from looptrace.rules.needs import has
from looptrace.rules.turns import UNKNOWN, Lane, LaneSpec
from looptrace.rules.vocabulary import answers_in_a_row, pair


@dataclass(frozen=True, slots=True)
class EmptyResponse(RowRule):
    """A model returns an empty response, and gets the same request again.

    An empty response has an empty text, no parts, or only reasoning, and no call. The model's new
    input is the same each time, except that of the first response, and the agent calls no tool in
    between. A response is unknown if the trace does not show that it is empty.

    ## Looping
    - `say(nothing, given="Fix the test.") x3`

    ## Not looping
    - `say(nothing, given="Fix the test.") x2 say("Done.", given="Fix the test.")`: a retry helps.
    - `say(nothing, given="page {n}") x5`: it had no comment on each of five pages.
    - `say(nothing, given=?) x5`: the model's input is unknown.
    - `(say(nothing, given="Go on.") edit(a, {n})->ok) x5`: it works without words.
    """

    name = "empty_response"
    lane = LaneSpec(by="agent", kinds=("model", "tool", "handoff"))
    needs = has("silent")

    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(5, "gate")))
    attempts_min: int = setting(
        3,
        ge=2,
        le=50,
        doc="Empty responses in a row, without new input, that make a loop.",
    )

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the empty responses in a row without new input in between."""
        silence = np.where(lane.turns.silent[lane.rows], lane.response, UNKNOWN)
        reached = answers_in_a_row(lane, silence, self.attempts_min)
        return repeats(reached, self.attempts_min, pair(silence, lane.call))

    def say(self, loop: Loop) -> str:
        """Say how often."""
        return f"{loop.attempts} responses in a row were empty"
