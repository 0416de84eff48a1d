"""The rule `phase_cycle`."""

from dataclasses import dataclass

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, cycles, ladder_setting, setting
from looptrace.rules.needs import has
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import pair, shortest

PERIOD_MIN = 2  # Turns that follow one another in one phase are one visit.


@dataclass(frozen=True, slots=True)
class PhaseCycle(Rule):
    """A task goes through the same phases again and again.

    Phases are declared (`looptrace.phase`). Consecutive turns in one phase are one visit. The rule
    finds patterns of 2 to `max_cycle_length` phases that repeat at once, and patterns that go back
    and forth, such as plan→fix→test→fix→plan→fix→test→fix. Progress in between ends a pattern:
    better figures, markers, or a better metric of an iterative phase.

    ## Looping
    - `#fix edit(a)->ok #test test()->"1 failed" #fix edit(b)->ok #test test()->"2 failed"`
    - `(#plan note({n})->ok #fix edit(a, {n})->ok #test test({n})->ok #fix edit(b, {n})->ok) x2`

    ## Not looping
    - `#plan note(a)->ok #fix edit(a)->ok #test test()->ok`: a single pass is not a cycle.
    - `#fix edit(a)->ok #test test()->"1 failed" #fix edit(b)->ok`: one step back is not a cycle.
    - `(#fix edit(a, {n})->ok x9) #test test()->ok`: long visits, each once.
    - `(#fix edit(a, {n})->ok #test progress(coverage={n}0)) x4`: coverage rises.
    - `(edit(a, {n})->ok test()->"{n} passed") x9`: no phases are declared.
    - `(user("Go on.") #fix edit(a, {n})->ok #test test({n})->ok) x4`: a person asked.
    """

    name = "phase_cycle"
    lane = LaneSpec(
        by="task", kinds=("tool", "model", "handoff", "attempt", "progress"), entering=True
    )
    needs = has("enters")

    rounds_min: int = setting(2, ge=2, le=20, doc="Full rounds of the pattern that make a loop.")
    max_cycle_length: int = setting(
        3, ge=2, le=8, doc="Phases in the longest pattern that the rule looks for."
    )
    transitions: int = setting(10, ge=3, le=400, doc="Transitions within which the rounds must be.")
    ladder: tuple[Rung, ...] = ladder_setting((Rung(2, "gate"),))

    @property
    def lookback(self) -> int:
        """The visits between which the transitions are."""
        return self.transitions + 1

    def evaluate(self, lane: Lane) -> Evaluation:
        """Find at each visit the shortest pattern with enough rounds."""
        state = pair(lane.phase, lane.improvements + 1)
        state = pair(state, lane.turns.converging[lane.rows] + 1)
        lengths = range(PERIOD_MIN, self.max_cycle_length + 1)
        forth_and_back = {2 * (length - 1) for length in lengths}
        fitting = range(self.lookback // self.rounds_min + 1)
        periods = sorted({*lengths, *forth_and_back} & {*fitting})
        pattern = shortest(lane, state, periods, self.rounds_min, self.max_cycle_length)
        return cycles(state, pattern, self.rounds_min)

    def say(self, loop: Loop) -> str:
        """Write the pattern twice, with arrows."""
        return f"Oscillating cycle detected: {'→'.join(loop.phases + loop.phases)}"
