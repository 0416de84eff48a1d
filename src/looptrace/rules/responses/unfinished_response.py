"""The rule `unfinished_response`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, constant, ladder_setting, setting
from looptrace.rules.needs import has
from looptrace.rules.turns import CUTS, UNKNOWN, Lane, LaneSpec
from looptrace.rules.vocabulary import in_a_row, pair, same_as, streak

# The code of a response that is reasoning alone; those of `CUTS` are lower.
_SILENT = len(CUTS) + 1
_PAIR = 2  # the fewest responses that can be a loop


@dataclass(frozen=True, slots=True)
class UnfinishedResponse(Rule):
    """A model stops before it has finished, for the same reason, again and again.

    The reason is its limit of tokens or a filter of content, as the trace says, or the response is
    reasoning alone. No call that it asks for succeeds in between. Its new input, after that of the
    first response, is the same each time, or unknown. If all responses are equal or empty,
    `attempts_min` of them are a loop. Others may be the parts of a long text, so a loop needs
    `varied_min` of them, as do responses of reasoning alone to unknown input. `empty_response`
    finds those to known input, and any other silence.

    ## Looping
    - `say("The report", given="Write the report.", finish=length) x3`
    - `say("I cannot go on.", given="Go on.", finish=content_filter) x3`
    - `say(?, finish=length) x6`
    - `say("I write part {n} of the file now.", given="The call was cut off.", finish=length) x6`
    - `say(nothing, given=?) x6`

    ## Not looping
    - `say("", given="Write the report.", finish=length) x2 say("Done.", finish=stop)`
    - `say("Part {n} of the report.", given="Go on.", finish=length) x5`: a text in five parts.
    - `say("About page {n}.", asked="page {n}", finish=length) x9`: other input each time.
    - `(say("I write {n}.", finish=length) write({n})->ok) x9`: it works.
    - `say("Step {n}.", given="Go on.", finish=stop) x6`: it has finished each time.
    - `(user("And now?") say("I may not say.", finish=content_filter)) x9`: a person asks.
    - `say(?) x9`: nobody knows why it stopped.
    """

    name = "unfinished_response"
    lane = LaneSpec(by="agent", kinds=("model",))
    needs = has("cut") | has("silent")

    attempts_min: int = setting(
        3, ge=2, le=50, doc="Equal or empty responses in a row, each cut off, that make a loop."
    )
    varied_min: int = setting(
        6, ge=2, le=100, doc="Other responses in a row, each cut off, that make a loop."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(8, "pivot"), Rung(12, "gate")))

    @property
    def lookback(self) -> int:
        """The responses of a loop."""
        return max(self.attempts_min, self.varied_min)

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the responses in a row that stopped for one reason, without a call or news."""
        turns, rows = lane.turns, lane.rows
        silent = turns.silent[rows]
        reason = np.where(turns.cut[rows] == UNKNOWN, silent * _SILENT, turns.cut[rows])
        idle = pair(reason, turns.calls_seen[rows] + 1)
        known = lane.call != UNKNOWN
        heard = np.where(known, lane.call, 1)
        # The input before the first response is the task, unless two responses are a loop.
        is_free = min(self.attempts_min, self.varied_min) > _PAIR
        no_news = streak(lane, same_as(lane, heard, 1)) + 1 + is_free
        varied = np.minimum(in_a_row(lane, idle), no_news)
        said = np.where(silent | lane.only_calls, 1, lane.response)
        equal = np.where(known, np.minimum(varied, in_a_row(lane, said)), 0)
        needed = np.where(equal >= self.attempts_min, self.attempts_min, self.varied_min)
        reached = np.where(known & (reason == _SILENT), 0, np.maximum(equal, varied))
        return Evaluation(reached, needed, constant(1, len(rows)), needed, reason)

    def say(self, loop: Loop) -> str:
        """Say how often."""
        return f"{loop.attempts} responses in a row stopped before they were finished"
