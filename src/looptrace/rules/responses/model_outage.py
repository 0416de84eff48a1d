"""The rule `model_outage`."""

from dataclasses import dataclass

from looptrace.rules.contract import Loop, setting
from looptrace.rules.counting import ExternalRule
from looptrace.rules.turns import LaneSpec


@dataclass(frozen=True, slots=True)
class ModelOutage(ExternalRule):
    """The service of a model fails again and again: a rate limit, a login, the network.

    These failures are not the agent's fault, so it is asked to try again later. The ladder's
    gate waits until they have lasted `gate_after_s`. Any response ends the row. A back-off counts
    late, as in [external_failure](external_failure.md).

    ## Looping
    - `fail("429 Too Many Requests") x3`
    - `fail("503 Service Unavailable") fail("connection refused") fail("429 Too Many Requests")`

    ## Not looping
    - `fail("429 Too Many Requests") x2 say("Done.")`: a retry that succeeds.
    - `(fail("429 Too Many Requests") x2 say("Step {n}.")) x4`: each retry succeeds.
    - `fail("429 Too Many Requests") ~2 fail("429 Too Many Requests") ~8 fail("429 Too Many
      Requests") ~30 fail("429 Too Many Requests")`: it backs off.
    - `fail("maximum context length is 128000 tokens") x9`: the agent's own failure.
    """

    name = "model_outage"
    lane = LaneSpec(by="agent", kinds=("model",))

    attempts_min: int = setting(
        3, ge=2, le=50, doc="Failures of the model's service in a row that make a loop."
    )

    def say(self, loop: Loop) -> str:
        """Say how often."""
        return f"the model's service failed {loop.attempts} times in a row"
