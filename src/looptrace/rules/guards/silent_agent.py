"""The rule `silent_agent`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, counts, ladder_setting, setting
from looptrace.rules.turns import AROUND_MAX, KINDS, UNKNOWN, Codes, Lane, LaneSpec
from looptrace.rules.vocabulary import NS_PER_S

_MODEL = KINDS.index("model")


@dataclass(frozen=True, slots=True)
class SilentAgent(Rule):
    """An agent does nothing for far too long after a result, or its task never ends.

    A guard: nothing repeats. The time counts from the end of the last turn of the task. An
    agent that answers without a call, or asked a person, is not silent. After an answer that
    asked for a call an approval may be pending, so `asked_s` holds, as it does where a request for
    one says so. The attempts of the ladder are multiples of the limit.

    Live, a process reports its agents that have been open for a minute with nothing at work below
    (`LoopSpanProcessor`), as a request to the model `(silent)`. In files a silence is a pause
    before the next request to the model, or the last such report of a task that never ended.

    ## Looping
    - `read(a)->"text" ^3700 silence()`
    - `read(a)->"text" ~3700 say("done")`

    ## Not looping
    - `read(a)->"text" ~3500 say("done")`: less than allowed.
    - `say("done") ~9000 say("more")`: a person may read the answer.
    - `read(a)->"text" ~9000 user("Go on.") say("done")`: a person said something.
    - `ask_user(a)->? ~9000 say("done")`: it waited for a person.
    - `deploy(a)->? ~9000 say("done")`: a person may have approved the call.
    - `request_approval(a)->"status: pending" ~9000 say("done")`: a person was to approve it.
    """

    name = "silent_agent"
    lane = LaneSpec(by="task", kinds=("tool", "model", "handoff"), runs=True)
    reads_times = True
    exact = False  # The agent may go on at any time.

    limit_s: int = setting(
        3_600, ge=300, le=2_592_000, doc="Seconds in which an agent may do nothing after a result."
    )
    asked_s: int = setting(
        72_000,
        ge=300,
        le=2_592_000,
        doc="Seconds in which an agent may do nothing after an answer that asked for a call.",
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(1, "warn"),))

    @property
    def lookback(self) -> int:
        """The turn, the result before it, and calls around the silence."""
        return AROUND_MAX + 2

    @property
    def seconds_min(self) -> int:
        """A shorter silence cannot fire."""
        return min(self.limit_s, self.asked_s)

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count how many times the limit has passed; a silence that is over counts once."""
        turns, rows = lane.turns, lane.rows
        times, is_model = turns.times, turns.kind[rows] == _MODEL
        silent = times.silent[rows]
        # A run that is scheduled hours later is a trace of its own.
        paused_ns = times.idle_ns[rows] * times.goes_on[rows]
        quiet_ns = np.where(silent, times.quiet_ns[rows], paused_ns)
        may = is_model & (lane.position > 0) & (quiet_ns >= self.seconds_min * NS_PER_S)
        reached = np.zeros(len(rows), dtype=np.int64)
        for place in may.nonzero()[0].tolist():
            limit_ns = self._limit_ns(lane, rows[place - 1 : place])
            if limit_ns:
                passed = quiet_ns[place] // limit_ns
                reached[place] = passed if silent[place] else min(passed, 1)
        # Steps count anew with a run; when a silence began stays as it is while it lasts.
        return counts(reached, 1, turns.end_ns[rows] - times.took_ns[rows])

    def _limit_ns(self, lane: Lane, before: Codes) -> int:
        """Return how long an agent may do nothing after this turn; 0 if that means nothing."""
        turns = lane.turns
        if turns.kind[before].item() == _MODEL:
            return 0
        asks_person = turns.times.asks_person[before].item()
        if asks_person and turns.unfinished[before].item():
            return self.asked_s * NS_PER_S
        if turns.outcome[before].item() != UNKNOWN or turns.failed[before].item():
            return self.limit_s * NS_PER_S
        return 0 if asks_person else self.asked_s * NS_PER_S

    def say(self, loop: Loop) -> str:
        """Say how many times the limit has passed."""
        times = "" if loop.attempts == 1 else f" {loop.attempts} times"
        return f"the agent did nothing after its last call: the limit passed{times}"
