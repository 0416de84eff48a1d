"""The rule `cycle`."""

from dataclasses import dataclass

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, cycles, ladder_setting, setting
from looptrace.rules.needs import again
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import longer, own, pair, shortest

PERIOD_MIN = 2  # `repeated_call` finds a period of 1.
# Rounds up to this length are common, so each is looked for; longer ones where they may be.
PERIOD_SHORT = 8


@dataclass(frozen=True, slots=True)
class Cycle(Rule):
    """A pattern of several calls repeats with the same results.

    Every call of a round must equal the call one period before it, including its result. The
    rule reports the shortest period that explains the turns. Rounds may be long: after a
    compaction an agent may read the same twenty files again and again.

    ## Looping
    - `(create(a.py)->"exists" remove(a.py)->ok) x3`
    - `(plan()->p draft()->d review()->"too long" cut()->c) x3`
    - `(a()->1 b()->2 c()->3 d()->4 e()->5 f()->6 g()->7 h()->8) x3`
    - `(r(a)->1 r(b)->2 r(c)->3 r(d)->4 r(e)->5 r(f)->6 r(g)->7 r(h)->8 r(i)->9 r(j)->10) x3`
    - `[b()->2 a()->1] c()->3 ([a()->1 b()->2] c()->3) x2`: parallel calls have no order.

    ## Not looping
    - `plan()->p draft()->d review()->ok`: a single pass is not a cycle.
    - `read(a)->1 read(b)->2 read(a)->1`: a second look is not a cycle.
    - `(read(a)->1 read(b)->2 read(c)->3) x2`: nor is a second pass over the same files.
    - `(edit(cart.py, {n})->ok run_tests()->"{n} passed") x4`: every round is new.
    - `(read(a)->? write(b)->ok) x4`: one result is unknown.
    - `ping()->ok x8`: one call in a row is not a cycle.
    - `(job_status(7)->pending wait(30)->ok) x9`: polling.
    - `(user("Again.") create(a.py)->"exists" remove(a.py)->ok) x4`: a person asked for each round.
    """

    name = "cycle"
    lane = LaneSpec(by="agent", kinds=("tool",))
    needs = again("call", "outcome")

    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(4, "gate")))
    rounds_min: int = setting(3, ge=2, le=20, doc="Full rounds of the pattern that make a loop.")
    period_max: int = setting(
        40, ge=2, le=100, doc="Turns in the longest pattern that the rule looks for."
    )

    @property
    def lookback(self) -> int:
        """All rounds of the longest pattern."""
        return self.rounds_min * self.period_max

    def evaluate(self, lane: Lane) -> Evaluation:
        """Find at each turn the shortest period with enough rounds, else the one with most."""
        same = own(lane, pair(lane.call, lane.outcome))
        short_max = min(self.period_max, PERIOD_SHORT)
        periods = range(PERIOD_MIN, short_max + 1)
        pattern = shortest(lane, same, periods, self.rounds_min, short_max)
        periods = range(short_max + 1, self.period_max + 1)
        pattern = longer(lane, same, pattern, periods, self.rounds_min)
        return cycles(same, pattern, self.rounds_min)

    def say(self, loop: Loop) -> str:
        """Write the pattern with arrows."""
        return f"{' → '.join(loop.labels)} repeated {loop.attempts} times"
