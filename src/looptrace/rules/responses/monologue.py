"""The rule `monologue`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, ladder_setting, repeats, setting
from looptrace.rules.turns import UNKNOWN, Lane, LaneSpec, NewTurn
from looptrace.rules.vocabulary import same_as, streak


@dataclass(frozen=True, slots=True)
class Monologue(Rule):
    """An agent talks on and on: it calls no tool, hands nothing on, and learns nothing new.

    Each response must go on from the one before it, which the trace shows: the history that the
    model was given ends with that response, and then with nothing or with the same news as before,
    such as “Go on.”. The news before the first response of a loop is free. What was said plays no
    part; the same words again are found by `response_repeat`, and sooner.

    A long text that is written part by part at the word “Go on.” looks the same, so that the rule
    only warns at first. Actions that stand in the text and have no span of their own are not seen.

    ## Looping
    - `say("Now I would look at part {n}.", given="Go on.") x8`
    - `say("Let me think.", given=task) say("Step {n} will be to think.", given="") x7`

    ## Not looping
    - `say("Now I would look at part {n}.", given="Go on.") x7`: it may be about to act.
    - `say("Part {n} looks well.", given="part {n}") x12`: other news each time.
    - `say("My guess is {n}.", asked="How many?") x12`: each time asked anew, with no history.
    - `(say("I look at part {n}.", given=ok) read({n})->ok) x12`: it acts.
    - `(say("Look at part {n}.", given=ok) handoff(reader, "Read part {n}.")) x12`: so it does here.
    - `say("Part {n}.", given=?) x12`: what the model was given is unknown.
    - `(user("Go on.") say("Part {n}.", given="Go on.")) x12`: a person asked for each part.
    """

    name = "monologue"
    lane = LaneSpec(by="agent", kinds=("tool", "model", "handoff"))
    exact = False  # What was said differs, and may well lead somewhere.

    attempts_min: int = setting(
        8, ge=3, le=100, doc="Responses without an action, in a row, that make a loop."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(8, "warn"), Rung(16, "gate")))

    @property
    def lookback(self) -> int:
        """As many responses as make a loop."""
        return self.attempts_min

    def may_fire(self, turn: NewTurn) -> bool:
        """Return whether it goes on from a response."""
        return turn.talks_on != UNKNOWN

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count responses that go on from one another, as far back as the news stayed the same."""
        before, news = lane.talks_on, lane.call
        goes_on = np.zeros(len(before), dtype=np.bool_)
        goes_on[1:] = (before[1:] == lane.response[:-1]) & (before[1:] != UNKNOWN)
        talk = streak(lane, goes_on & (lane.position > 0)) + 1
        nothing_new = streak(lane, same_as(lane, news, 1)) + 2
        reached = np.where(lane.response == UNKNOWN, 0, np.minimum(talk, nothing_new))
        return repeats(reached, self.attempts_min, news)

    def say(self, loop: Loop) -> str:
        """Quote the first response."""
        return f"{loop.attempts} responses without an action, from “{loop.labels[0]}” on"
