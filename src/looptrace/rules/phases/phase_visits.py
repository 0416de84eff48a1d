"""The rule `phase_visits`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, counts, ladder_setting, setting
from looptrace.rules.counting import TurnRule
from looptrace.rules.needs import exceeds, has
from looptrace.rules.turns import Lane, LaneSpec


@dataclass(frozen=True, slots=True)
class PhaseVisits(TurnRule):
    """A phase of a task is entered more often than allowed.

    Phases are declared (`looptrace.phase`). Consecutive turns in one phase are one visit. A
    person's message resets the count.

    ## Looping
    - `(#fix edit(a, {n})->ok #test test()->"{n} passed") x10 #fix edit(b)->ok`

    ## Not looping
    - `(#fix edit(a, {n})->ok #test test()->"{n} passed") x10`: as often as is allowed.
    - `#test test({n})->ok x20`: one long visit.
    - `(edit(a, {n})->ok test()->"{n} passed") x20`: no phases are declared.
    - `(user("Go on.") #fix edit(a, {n})->ok #test test()->ok) x12`: a person asked for each round.
    """

    name = "phase_visits"
    lane = LaneSpec(by="task", kinds=("tool", "model", "handoff", "attempt"))
    needs = has("enters") & exceeds("visits", "max_visits")

    max_visits: int = setting(10, ge=1, le=1_000, doc="Visits to one phase that are allowed.")
    ladder: tuple[Rung, ...] = ladder_setting((Rung(1, "gate"),))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Compare the count of each turn that enters a phase."""
        turns, rows = lane.turns, lane.rows
        reached = np.where(turns.enters[rows], turns.visits[rows], 0)
        return counts(reached, self.max_visits + 1, turns.phase[rows])

    def say(self, loop: Loop) -> str:
        """Name what was exceeded, and by how much."""
        return (
            f"Phase '{loop.phase}' exceeded max_visits ({self.max_visits}) "
            f"with {loop.attempts} visits"
        )
