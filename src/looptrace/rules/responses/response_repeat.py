"""The rule `response_repeat`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, ladder_setting, repeats, setting
from looptrace.rules.counting import RowRule
from looptrace.rules.needs import again
from looptrace.rules.turns import UNKNOWN, Lane, LaneSpec
from looptrace.rules.vocabulary import answers_in_a_row, pair


@dataclass(frozen=True, slots=True)
class ResponseRepeat(RowRule):
    """A model gives the same response again and again, and gets no new input.

    Responses are equal if their trimmed texts and the calls that they ask for are equal. The
    new input of a response is what the model got since its last response: results of tools, or
    a message. A model that answers "yes" to a hundred different questions works; one that
    answers an unchanged error with the same sentence is stuck. The first response may have any
    input, unless two make a loop. Samples that are asked for at once are one response.

    Responses without text that only ask for calls are left to rules on calls. A voice agent
    that is given silence asks again; `monologue` finds the one that never stops.

    ## Looping
    - `say("I cannot find the file.", given="Go on.") x3`
    - `say("Start.", given=task) say("Retry.", given=timeout) x4`

    ## Not looping
    - `say("I cannot find the file.", given="Go on.") x2`: twice is a repetition, not yet a loop.
    - `say("positive", given="review {n}") x5`: the same answer to other questions.
    - `say("I cannot find the file.", given=?) x5`: the model's input is unknown.
    - `say(?, given="Go on.") x5`: the response is unknown.
    - `(say("", given=failed) run()->failed) x2 say("", given=failed) run()->done`: only calls.
    - `say("Are you still there?", given="[silence]") x6`: nobody spoke.
    - `(user("And now?") say("Not yet.", given="And now?")) x4`: a person asked again.
    """

    name = "response_repeat"
    lane = LaneSpec(by="agent", kinds=("model",))
    needs = again("response")

    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "pivot"),))
    attempts_min: int = setting(
        3, ge=2, le=100, doc="Equal responses in a row to equal input that make a loop."
    )

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count equal responses in a row, back to the last new input."""
        response = np.where(lane.only_calls | lane.polls, UNKNOWN, lane.response)
        reached = answers_in_a_row(lane, response, self.attempts_min)
        return repeats(reached, self.attempts_min, pair(response, lane.call))

    def say(self, loop: Loop) -> str:
        """Quote the response."""
        times = f"the model answered “{loop.labels[0]}” {loop.attempts} times"
        return f"{times}, and got no new input in between"
