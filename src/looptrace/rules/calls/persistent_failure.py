"""The rule `persistent_failure`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, among, ladder_setting, setting
from looptrace.rules.counting import WindowRule
from looptrace.rules.needs import again
from looptrace.rules.turns import UNKNOWN, Lane, LaneSpec
from looptrace.rules.vocabulary import attempts_among, pair, same_among


@dataclass(frozen=True, slots=True)
class PersistentFailure(WindowRule):
    """A failure persists although the agents of a task work on it.

    A failure is compared with the last failures of its task by its message; if the failed call
    only looks at something, by its arguments, too. Equal failures count if a successful call
    between them did more than look or wait; without one, `repeated_failure` counts them. Edits
    are attempts to fix it, so the gate comes late.

    External failures (rate limits, network, dependencies) do not count. But a login, a missing
    module and a server on the agent's own machine that still fail after its edits count once for
    each edit. A build that does not say why it failed fails anew after an edit of another file.

    A failure has not persisted if the call succeeded the last time, or, at its first time, if the
    tool's last call for another thing did, or the last call that failed in this way has since. A
    game refuses a move in each of many places, and a test may fail in each revision, workspace or
    cluster to which the agent goes. Progress resets the counts.

    ## Looping
    - `(test()->!"expected 42, got 41" edit(cart.py, {n})->ok) x3`
    - `(test()->!"expected 42" lint()->!"style {n}" read(a)->ok run(fix {n})->ok) x3`
    - `(run()->!"Cannot find module './build'" edit(a.js, {n})->ok) x3`: its edits do not help.

    ## Not looping
    - `test()->!"expected 42, got 41" edit(cart.py)->ok test()->!"expected 42, got 41"`: only twice.
    - `(test()->!"expected {n}" edit(cart.py, {n})->ok) x5`: another message each time.
    - `(get(/)->!"connect ECONNREFUSED 127.0.0.1:80" wait(5)->ok) x5`: its server starts.
    - `(fetch(a)->!"429 Too Many Requests" edit(a.py, {n})->ok) x5`: not the agent's own failure.
    - `(test()->!"expected 42" test()->ok edit(cart.py, {n})->ok) x9`: it fails at times.
    - `(test()->!"expected 42" edit(cart.py, {n})->ok progress(coverage={n}0)) x8`: coverage rises.
    - `(test()->!? edit(cart.py, {n})->ok) x4`: the error is unknown.
    - `(edit(cart.py, {n})->ok test()->!"expected 42" revert()->ok) x9`: a mutation test.
    - `(checkout(rev a{n})->ok test()->!"expected 42") x9`: it looks for the first bad revision.
    - `(validate(a{n})->!"no total" edit(a{n})->ok validate(a{n})->ok) x9`: each is mended.
    """

    name = "persistent_failure"
    compared = "failures"
    lane = LaneSpec(by="task", kinds=("tool",), failures=True, once="twin_failure")
    learns_limit = True
    needs = again("error") | again("mendable")

    attempts_min: int = setting(
        3, ge=2, le=50, doc="Equal failures with work between them that make a loop."
    )
    window: int = setting(
        20, ge=2, le=100, doc="Last failures of the task that are compared, including the newest."
    )
    window_s: int = setting(3_600, ge=60, le=604_800, doc="Seconds for which a failure counts.")
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(5, "pivot"), Rung(8, "gate")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the equal failures among the task's last ones that have work between them."""
        ended, progress = lane.turns.relapses[lane.rows], lane.improvements + 1
        error, mendable = (
            np.where(ended, UNKNOWN, pair(code, progress)) for code in (lane.error, lane.mendable)
        )
        every = same_among(lane, error, self.window, self.window_s)
        alone = pair(error, lane.works_seen + 1)
        # Those without work between them are counted by `repeated_failure`.
        own = np.where(every > same_among(lane, alone, self.window, self.window_s), every, 0)
        reached = own + attempts_among(lane, mendable, self.window, self.window_s)
        codes = np.where(error == UNKNOWN, mendable, error)
        length = np.minimum(self.window, lane.position + 1)
        return among(reached, self.attempts_min, codes, length)

    def say(self, loop: Loop) -> str:
        """Name the first call with this failure."""
        return f"the failure of {loop.labels[0]} persists after {loop.attempts} attempts"
