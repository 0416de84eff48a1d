"""The rule `no_new_request`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, among, ladder_setting, setting
from looptrace.rules.counting import WindowRule
from looptrace.rules.needs import again
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import in_a_row, pair, rises, same_among, streak


@dataclass(frozen=True, slots=True)
class NoNewRequest(WindowRule):
    """An agent asks others again and again what it has asked them before, and nothing new.

    The answers do not matter, because a model answers in other words each time. Several
    requests come in turn, such as those of a supervisor to its agents; `collaboration_loop`
    finds one in a row, and `repeated_request` equal answers with new requests between them. A
    call whose name says that it changes something, and progress in figures, begin a new count.
    The rule only warns: drafts and reviews look the same.

    ## Looping
    - `(handoff(a, "Find the price.")->"About {n} euros." handoff(b, "Sum up.")->"Text {n}.") x5`
    - `(handoff(a, "Find it.")->"No, {n}." ask_web({n})->ok handoff(b, "Sum up.")->"Text {n}.") x5`

    ## Not looping
    - `(handoff(a, "Find the price.")->"About {n} euros." handoff(b, "Sum up.")->"Text {n}.") x4`
    - `(handoff(a, "What is next?")->"part {n}" handoff(b, "Do part {n}.")->ok) x9`: new requests.
    - `(handoff(a, "Fix it.")->ok edit({n})->ok handoff(b, "Test it.")->"{n} ok") x9`: it changes.
    - `(handoff(a, "Fix it.") handoff(b, "Test it.") user("Go on, {n}.")) x9`: a person asks.
    - `(handoff(a, ?) handoff(b, ?)) x9`: the requests are unknown.
    """

    name = "no_new_request"
    compared = "requests"
    lane = LaneSpec(by="agent", kinds=("handoff",))
    needs = again("call")
    exact = False  # The answers may bring something new.
    actions = ("warn",)

    attempts_min: int = setting(
        5, ge=2, le=50, doc="Equal requests, with only known requests between them, of a loop."
    )
    window: int = setting(
        20, ge=2, le=100, doc="Last requests of the agent that are compared, including the newest."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(5, "warn"),))

    @property
    def lookback(self) -> int:
        """The requests of a loop, and those with which the first of them is compared."""
        return 2 * self.window

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the equal requests among the last ones since the last new request or change."""
        request = pair(lane.call, pair(lane.changes_seen + 1, lane.improvements + 1))
        asked = same_among(lane, request, self.window)
        # The first requests of each kind were new.
        old = np.minimum(streak(lane, asked > 1), self.window - 1)
        is_old = (old >= self.attempts_min - 1) & (asked > in_a_row(lane, request))
        # Of the requests of a round, only the first fires.
        begins = rises(lane, asked.astype(np.float64))
        reached = np.where(is_old & begins, asked, 0)
        length = np.minimum(self.window, lane.position + 1)
        return among(reached, self.attempts_min, request, length)

    def say(self, loop: Loop) -> str:
        """Name the agent that was asked."""
        return (
            f"{loop.labels[0]} was asked the same {loop.attempts} times, and no agent what is new"
        )
