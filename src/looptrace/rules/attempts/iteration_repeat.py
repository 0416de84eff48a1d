"""The rule `iteration_repeat`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, counts, ladder_setting, setting
from looptrace.rules.counting import WindowRule
from looptrace.rules.needs import again, has
from looptrace.rules.turns import UNKNOWN, Codes, Lane, LaneSpec
from looptrace.rules.vocabulary import own, pair


@dataclass(frozen=True, slots=True)
class IterationRepeat(WindowRule):
    """Iterations of an orchestrator end in the same way.

    An orchestrator lets an agent try again and again; its author declares the iteration of each
    call (`looptrace.iteration`). The end of an iteration is its last call with its result;
    failures are compared without places and figures. A run in which all tests pass, fewer
    failing tests, and a poll are not a loop.

    A live call may not be the last of its iteration. So it is compared with the ends of earlier
    iterations only when its own has as many calls as the shortest of them.

    ## Looping
    - `(%{n} edit(cart.py, {n})->ok check()->"not ready") x3`
    - `(%{n} search({n})->"{n} pages" edit(a, {n})->ok status()->"2 of 5 accepted") x3`

    ## Not looping
    - `(%{n} edit(cart.py, {n})->ok check()->"not ready") x2`: twice is a retry.
    - `(%{n} edit(cart.py, {n})->ok check()->"{n} of 5 ready") x5`: progress.
    - `(%{n} edit(cart.py, {n})->ok run_tests()->"12 passed") x5`: all tests pass each time.
    - `(edit(cart.py, {n})->ok check()->"not ready") x5`: no iterations are declared.
    - `(%{n} check()->"not ready" edit(cart.py, {n})->ok) x5`: it looks first, and works afterwards.
    """

    name = "iteration_repeat"
    compared = "calls"
    lane = LaneSpec(by="task", kinds=("tool",), runs=True)
    needs = has("iteration") & again("call", "outcome")

    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(5, "pivot"), Rung(8, "gate")))
    attempts_min: int = setting(
        3, ge=2, le=100, doc="Consecutive iterations with the same end that make a loop."
    )
    window: int = setting(
        100, ge=2, le=1_000, doc="Last calls of the task among which the iterations are counted."
    )

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the iterations whose ends are equal, up to each call of the task."""
        if not lane.turns.iteration[lane.rows].any():  # As in most traces.
            return counts(np.zeros_like(lane.rows), self.attempts_min, lane.rows)
        passes = lane.turns.tests_failed[lane.rows] == 0
        end = np.where(passes, UNKNOWN, own(lane, pair(lane.call, lane.outcome)))
        return counts(_ends_in_a_row(lane, end, self.window), self.attempts_min, end)

    def say(self, loop: Loop) -> str:
        """Name the call with which iterations end."""
        return f"{loop.attempts} iterations ended with {loop.labels[0]} and the same result"


def _ends_in_a_row(lane: Lane, end: Codes, window: int) -> Codes:
    """Count the iterations in a row that ended like each call, including its own iteration.

    Only iterations that began among the last `window` calls count. A call counts for none if it
    comes earlier in its iteration than the ends with which it is compared.
    """
    iteration = lane.turns.iteration[lane.rows]
    reached: Codes = ((end != UNKNOWN) & (iteration != UNKNOWN)).astype(np.int64)
    begins = lane.position == 0
    begins[1:] |= iteration[1:] != iteration[:-1]
    starts = np.flatnonzero(begins)
    lasts = np.append(starts[1:], len(end)) - 1
    number = np.cumsum(begins) - 1  # of each call's iteration
    calls_before = np.arange(len(end)) - starts[number]
    places = np.flatnonzero(reached)
    shortest = np.full(len(end), len(end))
    for back in range(1, window):
        places = places[number[places] >= back]
        first, last = (of[number[places] - back] for of in (starts, lasts))
        same = (end[last] == end[places]) & (iteration[last] != UNKNOWN)
        same &= (first > places - window) & (places - first <= lane.position[places])
        places = places[same]
        if not len(places):
            break
        reached[places] += 1
        shortest[places] = np.minimum(shortest[places], (last - first)[same])
    early = (calls_before < shortest) & (reached > 1)
    reached[early] = 1
    return reached
