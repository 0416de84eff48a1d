"""Rules of one's own, out of the entry points of installed distributions.

A distribution names them in the group `looptrace.rules`; each is a class that keeps the contract
of `looptrace.rules.contract`, and is evaluated and set like the rules that are here already.
"""

from __future__ import annotations

from functools import cache

from looptrace.analyzer.plugins import make, offered, refusal
from looptrace.rules.contract import Rule
from looptrace.rules.registry import RULES

GROUP = "looptrace.rules"


def known_rules() -> tuple[Rule, ...]:
    """Return every rule, installed ones last, with its default settings, also those that are off.

    Raises:
        PluginError: if an installed one cannot be used.
    """
    return tuple(rule() for rule in every_rule())


@cache
def every_rule() -> tuple[type[Rule], ...]:
    """Return the class of every rule, installed ones last, in the order of their names there.

    Raises:
        PluginError: if an installed one cannot be used.
    """
    rules = {rule.name: rule for rule in RULES}
    for point in offered(GROUP):
        # It is made once, so that a broken one is refused before it is used.
        rule = type(make(point, Rule, "a class that keeps the contract of a rule"))  # type: ignore[type-abstract]
        if rule.name in rules:
            raise refusal(point, f"there is a rule {rule.name!r} already")
        rules[rule.name] = rule
    return tuple(rules.values())
