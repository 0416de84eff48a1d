"""The rule `external_failure`."""

from dataclasses import dataclass

from looptrace.rules.contract import Loop, setting
from looptrace.rules.counting import ExternalRule
from looptrace.rules.turns import LaneSpec


@dataclass(frozen=True, slots=True)
class ExternalFailure(ExternalRule):
    """External failures repeat: a rate limit, a login, the network, a dependency.

    They are not the agent's fault, so it is asked to try again later. The ladder's gate waits
    until they have lasted `gate_after_s`. Any other call of the task in between, of any agent,
    ends the row. An attempt of a back-off, after half as long again as the one before it, does what
    the rule asks for, so it counts only once the pause is half of that time.

    ## Looping
    - `fetch(a)->!"429 Too Many Requests" x3`
    - `fetch(a)->!"connection refused" login()->!"401 Unauthorized" fetch(b)->!"429"`

    ## Not looping
    - `fetch(a)->!"429 Too Many Requests" x2 fetch(a)->ok`: a retry that succeeds.
    - `(fetch(a{n})->!"429 Too Many Requests" fetch(a{n})->ok) x9`: each retry succeeds.
    - `(fetch(a)->!"429 Too Many Requests" wait(60)->ok) x9`: it waits between the attempts.
    - `fetch(a)->!"429 Too Many Requests" ~2 fetch(a)->!"429 Too Many Requests" ~8 fetch(a)->!"429
      Too Many Requests" ~30 fetch(a)->!"429 Too Many Requests"`: it backs off.
    - `test()->!"expected 42, got 41" x9`: the agent's own failure.
    - `fetch(a)->!? x9`: the error is unknown.
    - `(user("Try again.") fetch(a)->!"429 Too Many Requests") x9`: a person asked for each attempt.
    """

    name = "external_failure"
    lane = LaneSpec(by="task", kinds=("tool",), once="twin_external")

    attempts_min: int = setting(
        3, ge=2, le=50, doc="External failures in a row in the task that make a loop."
    )

    def say(self, loop: Loop) -> str:
        """Name the first call that failed."""
        return f"{loop.attempts} external failures in a row, first in {loop.labels[0]}"
