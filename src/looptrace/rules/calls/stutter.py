"""The rule `stutter`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, among, ladder_setting, setting
from looptrace.rules.counting import WindowRule
from looptrace.rules.needs import again
from looptrace.rules.turns import UNKNOWN, Lane, LaneSpec
from looptrace.rules.vocabulary import in_a_row, own, pair, same_among

TWICE = 2  # More calls in a row are still one place, and `repeated_call` finds them.


@dataclass(frozen=True, slots=True)
class Stutter(WindowRule):
    """An agent repeats calls at once with the same result, at several places.

    One such repeat is a retry, as is one more long afterwards. An agent that repeats one call
    and then another has lost track, although no call comes three times in a row.

    ## Looping
    - `read(a)->1 x2 edit(a)->ok read(b)->2 x2`
    - `(write({n})->"not done" write({n})->"not done" look({n})->text) x3`

    ## Not looping
    - `read(a)->1 x2 edit(a)->ok read(b)->2`: once is a retry.
    - `read(a)->1 x2 ~3600 read(b)->2 read(b)->2`: an hour between the two.
    - `read(a)->1 x9`: one place; `repeated_call` finds it.
    - `(status(a)->"{n} %" status(a)->"{n} % done") x4`: the results differ.
    - `(read({n})->? read({n})->?) x4`: the results are unknown.
    - `(fetch({n})->!"429" fetch({n})->!"429") x4`: the failures are external.
    - `(user("Again.") read({n})->1 read({n})->1) x4`: a person asked in between.
    """

    name = "stutter"
    compared = "calls"
    lane = LaneSpec(by="agent", kinds=("tool",))
    needs = again("call", "outcome")

    attempts_min: int = setting(4, ge=2, le=100, doc="Calls that make a loop; each place has two.")
    window: int = setting(30, ge=2, le=200, doc="Last calls among which these places are counted.")
    window_s: int = setting(
        1_800, ge=60, le=604_800, doc="Seconds within which these places must be."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(4, "warn"), Rung(8, "pivot"), Rung(12, "gate")))

    @property
    def lookback(self) -> int:
        """The window, and the pair before it."""
        return self.window + 1 + TWICE

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the pairs of equal calls among the last calls, in calls."""
        same = own(lane, pair(lane.call, lane.outcome))
        second = np.where(in_a_row(lane, same) == TWICE, 1, UNKNOWN)
        what = second.copy()
        what[:-1] |= second[1:]
        reached = TWICE * same_among(lane, second, self.window, self.window_s) * second
        length = np.minimum(self.window, lane.position) + 1
        return among(reached, self.attempts_min, what, length)

    def say(self, loop: Loop) -> str:
        """Name the first call."""
        return f"{loop.attempts} calls are pairs of the same call, first {loop.labels[0]}"
