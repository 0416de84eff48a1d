"""The rule `agent_cycle`."""

from dataclasses import dataclass

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, cycles, ladder_setting, setting
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import pair, shortest

PERIOD_MIN = 2  # One request in a row is what `collaboration_loop` finds.


@dataclass(frozen=True, slots=True)
class AgentCycle(Rule):
    """Agents pass the same requests around in a circle, and get the same answers.

    Every hand-off of a round must equal the hand-off one round earlier: the asking agent, the
    asked agent, the request and the answer. New requests or answers are progress.

    ## Looping
    - `(@a handoff(b, "Fix it.")->"It is fixed." @b handoff(a, "Try it.")->"It fails.") x2`
    - `(handoff(b, "Write it.")->draft handoff(c, "Review it.")->"Too long.") x3`

    ## Not looping
    - `handoff(b, "Write it.")->draft handoff(c, "Review it.")->"Too long."`: a single pass.
    - `(@a handoff(b, "Fix {n}.")->done @b handoff(a, "Try it.")->"It fails.") x4`: other work.
    - `(handoff(b, "Write it.")->draft handoff(c, "Review it.")->"{n} left.") x4`: other answers.
    - `(handoff(b, "Write it.")->? handoff(c, "Review it.")->?) x4`: the answers are unknown.
    - `handoff(b, "Write it.")->draft x3`: one request in a row is not a cycle.
    """

    name = "agent_cycle"
    lane = LaneSpec(by="task", kinds=("handoff",))

    rounds_min: int = setting(2, ge=2, le=20, doc="Full rounds of the pattern that make a loop.")
    period_max: int = setting(
        4, ge=2, le=8, doc="Requests in the longest pattern that the rule looks for."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(2, "warn"), Rung(3, "gate")))

    @property
    def lookback(self) -> int:
        """All rounds of the longest pattern."""
        return self.rounds_min * self.period_max

    def evaluate(self, lane: Lane) -> Evaluation:
        """Find at each hand-off the shortest pattern with enough rounds."""
        same = pair(pair(lane.agent, lane.call), lane.outcome)
        periods = range(PERIOD_MIN, self.period_max + 1)
        pattern = shortest(lane, same, periods, self.rounds_min, self.period_max)
        return cycles(same, pattern, self.rounds_min)

    def say(self, loop: Loop) -> str:
        """Write the requests with arrows."""
        return f"{' '.join(loop.labels)} repeated {loop.attempts} times"
