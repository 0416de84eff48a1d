"""The rule `same_result`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, ladder_setting, repeats, setting
from looptrace.rules.turns import UNKNOWN, Lane, LaneSpec, NewTurn
from looptrace.rules.vocabulary import in_a_row, pair, streak


@dataclass(frozen=True, slots=True)
class SameResult(Rule):
    """One search tool gives the same answer, whatever it is asked.

    Only tools that search by their name are looked at (search, grep, find, lookup, query, ...),
    because other tools do the same to many things and well give the same result each time. Of a
    query only an empty answer counts. Searches that one response asked for in parallel are one
    batch, and are left out. The same search again is found by `repeated_call`, and sooner;
    failures are found by `repeated_failure` and `signature_repeat`.

    ## Looping
    - `search(refund {n})->"no results" x5`
    - `(say("Other words {n}.") grep(refund {n})->"") x5`

    ## Not looping
    - `search(refund {n})->"no results" x4`: there were other words to try.
    - `search(refund {n})->"{n} results" x9`: the answers differ.
    - `search(refund)->"no results" x9`: one search repeated is the matter of `repeated_call`.
    - `read_file(part{n}.md)->"# Notes" x9`: other files may begin alike.
    - `edit(part{n}.md)->ok x9`: work on many things.
    - `query(insert {n})->"1 row" x9`: so is this.
    - `(search(refund {n})->"no results" edit(a, {n})->ok) x9`: there is work in between.
    - `[search(a)->none search(b)->none search(c)->none search(d)->none search(e)->none]`: a batch.
    - `search(refund {n})->? x9`: the answers are unknown.
    - `search(?)->"no results" x9`: what was asked is unknown.
    """

    name = "same_result"
    lane = LaneSpec(by="agent", kinds=("tool",))

    attempts_min: int = setting(
        5, ge=2, le=100, doc="Searches with one answer, in a row, that make a loop."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(5, "warn"), Rung(8, "pivot"), Rung(12, "gate")))

    @property
    def lookback(self) -> int:
        """As many searches as make a loop."""
        return self.attempts_min

    def may_fire(self, turn: NewTurn) -> bool:
        """Return whether the answer came before."""
        return turn.again("search_result")

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count equal answers in a row to searches that each differ from the one before."""
        asked, answer = lane.call, lane.search_result
        anew = (asked != UNKNOWN) & (in_a_row(lane, pair(asked, answer)) == 1)
        reached = np.minimum(in_a_row(lane, answer), streak(lane, anew))
        return repeats(reached, self.attempts_min, answer)

    def say(self, loop: Loop) -> str:
        """Name the first search."""
        return f"{loop.attempts} searches from {loop.labels[0]} on had the same answer"
