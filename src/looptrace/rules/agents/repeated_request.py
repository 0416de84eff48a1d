"""The rule `repeated_request`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, among, ladder_setting, setting
from looptrace.rules.counting import WindowRule
from looptrace.rules.turns import UNKNOWN, Lane, LaneSpec
from looptrace.rules.vocabulary import in_a_row, pair, same_among


@dataclass(frozen=True, slots=True)
class RepeatedRequest(WindowRule):
    """An agent repeats a request that was answered before, and no work was done since.

    Other requests come in between, for example when an orchestrator asks several agents in turn.
    The request, the asked agent and the answer are the same each time, or no answer is known. A
    call of the task that does more than look or wait resets the count. `collaboration_loop` finds
    equal requests in a row, and `agent_cycle` also finds rounds of them.

    ## Looping
    - `(handoff(a, "Is it done?")->"not yet" handoff(b, "What about {n}?")->fine) x4`
    - `(handoff(a, "Fix it.")->"b must" handoff(b, "And {n}?")->"a must" read({n})->ok) x4`

    ## Not looping
    - `(handoff(a, "Is it done?")->"not yet" handoff(b, "What about {n}?")->fine) x3`: only 3 times.
    - `(handoff(a, "Review it.")->fine handoff(b, "Fix {n}.")->ok edit({n})->ok) x9`: work.
    - `(handoff(a, "Next?")->"part {n}" handoff(b, "Do part {n}.")->ok) x9`: other answers.
    - `(handoff(a, "Review part {n}.")->fine handoff(b, "Test part {n}.")->fine) x9`: another part.
    """

    name = "repeated_request"
    compared = "requests"
    lane = LaneSpec(by="agent", kinds=("handoff",))

    attempts_min: int = setting(
        4,
        ge=2,
        le=50,
        doc="Equal requests with equal answers and no work between that make a loop.",
    )
    window: int = setting(
        20, ge=2, le=100, doc="Last requests of the agent that are compared, including the newest."
    )
    window_s: int = setting(86_400, ge=60, le=2_592_000, doc="Seconds for which a request counts.")
    ladder: tuple[Rung, ...] = ladder_setting((Rung(4, "warn"), Rung(6, "gate")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the equal requests among the agent's last ones that have others between them."""
        answer = np.where(lane.outcome == UNKNOWN, 1, lane.outcome)
        exchange = pair(lane.call, pair(answer, lane.works_seen + 1))
        every = same_among(lane, exchange, self.window, self.window_s)
        reached = np.where(every > in_a_row(lane, exchange), every, 0)
        length = np.minimum(self.window, lane.position + 1)
        return among(reached, self.attempts_min, exchange, length)

    def say(self, loop: Loop) -> str:
        """Name the agent that was asked."""
        return f"{loop.labels[0]} was asked the same {loop.attempts} times, with no work in between"
