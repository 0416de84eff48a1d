"""The rule `chant`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, counts, ladder_setting, setting
from looptrace.rules.counting import TurnRule
from looptrace.rules.needs import reaches
from looptrace.rules.turns import Lane, LaneSpec


@dataclass(frozen=True, slots=True)
class Chant(TurnRule):
    """One response of a model repeats the same words to its end.

    A chant ends only at the limit of tokens, so the rule looks at the end of a text. The words
    must repeat letter by letter, without a gap; numbered steps, tables and lists differ from
    line to line.

    ## Looping
    - `say("I will try it again. "*20)`
    - `say("0 1 1 "*40)`
    - `say("stop it. no no no no no no no no no no no no no no no. "*12)`

    ## Not looping
    - `say("I will try it again. "*9)`: too few to be sure.
    - `say("ha "*20)`: too short to be sure.
    - `say("| --- | --- |"*90)`: a table has no words here.
    - `say("I will try it again.") x20`: `response_repeat` finds this.
    - `say(?) x20`: the text is unknown.
    """

    name = "chant"
    lane = LaneSpec(by="agent", kinds=("model",))
    needs = reaches("chant_times", "times_min")

    times_min: int = setting(10, ge=3, le=1_000, doc="Repeats in a row that make a loop.")
    chars_min: int = setting(200, ge=100, le=8_000, doc="Characters that they must have in total.")
    ladder: tuple[Rung, ...] = ladder_setting((Rung(1, "warn"), Rung(50, "pivot")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Compare the count of each text that is long enough."""
        turns, rows = lane.turns, lane.rows
        times = np.where(turns.chant_chars[rows] >= self.chars_min, turns.chant_times[rows], 0)
        return counts(times, self.times_min, turns.response[rows])

    def say(self, loop: Loop) -> str:
        """Say how often, and quote the response."""
        return f"one response says the same words {loop.attempts} times: “{loop.labels[0]}”"
