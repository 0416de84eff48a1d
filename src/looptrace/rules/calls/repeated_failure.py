"""The rule `repeated_failure`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, among, ladder_setting, setting
from looptrace.rules.counting import WindowRule
from looptrace.rules.needs import again
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import pair, same_among


@dataclass(frozen=True, slots=True)
class RepeatedFailure(WindowRule):
    """One failure keeps coming back in a task while nothing else succeeds.

    A failure is compared with the last failures of its task by its message, whichever agent failed.
    If the failed call only looks at something, removes what is gone, asks for more than fits, or is
    refused by a person, its arguments are compared, too; so is the version, platform, package or
    host for which a command runs. A successful call that does more than look, think or wait resets
    the count, and so does recorded progress; `persistent_failure` counts failures that persist
    after such calls. Commands that only show something are looks. External failures (rate limits,
    network, authentication, dependencies) do not count.

    ## Looping
    - `test()->!"expected 42, got 41" read(cart.py)->ok test()->!"expected 42, got 41" x2`
    - `(test()->!"expected 42, got 41" bash(git diff --stat)->"cart.py {n}") x3`: it only looks.
    - `@first test()->!"expected 42" x2 @second test()->!"expected 42"`: all agents count.

    ## Not looping
    - `test()->!"expected 42, got 41" x2`: only twice.
    - `test()->!"expected {n}" x5`: another message each time.
    - `fetch(/{n})->!"404 Not Found" x5`: each is another page.
    - `(test()->!"expected 42" edit(cart.py, {n})->ok) x3`: it tries something in between.
    - `(test({n})->!"expected 42" progress(coverage={n}0)) x4`: coverage rises.
    - `(fetch(a)->!"429 Too Many Requests" wait(60)->ok) x5`: the failure is external.
    - `(user("Try again.") test()->!"expected 42") x4`: a person asked for each attempt.
    - `test()->!? x4`: the error is unknown.
    """

    name = "repeated_failure"
    compared = "failures"
    lane = LaneSpec(by="task", kinds=("tool",), failures=True, once="twin_failure")
    needs = again("error")

    attempts_min: int = setting(
        3, ge=2, le=50, doc="Equal failures, including the first, that make a loop."
    )
    window: int = setting(
        10, ge=2, le=100, doc="Last failures of the task that are compared, including the newest."
    )
    window_s: int = setting(3_600, ge=60, le=604_800, doc="Seconds for which a failure counts.")
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "gate"),))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the equal failures among the task's last ones since the last success."""
        codes = pair(lane.error, lane.works_seen + lane.improvements + 1)
        reached = same_among(lane, codes, self.window, self.window_s)
        length = np.minimum(self.window, lane.position + 1)
        return among(reached, self.attempts_min, codes, length)

    def say(self, loop: Loop) -> str:
        """Name the first call with this failure."""
        return f"the failure of {loop.labels[0]} came {loop.attempts} times in the task"
