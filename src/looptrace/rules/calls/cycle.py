"""The rule `cycle`."""

from __future__ import annotations

from dataclasses import dataclass

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, cycles, ladder_setting, setting
from looptrace.rules.turns import Lane, LaneSpec, NewTurn
from looptrace.rules.vocabulary import OWN_LOOKBACK, own, pair, shortest

PERIOD_MIN = 2  # A period of 1 is what `repeated_call` finds.


@dataclass(frozen=True, slots=True)
class Cycle(Rule):
    """A pattern of several calls comes round again with the same results.

    Every call of a round must equal, result included, the call one period before it. The shortest
    period that explains the turns is reported.

    Failures of the outside, such as a rate limit, are `external_failure`'s.

    ## Looping
    - `(create(a.py)->"exists" remove(a.py)->ok) x3`
    - `(plan()->p draft()->d review()->"too long" cut()->c) x3`
    - `(a()->1 b()->2 c()->3 d()->4 e()->5 f()->6 g()->7 h()->8) x3`
    - `[b()->2 a()->1] c()->3 ([a()->1 b()->2] c()->3) x2`: parallel calls have no order.

    ## Not looping
    - `plan()->p draft()->d review()->ok`: a single pass is no cycle.
    - `read(a)->1 read(b)->2 read(a)->1`: nor is a look back.
    - `(read(a)->1 read(b)->2 read(c)->3) x2`: nor a second pass over the same files.
    - `(edit(cart.py, {n})->ok run_tests()->"{n} passed") x4`: every round is new.
    - `(read(a)->? write(b)->ok) x4`: one result is unknown.
    - `ping()->ok x8`: one call in a row is no cycle of several.
    - `(job_status(7)->pending wait(30)->ok) x9`: polling.
    - `(user("Again.") create(a.py)->"exists" remove(a.py)->ok) x4`: a person asked for each round.
    """

    name = "cycle"
    lane = LaneSpec(by="agent", kinds=("tool",))

    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(4, "gate")))
    rounds_min: int = setting(3, ge=2, le=20, doc="Full rounds of the pattern that make a loop.")
    period_max: int = setting(8, ge=2, le=8, doc="Turns in the longest pattern looked for.")

    @property
    def lookback(self) -> int:
        """All rounds of the longest pattern, and what tells whether its calls are polls."""
        return self.rounds_min * self.period_max + OWN_LOOKBACK

    def may_fire(self, turn: NewTurn) -> bool:
        """Return whether a round is there again."""
        return turn.again("call", "outcome")

    def evaluate(self, lane: Lane) -> Evaluation:
        """Find at each turn the shortest period with enough rounds, else the one with most."""
        same = own(lane, pair(lane.call, lane.outcome))
        periods = range(PERIOD_MIN, self.period_max + 1)
        pattern = shortest(lane, same, periods, self.rounds_min, self.period_max)
        return cycles(same, pattern, self.rounds_min)

    def say(self, loop: Loop) -> str:
        """Write the pattern with arrows."""
        return f"{' → '.join(loop.labels)} went round {loop.attempts} times"
