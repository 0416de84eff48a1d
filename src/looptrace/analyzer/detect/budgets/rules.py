"""The rules by which budgets of several tasks warn and gate.

They see no columns: what other tasks spend is in none. The ledger says at which turns they fire.
"""

from dataclasses import dataclass, fields

import numpy as np

from looptrace.analyzer.detect.budgets.limits import Budgets
from looptrace.analyzer.detect.rule_plugins import every_rule
from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, counts, ladder_setting
from looptrace.rules.counting import TurnRule
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import PERCENTS, SOFT_PERCENT

TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class BudgetRule(TurnRule):
    """What several tasks may spend together is spent.

    The attempts of the ladder are percents of the limit.
    """

    lane = LaneSpec(by="task", kinds=("model",), runs=True)
    checked = "before_loops"
    counts_percents = True

    title: str = ""  # such as "money of session s1"
    spent: float = 0.0
    limit: float = 0.0  # with what persons have added
    unit: str = TOKENS  # or a currency
    ladder: tuple[Rung, ...] = ladder_setting((Rung(SOFT_PERCENT, "warn"), Rung(PERCENTS, "gate")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Return that it fires nowhere."""
        nowhere = np.zeros(len(lane.rows), dtype=np.int64)
        return counts(nowhere, SOFT_PERCENT, nowhere)

    def say(self, loop: Loop) -> str:
        """Name the budget, and what is spent of it."""
        spent, limit = (
            f"{amount:,.0f}" if self.unit == TOKENS else f"{amount:,.2f}"
            for amount in (self.spent, self.limit)
        )
        return f"{self.title}: {spent} of {limit} {self.unit} are spent ({loop.attempts} %)"


def _rule_of(limit: str) -> type[BudgetRule]:
    """Return the rule of a limit, such as `user_money_budget` of `user_money`."""
    name = f"{limit}_budget"
    about = {
        "__module__": __name__,
        "name": name,
        "__doc__": f"More is spent than `{limit}` allows.",
        "__slots__": (),
    }
    return type("".join(map(str.capitalize, name.split("_"))), (BudgetRule,), about)


# By the name of their limit in the settings.
BUDGET_RULES = {item.name: _rule_of(item.name) for item in fields(Budgets)}
BUDGET_NAMES = frozenset(rule.name for rule in BUDGET_RULES.values())


def rule_named(name: str) -> type[Rule] | None:
    """Return the rule with a name, also of a budget of several tasks; None without one."""
    every = (*every_rule(), *BUDGET_RULES.values())
    return next((rule for rule in every if rule.name == name), None)
