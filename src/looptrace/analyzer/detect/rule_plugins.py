"""Rules of one's own, out of the entry points of installed distributions.

A distribution names them in the group `looptrace.rules`; each is a class that keeps the contract
of `looptrace.rules.contract`, and is evaluated and set like the rules that are here already.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from inspect import isabstract

from looptrace.errors import InstallError
from looptrace.rules.contract import Rule
from looptrace.rules.registry import RULES

GROUP = "looptrace.rules"


class PluginError(InstallError):
    """A rule of an installed distribution cannot be used; the message names the distribution."""


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
    rules = list(RULES)
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        rule = _loaded(point)
        if rule.name in (other.name for other in rules):
            raise _error(point, f"there is a rule {rule.name!r} already")
        rules.append(rule)
    return tuple(rules)


def _loaded(point: EntryPoint) -> type[Rule]:
    """Import a rule, and make it once, so that a broken one is refused before it is used."""
    try:
        rule = point.load()
    except Exception as error:  # The code is another's, and may raise anything.
        raise _error(point, f"it cannot be imported: {error}") from error
    if not isinstance(rule, type) or not issubclass(rule, Rule) or isabstract(rule):
        raise _error(point, "it is no class that keeps the contract of a rule")
    try:
        made: Rule = rule()
    except Exception as error:
        raise _error(point, f"it cannot be made with its defaults: {error}") from error
    return type(made)


def _error(point: EntryPoint, why: str) -> PluginError:
    owner = f"{point.dist.name} {point.dist.version}" if point.dist else "an unnamed distribution"
    return PluginError(
        f"the rule {point.value!r} of {owner} cannot be used: {why}. "
        f"Mend its entry point in the group {GROUP}, or uninstall it."
    )
