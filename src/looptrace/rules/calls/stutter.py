"""The rule `stutter`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import (
    Evaluation,
    Loop,
    Rule,
    Rung,
    among,
    check_window,
    ladder_setting,
    setting,
)
from looptrace.rules.turns import UNKNOWN, Lane, LaneSpec, NewTurn
from looptrace.rules.vocabulary import OWN_LOOKBACK, in_a_row, own, pair, same_among

TWICE = 2  # More in a row is one place still, and what `repeated_call` finds.


@dataclass(frozen=True, slots=True)
class Stutter(Rule):
    """An agent makes a call, and at once the same call with the same result, at several places.

    Once that is a retry, and once more long after it is another. An agent that does so with one
    call and then with another has lost track of what it did, although none of its calls comes
    three times in a row.

    Failures of the outside, such as a rate limit, are `external_failure`'s.

    ## Looping
    - `read(a)->1 x2 edit(a)->ok read(b)->2 x2`
    - `(write({n})->"not done" write({n})->"not done" look({n})->text) x3`

    ## Not looping
    - `read(a)->1 x2 edit(a)->ok read(b)->2`: once is a retry.
    - `read(a)->1 x2 ~3600 read(b)->2 read(b)->2`: an hour lies between the two.
    - `read(a)->1 x9`: one place, however often; that is the matter of `repeated_call`.
    - `(status(a)->"{n} %" status(a)->"{n} % done") x4`: the results differ.
    - `(read({n})->? read({n})->?) x4`: the results are unknown.
    - `(fetch({n})->!"429" fetch({n})->!"429") x4`: not the agent's own failure.
    - `(user("Again.") read({n})->1 read({n})->1) x4`: a person asked in between.
    """

    name = "stutter"
    lane = LaneSpec(by="agent", kinds=("tool",))

    attempts_min: int = setting(
        4, ge=2, le=100, doc="Calls, two of each such place, that make a loop."
    )
    window: int = setting(30, ge=2, le=200, doc="Calls among which these places are counted.")
    window_s: int = setting(1_800, ge=60, le=604_800, doc="Seconds within which these places lie.")
    ladder: tuple[Rung, ...] = ladder_setting((Rung(4, "warn"), Rung(8, "pivot"), Rung(12, "gate")))

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        check_window(self, self.attempts_min, self.window, "calls")

    @property
    def lookback(self) -> int:
        """The window, and those before it that tell whether a call came twice, and was no poll."""
        return self.window + 1 + TWICE + OWN_LOOKBACK

    def may_fire(self, turn: NewTurn) -> bool:
        """Return whether a call came twice."""
        return turn.again("call", "outcome")

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the calls among the last that were made the second time in a row, and the first."""
        same = own(lane, pair(lane.call, lane.outcome))
        second = np.where(in_a_row(lane, same) == TWICE, 1, UNKNOWN)
        what = second.copy()
        what[:-1] |= second[1:]
        reached = TWICE * same_among(lane, second, self.window, self.window_s) * second
        length = np.minimum(self.window, lane.position) + 1
        return among(reached, self.attempts_min, what, length)

    def say(self, loop: Loop) -> str:
        """Name the first call."""
        return f"{loop.attempts} calls repeat one another in pairs, first {loop.labels[0]}"
