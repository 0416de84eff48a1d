"""The rule `monologue`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, ladder_setting, repeats, setting
from looptrace.rules.counting import RowRule
from looptrace.rules.needs import has
from looptrace.rules.turns import UNKNOWN, Lane, LaneSpec
from looptrace.rules.vocabulary import same_as, streak


@dataclass(frozen=True, slots=True)
class Monologue(RowRule):
    """An agent talks on and on: it calls no tool, asks no other agent, and gets no new input.

    Each response must continue the one before it, as the trace shows: the model's input ends
    with that response, followed by nothing or by the same new input as before, such as “Go
    on.”. The words of the responses do not matter; `response_repeat` finds the same words, and
    sooner.

    A long text in parts after “Go on.” looks the same, so the rule only warns at first; parts that
    come after a pause of some seconds do not count. It does not see actions in the text without a
    span.

    ## Looping
    - `say("Now I would look at part {n}.", given="Go on.") x8`
    - `say("Let me think.", given=task) say("Step {n} will be to think.", given="") x7`

    ## Not looping
    - `say("Now I would look at part {n}.", given="Go on.") x7`: it may be about to act.
    - `say("Part {n} looks well.", given="part {n}") x12`: new input each time.
    - `say("My guess is {n}.", asked="How many?") x12`: a new question each time, with no history.
    - `(say("I look at part {n}.", given=ok) read({n})->ok) x12`: it acts.
    - `(say("Look at part {n}.", given=ok) handoff(reader, "Read part {n}.")) x12`: it acts.
    - `say("Part {n}.", given=?) x12`: the model's input is unknown.
    - `(user("Go on.") say("Part {n}.", given="Go on.")) x12`: a person asked for each part.
    """

    name = "monologue"
    lane = LaneSpec(by="agent", kinds=("tool", "model", "handoff"))
    needs = has("talks_on")
    exact = False  # The words differ, and may lead somewhere.

    attempts_min: int = setting(
        8, ge=3, le=100, doc="Responses in a row without an action that make a loop."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(8, "warn"), Rung(16, "gate")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count responses of which each continues the one before, back to the last new input."""
        before, news = lane.talks_on, lane.call
        goes_on = np.zeros(len(before), dtype=np.bool_)
        goes_on[1:] = (before[1:] == lane.response[:-1]) & (before[1:] != UNKNOWN)
        waitless = same_as(lane, lane.waits_seen + 1, 1)
        talk = streak(lane, goes_on & (lane.position > 0)) + 1
        nothing_new = streak(lane, same_as(lane, news, 1) & waitless) + 2
        reached = np.where(lane.response == UNKNOWN, 0, np.minimum(talk, nothing_new))
        return repeats(reached, self.attempts_min, news)

    def say(self, loop: Loop) -> str:
        """Quote the first response."""
        return f"{loop.attempts} responses without an action, from “{loop.labels[0]}” on"
