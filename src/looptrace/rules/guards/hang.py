"""The rule `hang`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, counts, ladder_setting, setting
from looptrace.rules.turns import KINDS, UNKNOWN, Codes, Flags, Lane, LaneSpec
from looptrace.rules.vocabulary import NS_PER_S

# Calls back that are a tool's history; of more the last ones count.
_HISTORY = 120
# With fewer earlier calls it is not known how long the tool takes.
_KNOWN_MIN = 3
_TOOL, _MODEL = KINDS.index("tool"), KINDS.index("model")


@dataclass(frozen=True, slots=True)
class Hang(Rule):
    """A call gets no answer for far longer than the calls of its tool before it.

    A guard: nothing repeats. The time counts from the start of the call, or from the end of the
    last turn of its task that began since, so a call with others at work below it does not
    hang. Nor does one that was answered, waits (`waits_too_long`) or asks a person. The
    attempts of the ladder are multiples of the limit.

    Live, a process reports the calls that are open for a minute (`LoopSpanProcessor`), so a
    hang is found while it lasts. In files it is a call that failed or ended without an answer,
    or never ended: then it lasted as long as the span above it.

    ## Looping
    - `(read({n})->"text {n}") x3 ^1900 read(9)->?`
    - `^7300 fetch(page)->?`
    - `say("a") say("b") say("c") ^1900 fail("no answer")`

    ## Not looping
    - `(read({n})->"text {n}") x3 ^1700 read(9)->?`: less than allowed.
    - `(read({n})->"text {n}") x3 ^1900 read(9)->ok`: it was answered.
    - `(^3600 train({n})->"loss 0.{n}") x3 ^4000 train(9)->?`: the tool always takes an hour.
    - `^4000 build(all)->?`: nobody knows how long the tool takes.
    - `(ask_user({n})->"yes {n}") x3 ^80000 ask_user(9)->?`: it waits for a person.
    """

    name = "hang"
    lane = LaneSpec(by="task", kinds=("tool", "model"))
    reads_times = True
    exact = False  # The answer may come at any time.

    limit_s: int = setting(
        1_800, ge=120, le=2_592_000, doc="Seconds that a call without an answer may take."
    )
    times: int = setting(
        10, ge=2, le=1_000, doc="Times the longest earlier call of its tool that it may take."
    )
    first_s: int = setting(
        7_200,
        ge=120,
        le=2_592_000,
        doc="Seconds that a call may take if its tool had fewer than three calls before.",
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(1, "warn"), Rung(4, "gate")))

    @property
    def lookback(self) -> int:
        """The history of a tool, and the turn itself."""
        return _HISTORY + 1

    @property
    def seconds_min(self) -> int:
        """A turn of fewer seconds cannot fire."""
        return min(self.limit_s, self.first_s)

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count how many times the limit has passed without an answer."""
        turns, rows = lane.turns, lane.rows
        quiet_ns = turns.times.quiet_ns[rows]
        answered = self._answered(lane)
        asks = turns.times.asks_person[rows]
        may = ~answered & ~lane.polls & ~asks & ~turns.times.silent[rows]
        reached = np.zeros(len(rows), dtype=np.int64)
        for place in (may & (quiet_ns >= self.seconds_min * NS_PER_S)).nonzero()[0].tolist():
            reached[place] = quiet_ns[place] // self._limit_ns(lane, place, answered)
        return counts(reached, 1, turns.steps[rows])

    def _answered(self, lane: Lane) -> Flags:
        """Return which turns have an answer, and no failure."""
        turns, rows = lane.turns, lane.rows
        is_tool = turns.kind[rows] == _TOOL
        answer: Codes = np.where(is_tool, turns.outcome[rows], turns.response[rows])
        answered: Flags = (answer != UNKNOWN) & ~turns.failed[rows]
        return answered

    def _limit_ns(self, lane: Lane, place: int, answered: Flags) -> int:
        """Return how long the call at a place may take, by the history of its tool."""
        times, here = lane.turns.times, lane.rows[place]
        since = place - min(int(lane.position[place]), _HISTORY)
        before = lane.rows[since:place][answered[since:place]]
        name = lane.turns.name
        before = before[(name[before] == name[here]) & (name[here] != UNKNOWN)]
        if len(before) < _KNOWN_MIN:
            return self.first_s * NS_PER_S
        return max(self.limit_s * NS_PER_S, self.times * int(times.took_ns[before].max()))

    def say(self, loop: Loop) -> str:
        """Name the call, and how many times its limit has passed."""
        times = "" if loop.attempts == 1 else f" {loop.attempts} times"
        return f"{loop.labels[0]} has no answer, far longer than usual: its limit passed{times}"
