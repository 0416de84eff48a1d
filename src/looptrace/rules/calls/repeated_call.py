"""The rule `repeated_call`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, ladder_setting, repeats, setting
from looptrace.rules.turns import Lane, LaneSpec, NewTurn
from looptrace.rules.vocabulary import OWN_LOOKBACK, alike_in_a_row, own, pair


@dataclass(frozen=True, slots=True)
class RepeatedCall(Rule):
    """The same call gets the same result, again and again.

    The result is part of the sameness: a status that changes, or a test that fails in fewer
    places, is work. What the model says between the calls does not matter. Times, ids and the like
    within a result are masked before it is compared. Looking again after a wait is polling, and
    recorded progress ends what was counted.

    A search in other words is the same only where the settings say how
    [meaning](../near_sameness.md) is compared.

    Failures of the outside, such as a rate limit, are `external_failure`'s.

    ## Looping
    - `run_tests(cart.py)->!"expected 42, got 41" x3`
    - `(say("Let me try again {n}.") search(refund policy)->none) x4`
    - `query(orders)->"0 rows in 0.{n}2 s" x3`

    ## Not looping
    - `run_tests(cart.py)->!"expected 42, got 41" x2`: one retry is legitimate.
    - `deploy_status(web)->"{n}0 %" x5`: the result changes.
    - `read_file(part{n}.md)->"# Notes" x5`: other arguments, other work.
    - `(run_tests()->"3 failed" edit(cart.py, {n})->ok) x4`: not the same call in a row.
    - `fetch(?)->"timed out" x5`: the arguments are unknown.
    - `fetch(a)->? x5`: the results are unknown.
    - `fetch(a)->!"429 Too Many Requests" x5`: not the agent's own failure.
    - `(user("Any news?") inbox()->empty) x4`: a person asked again.
    - `(~60 job_status(7)->pending) x9`: the agent waited each time.
    - `job_status(7)->pending ~1 job_status(7)->pending ~4 job_status(7)->pending ~10
      job_status(7)->pending`: it backs off.
    - `(migrate()->ok progress(markers=1)) x9`: there is progress.
    """

    name = "repeated_call"
    lane = LaneSpec(by="agent", kinds=("tool",))
    compares_meaning = True

    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(5, "gate")))
    attempts_min: int = setting(
        3, ge=2, le=100, doc="Equal calls with equal results, in a row, that make a loop."
    )

    @property
    def lookback(self) -> int:
        """As many calls as make a loop, and what tells whether they are polls."""
        return self.attempts_min + OWN_LOOKBACK

    def may_fire(self, turn: NewTurn) -> bool:
        """Return whether the call came before."""
        return turn.again("call", "outcome")

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the calls in a row that equal each other, result included."""
        same = own(lane, pair(lane.call, lane.outcome))
        reached = alike_in_a_row(lane, same, self.attempts_min)
        return repeats(reached, self.attempts_min, np.ones_like(lane.rows))

    def say(self, loop: Loop) -> str:
        """Name the call and what became of it."""
        became = "failed the same way" if loop.failed else "gave the same result"
        words = ", some in other words" if loop.reworded else ""
        return f"{loop.labels[0]} {became} {loop.attempts} times{words}"
