"""The rule `unheeded_message`."""

from dataclasses import dataclass

from looptrace.rules.contract import Evaluation, Loop, Rung, ladder_setting, repeats, setting
from looptrace.rules.counting import RowRule
from looptrace.rules.needs import has
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import in_a_row


@dataclass(frozen=True, slots=True)
class UnheededMessage(RowRule):
    """The same message comes again and again, and the agent answers briefly and does nothing.

    A hook, a goal or a wrapper puts a message into each round, such as “The tests have not been
    run.”; the agent says each time that all is done. Ids and numbers of rounds do not count,
    nor do the words of the answers. A call or a request to another agent in between ends the
    row.

    Messages of fewer than five words do not count, because a person may say “Go on.” each time; nor
    do long answers, which may be the parts of one text, unless the message says that the last one
    could not be used. A verdict of another agent that does not say why, such as “Rejected.”, or its
    score, counts from its second time in a row. All thanks, farewells and offers to wait are one
    message, unless they come after a pause, as a person's do. A question in other words came before
    if its answer has come twice.

    ## Looping
    - `(remind("The tests have not been run, attempt {n}.") say("All done, {n}.")) x3`
    - `(remind("[goal {n}f] Keep on until the goal is met.") say("It is met {n}.")) x3`

    ## Not looping
    - `say("You're welcome! Goodbye!", given="Thanks again! Take care!") x2`
    - `say("You're welcome! The total is {n}.", given="Thanks again! Take care!") x9`: it tells.
    - `(remind("The tests have not been run, attempt {n}.") say("All done, {n}.")) x2`: only twice.
    - `(remind("The tests have not been run.") say("I run {n}.") run_tests({n})->"{n} passed") x9`:
      it acts.
    - `(remind("Write what is on page {n}, please.") say("It is a table, {n}.")) x9`: other pages.
    - `(remind("Go on.") say("Part {n}.")) x9`: a person may say so.
    - `(prompt("Is the build of main green now?") say("Not yet, {n}.")) x9`: each is asked anew.
    """

    name = "unheeded_message"
    lane = LaneSpec(by="agent", kinds=("tool", "model", "handoff"))
    needs = has("reminded")
    exact = False  # The words of the answers differ.

    attempts_min: int = setting(
        3, ge=2, le=100, doc="Brief answers in a row to a message that came before."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(8, "gate")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the answers in a row to one message."""
        reminded = lane.reminded
        return repeats(in_a_row(lane, reminded), self.attempts_min, reminded)

    def say(self, loop: Loop) -> str:
        """Quote the first answer."""
        return f"one message came {loop.attempts} times more, answered from “{loop.labels[0]}” on"
