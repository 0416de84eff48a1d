"""The rule `transition_repeats`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, counts, ladder_setting, setting
from looptrace.rules.counting import TurnRule
from looptrace.rules.needs import exceeds, has
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import pair


@dataclass(frozen=True, slots=True)
class TransitionRepeats(TurnRule):
    """A task goes from one phase to the same other phase more often than allowed.

    Each destination has its own count. A person's message resets the counts.

    ## Looping
    - `(#fix edit(a, {n})->ok #test test()->"{n} passed") x6`

    ## Not looping
    - `(#fix edit(a, {n})->ok #test test()->"{n} passed") x5`: as often as is allowed.
    - `(#a do({n})->ok #b do({n})->ok #a do({n})->ok #c do({n})->ok) x5`: each transition 5 times.
    - `(user("Go on.") #fix edit(a, {n})->ok #test test()->ok) x12`: a person asked for each round.
    """

    name = "transition_repeats"
    lane = LaneSpec(by="task", kinds=("tool", "model", "handoff", "attempt"))
    needs = has("enters") & exceeds("transitions_seen", "max_transitions")

    max_transitions: int = setting(
        5,
        ge=1,
        le=1_000,
        doc="Transitions from one phase to another that are allowed.",
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(1, "gate"),))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Compare the count of each turn that enters a phase."""
        turns, rows = lane.turns, lane.rows
        reached = np.where(turns.enters[rows], turns.transitions_seen[rows], 0)
        way = pair(turns.phase_before[rows], turns.phase[rows])
        return counts(reached, self.max_transitions + 1, way)

    def say(self, loop: Loop) -> str:
        """Name what was exceeded, and by how much."""
        return (
            f"Transition {loop.phase_before}→{loop.phase} exceeded max_transitions "
            f"({self.max_transitions}) with {loop.attempts} occurrences"
        )
