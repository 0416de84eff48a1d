"""The rules by their names."""

from looptrace.analyzer.detect.budgets.rules import BUDGET_RULES
from looptrace.analyzer.detect.rule_plugins import every_rule
from looptrace.rules.contract import Rule


def rule_named(name: str) -> type[Rule] | None:
    """Return the rule with a name, also of a budget of several tasks; None without one."""
    every = (*every_rule(), *BUDGET_RULES.values())
    return next((rule for rule in every if rule.name == name), None)
