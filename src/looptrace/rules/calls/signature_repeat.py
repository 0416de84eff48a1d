"""The rule `signature_repeat`."""

from dataclasses import dataclass

from looptrace.rules.contract import Evaluation, Loop, Rung, ladder_setting, repeats, setting
from looptrace.rules.counting import RowRule
from looptrace.rules.needs import again
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import in_a_row, own


@dataclass(frozen=True, slots=True)
class SignatureRepeat(RowRule):
    """Several outputs in a row have the same signature.

    A signature is a short, canonical description of what a call did or how it failed: an error
    by type, message and file; a test run by the number and names of its failures; a change by
    its file and content; a search by its query. So this rule finds one error under different
    arguments, which `repeated_call` does not. Names that a database or an interface does not know,
    one after the other, are one error from the third on.

    ## Looping
    - `load(users_{n}.csv)->!"KeyError: 'email' at schema.py:14" x3`
    - `run_tests(tests/{n})->"2 failed: test_login, test_logout" x3`
    - `sql(select price_{n} from a)->!"no such column: price_{n}" x5`
    - `submit_plan({"plan":"Add a cache {n}."})->"User rejected the plan." x3`: other plans.

    ## Not looping
    - `submit_plan({"plan":"Add a cache {n}."})->"The user rejected the plan: not in {n}." x5`: why.
    - `check_command(word {n})->!"Invalid command" x9`: a verdict on each.
    - `load(users_{n}.csv)->!"KeyError: 'email' at schema.py:14" x2`: two is a legitimate retry.
    - `edit(cart.py, change {n})->ok x3`: three different changes to one file.
    - `run_tests()->"3 failed" run_tests()->"2 failed" run_tests()->"1 failed"`: fewer failures.
    - `say("All five.") [load(a)->!"no permit" load(b)->!"no permit" load(c)->!"no permit"]`: calls
      of one response are one try.
    - `sql(select price_{n} from a)->!"no such column: price_{n}" x4`: it tries some names.
    - `load(users_{n}.csv)->!? x4`: the error is unknown.
    - `load(users_{n}.csv)->!"connection refused" x4`: the failure is external.
    - `load(users_{n}.csv)->!"An error occurred. Please try again." x4`: a text that says nothing.
    """

    name = "signature_repeat"
    lane = LaneSpec(by="agent", kinds=("tool",), once="twin_signature")
    needs = again("signature")

    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(5, "gate")))
    attempts_min: int = setting(
        3, ge=2, le=100, doc="Outputs in a row with the same signature that make a loop."
    )

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the outputs in a row that have the same signature."""
        signature = own(lane, lane.signature)
        return repeats(in_a_row(lane, signature), self.attempts_min, signature)

    def say(self, loop: Loop) -> str:
        """Name the first call, and whether a failure or another outcome repeats."""
        what = "failure" if loop.failed else "outcome"
        return f"the {what} of {loop.labels[0]} came {loop.attempts} times in a row"
