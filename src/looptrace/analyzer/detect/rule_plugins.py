"""Rules of installed distributions, found by their entry points.

A distribution names its rules in the group `looptrace.rules`. Each rule is a class that keeps the
contract of `looptrace.rules.contract`. It is evaluated and set like the rules of looptrace.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeVar

from looptrace.analyzer.plugins import PluginError, make, offered, refusal
from looptrace.rules.contract import Rule
from looptrace.rules.registry import RULES
from looptrace.rules.turns import LaneSpec

GROUP = "looptrace.rules"

T = TypeVar("T")
R = TypeVar("R")


def asked(rule: Rule, ask: Callable[[T], R], given: T) -> R:
    """Return what a method of a rule answers.

    Raises:
        PluginError: if a rule of another distribution fails.
    """
    try:
        return ask(given)
    except Exception as error:
        if type(rule) in RULES:
            raise
        what = f"the rule {rule.name!r} of {type(rule).__module__} failed"
        why = f"{type(error).__name__}: {error}"
        todo = f"correct it, or set enabled = false in [rules.{rule.name}]."
        raise PluginError(f"{what} ({why}); {todo}") from error


def known_rules() -> tuple[Rule, ...]:
    """Return every rule with its default settings, installed ones last and also those that are off.

    Raises:
        PluginError: if an installed rule cannot be used.
    """
    return tuple(rule() for rule in every_rule())


@cache
def every_rule() -> tuple[type[Rule], ...]:
    """Return the class of every rule, installed ones last and in the order of their names.

    Raises:
        PluginError: if an installed rule cannot be used.
    """
    rules = {rule.name: rule for rule in RULES}
    for point in offered(GROUP):
        # One instance is made here, so that a broken rule is refused before it is used.
        rule = type(make(point, Rule, "a class that keeps the contract of a rule"))  # type: ignore[type-abstract]
        for needed, kind in (("name", str), ("lane", LaneSpec)):
            if not isinstance(getattr(rule, needed, None), kind):
                raise refusal(point, f"its {needed!r} must be a {kind.__name__}")
        if rule.name in rules:
            raise refusal(point, f"there is a rule {rule.name!r} already")
        rules[rule.name] = rule
    return tuple(rules.values())
