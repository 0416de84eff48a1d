"""The rule `same_result`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, ladder_setting, repeats, setting
from looptrace.rules.turns import UNKNOWN, Lane, LaneSpec, NewTurn
from looptrace.rules.vocabulary import in_a_row, pair, streak


@dataclass(frozen=True, slots=True)
class SameResult(Rule):
    """A search tool gives the same answer to different searches.

    The rule looks only at tools whose name says that they search (search, grep, find, lookup,
    query, ...), because other tools may rightly give the same result for many different things. Of
    a query only an empty answer counts. Parallel searches of one response are one batch, and are
    ignored. `repeated_call` finds the same search again, and sooner; `repeated_failure` and
    `signature_repeat` find failures.

    ## Looping
    - `search(refund {n})->"no results" x5`
    - `(say("Other words {n}.") grep(refund {n})->"") x5`

    ## Not looping
    - `search(refund {n})->"no results" x4`: there were other words to try.
    - `search(refund {n})->"{n} results" x9`: the answers differ.
    - `search(refund)->"no results" x9`: `repeated_call` finds one repeated search.
    - `read_file(part{n}.md)->"# Notes" x9`: other files may begin alike.
    - `edit(part{n}.md)->ok x9`: work on many things.
    - `query(insert {n})->"1 row" x9`: work on many things, too.
    - `(search(refund {n})->"no results" edit(a, {n})->ok) x9`: work in between.
    - `[search(a)->none search(b)->none search(c)->none search(d)->none search(e)->none]`: a batch.
    - `search(refund {n})->? x9`: the answers are unknown.
    - `search(?)->"no results" x9`: the searches are unknown.
    """

    name = "same_result"
    lane = LaneSpec(by="agent", kinds=("tool",))

    attempts_min: int = setting(
        5, ge=2, le=100, doc="Searches in a row with the same answer that make a loop."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(5, "warn"), Rung(8, "pivot"), Rung(12, "gate")))

    @property
    def lookback(self) -> int:
        """The searches of a loop."""
        return self.attempts_min

    def may_fire(self, turn: NewTurn) -> bool:
        """Return whether the answer came before."""
        return turn.again("search_result")

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count equal answers in a row to searches of which each differs from the one before."""
        asked, answer = lane.call, lane.search_result
        anew = (asked != UNKNOWN) & (in_a_row(lane, pair(asked, answer)) == 1)
        reached = np.minimum(in_a_row(lane, answer), streak(lane, anew))
        return repeats(reached, self.attempts_min, answer)

    def say(self, loop: Loop) -> str:
        """Name the first search."""
        return f"{loop.attempts} searches from {loop.labels[0]} on had the same answer"
