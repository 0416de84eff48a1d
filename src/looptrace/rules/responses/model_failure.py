"""The rule `model_failure`."""

from dataclasses import dataclass

from looptrace.rules.contract import Evaluation, Loop, Rung, ladder_setting, repeats, setting
from looptrace.rules.counting import RowRule
from looptrace.rules.needs import again
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import in_a_row


@dataclass(frozen=True, slots=True)
class ModelFailure(RowRule):
    """A request to the model fails in the same way again and again, by the agent's own fault.

    Examples are a context that is too long, a call of a tool that cannot be parsed, and a request
    that is refused. The same request cannot fix them. Any response ends the row. `model_outage`
    finds external failures (rate limits, a failing server).

    ## Looping
    - `fail("maximum context length is 128000 tokens") x3`
    - `fail("malformed tool call: expecting a comma") x5`

    ## Not looping
    - `fail("maximum context length is 128000 tokens") x2 say("Shorter.")`: a retry that succeeds.
    - `(fail("malformed tool call: expecting a comma") x2 say("Step {n}.")) x4`: retries succeed.
    - `fail("429 Too Many Requests") x9`: the failure is external.
    - `(fail("the path is missing") fail("the query is missing")) x4`: another failure each time.
    - `fail(?) x9`: the error is unknown.
    """

    name = "model_failure"
    lane = LaneSpec(by="agent", kinds=("model",))
    needs = again("error")

    attempts_min: int = setting(
        3, ge=2, le=50, doc="Equal failures of the model in a row that make a loop."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(5, "gate")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the equal failures in a row that are the agent's own."""
        return repeats(in_a_row(lane, lane.error), self.attempts_min, lane.error)

    def say(self, loop: Loop) -> str:
        """Say how often."""
        return f"the model failed {loop.attempts} times in the same way"
