"""The rule `waits_too_long`."""

from dataclasses import dataclass

from looptrace.rules.contract import Evaluation, Loop, Rung, counts, ladder_setting, setting
from looptrace.rules.counting import TurnRule
from looptrace.rules.needs import reaches
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import NS_PER_S


@dataclass(frozen=True, slots=True)
class WaitsTooLong(TurnRule):
    """An agent waits longer than allowed, and what it waits for does not change.

    An agent waits where it looks again, after a pause, at something that has not changed: a
    build, a job, a shell in the background, a mailbox. Such looks are no loop for any other
    rule. The time counts from the last call that did or showed something new. Where a wait with
    the same tool ended in the task before, twice its time is free; so is the time for which a
    person asks it to look, or a day's work (eight hours) without an end. The attempts of the ladder
    are multiples of the limit.

    ## Looping
    - `(~600 job_status(7)->pending) x8`
    - `(wait(900)->ok ~900 bash("gh pr checks 7")->"build pending") x6`

    ## Not looping
    - `(~600 job_status(7)->pending) x6`: less than allowed.
    - `(~600 job_status(7)->"{n}0 %") x9`: it changes.
    - `(~600 job_status(7)->pending ~60 edit(a, {n})->ok) x9`: it works in between.
    - `(~500 job_status(7)->pending) x7 ~60 job_status(7)->done (~500 job_status(8)->pending) x10`:
      the first one took most of an hour.
    - `user("Look every 10 minutes for three hours.") (~600 job_status(7)->pending) x18`
    - `(user("And now?") ~600 job_status(7)->pending) x9`: a person asked again.
    """

    name = "waits_too_long"
    lane = LaneSpec(by="agent", kinds=("tool",))
    needs = reaches("overdue_ns", "limit_s", NS_PER_S)
    exact = False  # What it waits for may come at any time.

    limit_s: int = setting(
        3_600, ge=60, le=2_592_000, doc="Seconds that an agent may wait for one thing."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(1, "warn"), Rung(8, "gate")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count how many times the limit has passed."""
        overdue_ns = lane.turns.overdue_ns[lane.rows]
        return counts(overdue_ns // (self.limit_s * NS_PER_S), 1, lane.turns.epoch[lane.rows] + 1)

    def say(self, loop: Loop) -> str:
        """Name the call that it waits with."""
        times = "" if loop.attempts == 1 else f"{loop.attempts} times "
        return f"{loop.labels[0]} waits for longer than {times}{self.limit_s} s"
