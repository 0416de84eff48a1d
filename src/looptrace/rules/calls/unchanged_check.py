"""The rule `unchanged_check`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, among, ladder_setting, setting
from looptrace.rules.counting import WindowRule
from looptrace.rules.needs import again
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import attempts_among, own


@dataclass(frozen=True, slots=True)
class UnchangedCheck(WindowRule):
    """A check has the same wrong answer again and again, although the agents work between.

    A check runs a program, or is a tool whose name says that it runs or judges something, and
    did not fail: many programs exit with 0 whatever they print. Its answer is wrong if it says
    so: an error, a mismatch, “expected 42”, 2 of 5. An answer that says neither counts if a
    program was run for it. Good answers are an empty one, one that says that all is well, and
    any other of builds, linters and tests, which fail where something is wrong. A critic who says
    the same of another draft has given the same answer; a word or two, such as “Rejected.”, are
    one for texts that the task wrote itself, until the critic takes one. Of one file its score
    counts, whatever it says of it.

    Looks at files and states do not count, nor do checks without work between them; `repeated_call`
    finds those in a row, and `persistent_failure` checks that fail.

    ## Looping
    - `(edit(cart.py, {n})->ok run_program(cart.py)->"total: 41") x4`
    - `(edit(cart.py, {n})->ok verify(cart)->"total is 41, expected 42") x4`
    - `(run(fix {n})->ok judge(sol.py)->"Wrong answer on test 3") x4`
    - `(write({"text":"Bread {n}, warm"})->ok critic({"text":"Bread {n}, warm"})->"Rejected.") x4`

    ## Not looping
    - `(edit(cart.py, {n})->ok run_program(cart.py)->"total: 41") x3`: a few tries are work.
    - `(edit(cart.py, {n})->ok run_program(cart.py)->"total: {n}") x9`: the answer changes.
    - `(edit(part{n}.py)->ok check(types)->"no errors") x9`: it passes after each edit.
    - `(edit(part{n}.py)->ok build(app)->"app: 12 kB") x9`: a build fails where something is wrong.
    - `(edit(part{n}.py)->ok run_program(lint)->"") x9`: nothing is said, so nothing is wrong.
    - `(edit(part{n}.py)->ok read(goal.md)->"The expected total is 42.") x9`: a look at a text.
    - `(edit(part{n}.py)->ok check(7)->"status: running") x9`: it waits.
    - `(next(comment {n})->"Buy it {n}" critic({"text":"Buy it {n}"})->"Rejected."
      hide(comment {n})->ok) x5`: a verdict on each of many.
    - `verify(cart)->"total is 41, expected 42" x9`: no work in between.
    - `(user("Again.") edit(a, {n})->ok verify(a)->"41, expected 42") x9`: a person asked again.
    """

    name = "unchanged_check"
    compared = "checks"
    lane = LaneSpec(by="task", kinds=("tool",), checks=True)
    needs = again("check")

    attempts_min: int = setting(
        4, ge=2, le=50, doc="Equal checks with the same answer and work between that make a loop."
    )
    window: int = setting(
        20, ge=2, le=100, doc="Last checks of the task that are compared, including the newest."
    )
    window_s: int = setting(3_600, ge=60, le=604_800, doc="Seconds for which a check counts.")
    ladder: tuple[Rung, ...] = ladder_setting((Rung(4, "warn"), Rung(6, "pivot"), Rung(10, "gate")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the equal checks among the task's last ones that have work between them."""
        same, seen = own(lane, lane.check), lane.other_works_seen
        reached = attempts_among(lane, same, self.window, self.window_s, seen)
        length = np.minimum(self.window, lane.position + 1)
        return among(reached, self.attempts_min, same, length)

    def say(self, loop: Loop) -> str:
        """Name the first check."""
        return f"{loop.labels[0]} gave the same answer {loop.attempts} times, with work between"
