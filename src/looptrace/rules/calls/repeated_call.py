"""The rule `repeated_call`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, ladder_setting, repeats, setting
from looptrace.rules.counting import RowRule
from looptrace.rules.needs import again
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import alike_in_a_row, own, pair


@dataclass(frozen=True, slots=True)
class RepeatedCall(RowRule):
    r"""The same call gets the same result, again and again.

    The result must be the same, too: a status that changes, or a test that fails in fewer places,
    is progress. The model's words and new thoughts between the calls do not matter. Times, ids and
    similar values in a result are masked before it is compared. Looking again after a wait is
    polling, and so is a call that ran out of time and comes again after a longer pause each time.
    What a person asked for so many times is to come so often, if it goes well. Recorded progress
    resets the count.

    A search in other words is the same only if the settings say how
    [meaning](../near_sameness.md) is compared.

    ## Looping
    - `run_tests(cart.py)->!"expected 42, got 41" x3`
    - `(say("Let me try again {n}.") search(refund policy)->none) x4`
    - `(think(Part {n} may say it.)->ok read(page.md)->"# Notes") x3`
    - `query(orders)->"0 rows in 0.{n}2 s" x3`
    - `bash(make)->"5 errors\nProcess Group PGID: 80{n}" x3`: a new run of one command.
    - `read_file(a)->"# Notes\n<system-reminder>You have {n} todos.</system-reminder>" x3`
    - `bash({"command":"echo go {n} && make"})->"go {n}" x3`: it only prints that.

    ## Not looping
    - `run_tests(cart.py)->!"expected 42, got 41" x2`: one retry is legitimate.
    - `deploy_status(web)->"{n}0 %" x5`: the result changes.
    - `read_file(part{n}.md)->"# Notes" x5`: different arguments, different work.
    - `(run_tests()->"3 failed" edit(cart.py, {n})->ok) x4`: not the same call in a row.
    - `fetch(?)->"timed out" x5`: the arguments are unknown.
    - `fetch(a)->? x5`: the results are unknown.
    - `fetch(a)->!"429 Too Many Requests" x5`: the failure is external.
    - `user("Roll the stone five times.") roll(stone)->down x5`: a person asked for so many.
    - `(user("Any news?") inbox()->empty) x4`: a person asked again.
    - `(~60 job_status(7)->pending) x9`: the agent waited each time.
    - `job_status(7)->pending ~1 job_status(7)->pending ~4 job_status(7)->pending ~10
      job_status(7)->pending`: it backs off.
    - `(migrate()->ok progress(markers=1)) x9`: progress is recorded.
    """

    name = "repeated_call"
    lane = LaneSpec(by="agent", kinds=("tool",), between_thoughts=True)
    needs = again("call", "outcome")
    compares_meaning = True

    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(4, "gate")))
    attempts_min: int = setting(
        3, ge=2, le=100, doc="Equal calls with equal results in a row that make a loop."
    )

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the calls in a row that equal each other, including their results."""
        same = own(lane, pair(lane.call, lane.outcome))
        reached = alike_in_a_row(lane, same, self.attempts_min)
        return repeats(reached, self.attempts_min, np.ones_like(lane.rows))

    def say(self, loop: Loop) -> str:
        """Name the call and its outcome."""
        became = "failed the same way" if loop.failed else "gave the same result"
        words = ", some in other words" if loop.reworded else ""
        return f"{loop.labels[0]} {became} {loop.attempts} times{words}"
