"""What a rule needs of a turn to fire at it, as data: most turns need no look at their lane.

A need is only a statement about one turn. It may hold where the rule does not fire, and never fails
where the rule does. `a & b` needs both, `a | b` needs one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from math import ceil
from typing import Any, TypeAlias

from looptrace.rules.turns import Turns
from looptrace.rules.vocabulary import PERCENTS, SOFT_PERCENT

__all__ = ["ALWAYS", "Need", "again", "exceeds", "has", "nears", "reaches"]

# The share of a limit from which its use is reported.
_SOFT = Fraction(SOFT_PERCENT, PERCENTS)
_KINDS = {column.name: column.type for column in fields(Turns) if column.name != "task"}
_CODES = frozenset(name for name, kind in _KINDS.items() if kind == "Codes")
_SEEN = frozenset(name for name, kind in _KINDS.items() if kind in ("Codes", "Flags"))
# No count is larger.
_MAX = 2**63 - 1

# again, has or reaches; the columns; and the least value.
Test: TypeAlias = tuple[str, tuple[str, ...], int]


@dataclass(frozen=True, slots=True)
class Condition:
    """One statement about a turn.

    With `setting`, the one column is at least as much as this `share` of the rule's setting times
    `unit`, and one more where it `exceeds` it; a setting of 0 sets no limit. With `before`, an
    earlier turn of the task is known to equal it in all columns. Else the one column is known or
    set.
    """

    columns: tuple[str, ...]
    before: bool = False
    setting: str | None = None
    unit: int = 1
    share: int | Fraction = 1
    exceeds: bool = False

    def of(self, rule: object) -> Test:
        """Return the condition with the settings of a rule."""
        if self.before:
            return "again", self.columns, 0
        if self.setting is None:
            return "has", self.columns, 0
        limit = getattr(rule, self.setting)
        if limit == 0 and not self.exceeds:
            return "reaches", self.columns, _MAX
        least = ceil(round(limit * self.unit) * self.share) + self.exceeds
        return "reaches", self.columns, min(least, _MAX)


@dataclass(frozen=True, slots=True)
class Need:
    """Ways in which a rule may fire at a turn: one of them, with all of its conditions."""

    ways: tuple[tuple[Condition, ...], ...]

    def __and__(self, other: Need) -> Need:
        """Return the need of both."""
        return Need(tuple(one + more for one in self.ways for more in other.ways))

    def __or__(self, other: Need) -> Need:
        """Return the need of one of them."""
        return Need(self.ways + other.ways)

    def of(self, rule: object) -> list[list[Test]]:
        """Return the ways with this rule's settings, as the core asks about them."""
        return [[condition.of(rule) for condition in way] for way in self.ways]


# The rule looks at its lane at each of its turns.
ALWAYS = Need(((),))


def again(*columns: str) -> Need:
    """Need an earlier turn of the task that is known to equal it in all columns, which are codes.

    Raises:
        ValueError: where rules see no such column.
    """
    for column in columns:
        _check(column, _CODES)
    return Need(((Condition(columns, before=True),),))


def has(column: str) -> Need:
    """Need a mark that is set, or a code that is known. Raises ValueError as `again` does."""
    return _seen(column)


def reaches(column: str, setting: str, unit: int = 1) -> Need:
    """Need at least a setting's value times `unit`. Raises ValueError as `again` does."""
    return _seen(column, setting=setting, unit=unit)


def nears(column: str, setting: str, unit: int = 1) -> Need:
    """Need the share of a limit from which its use is reported. Raises ValueError as `again`."""
    return _seen(column, setting=setting, unit=unit, share=_SOFT)


def exceeds(column: str, setting: str, unit: int = 1) -> Need:
    """Need more than a setting's value times `unit`. Raises ValueError as `again` does."""
    return _seen(column, setting=setting, unit=unit, exceeds=True)


def _seen(column: str, **details: Any) -> Need:
    _check(column, _SEEN)
    return Need(((Condition((column,), **details),),))


def _check(column: str, columns: frozenset[str]) -> None:
    if column not in columns:
        raise ValueError(
            f"no need can be of {column!r}; the columns are: {', '.join(sorted(columns))}"
        )
