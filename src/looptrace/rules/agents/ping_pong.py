"""The rule `ping_pong`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, ladder_setting, repeats, setting
from looptrace.rules.counting import RowRule
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import pair, same_as, streak

BETWEEN_TWO = 2  # agents, so that every second hand-off is of the same one


@dataclass(frozen=True, slots=True)
class PingPong(RowRule):
    """Two agents hand over to each other, again and again, and neither does any work.

    The words of the hand-offs do not matter. A successful call of either agent, even one that only
    looks, resets the count. If the words stay the same, too, `agent_cycle` finds the loop sooner.

    ## Looping
    - `(@a handoff(b, "Yours, {n}.")->taken @b handoff(a, "No, yours, {n}.")->taken) x3`

    ## Not looping
    - `(@a handoff(b, "Fix {n}.")->taken @b handoff(a, "Which {n}?")->taken) x2`: they clarify it.
    - `(@a handoff(b, "Fix {n}.")->taken @b edit({n})->ok handoff(a, "Is it?")->taken) x5`: work.
    - `(@a handoff(b, "Fix {n}.")->"done {n}") x6`: one agent asks, and the other answers.
    - `(@a handoff(b, "{n}")->taken @b handoff(c, "{n}")->taken @c handoff(a, "{n}")->taken) x3`
    """

    name = "ping_pong"
    lane = LaneSpec(by="task", kinds=("handoff",))

    attempts_min: int = setting(
        6, ge=4, le=50, doc="Alternating hand-offs of two agents that make a loop."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(6, "pivot"), Rung(10, "gate")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the alternating hand-offs without a successful call between them."""
        idle = pair(lane.agent, lane.turns.calls_seen[lane.rows] + 1)
        in_turn = streak(lane, same_as(lane, idle, BETWEEN_TWO) & ~same_as(lane, idle, 1))
        reached = np.where(in_turn > 0, in_turn + BETWEEN_TWO, 0)
        return repeats(reached, self.attempts_min, np.ones_like(lane.rows))

    def say(self, loop: Loop) -> str:
        """Name the first hand-off."""
        return f"two agents handed over {loop.attempts} times in turn, first {loop.labels[0]}"
