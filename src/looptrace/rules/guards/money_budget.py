"""The rule `money_budget`."""

from dataclasses import dataclass

from looptrace.rules.contract import Evaluation, Loop, Rung, counts, ladder_setting, setting
from looptrace.rules.counting import TurnRule
from looptrace.rules.needs import nears
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import BILLIONTHS, BUDGETED, SOFT_PERCENT, used

# No task costs more, in any currency.
MONEY_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class MoneyBudget(TurnRule):
    """A task, one of its agents, or a minute of it costs more than allowed.

    A guard: nothing need repeat. Money is counted by the prices of the settings, also of a
    cache; a model without a price does not count. What all agents and sub-agents of the task
    cost counts, since the task began, was completed, or a person last spoke. The attempts of
    the ladder are percents of the limit.

    In the examples a million tokens cost 3 to read, 0.3 from a cache, and 15 to write.

    ## Looping
    - `say("Step {n}.", read=1000000) x40`
    - `(say("Step {n}.", read=100000, wrote=80000) read(a{n})->"a {n}") x70`: it writes without end.

    ## Not looping
    - `say("Step {n}.", read=1000000) x20`: less than allowed.
    - `say("Step {n}.", read=1000000, cached=1000000) x99`: all of it came from a cache.
    - `(user("And {n}?") say("Step {n}.", read=1000000) x9) x9`: a person spoke.
    """

    name = "money_budget"
    lane = LaneSpec(by="task", kinds=("tool", "model", "handoff", "attempt", "progress"))
    needs = (
        nears("money_spent", "task", BILLIONTHS)
        | nears("money_spent_agent", "agent", BILLIONTHS)
        | nears("money_spent_minute", "minute", BILLIONTHS)
    )
    checked = "before_loops"
    counts_percents = True
    on_by_default = False  # Without prices there is no money, and currencies differ.

    task: float = setting(100.0, ge=0, le=MONEY_MAX, doc="What a task may cost; 0 is no limit.")
    agent: float = setting(
        0.0, ge=0, le=MONEY_MAX, doc="What each agent of a task may cost; 0 is no limit."
    )
    minute: float = setting(
        0.0, ge=0, le=MONEY_MAX, doc="What a task may cost a minute; 0 is no limit."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(80, "warn"), Rung(100, "gate")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Compare what was spent with the nearest limit."""
        turns, rows = lane.turns, lane.rows
        spent = turns.money_spent, turns.money_spent_agent, turns.money_spent_minute
        limits = [round(limit * BILLIONTHS) for limit in (self.task, self.agent, self.minute)]
        percent, which = used([column[rows] for column in spent], limits)
        return counts(percent, SOFT_PERCENT, (turns.epoch[rows] + 1) * len(BUDGETED) + which)

    def say(self, loop: Loop) -> str:
        """Name the limit and the share of it."""
        place = loop.what % len(BUDGETED)
        limit = (self.task, self.agent, self.minute)[place]
        return f"{BUDGETED[place]} cost {loop.attempts} % of its limit of {limit:,.2f}"
