"""What a rule is: settings, a lane, and one pure function over the turns of that lane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import numpy as np

from looptrace.rules.turns import Codes, Lane, LaneSpec, Mask

Action = Literal["warn", "pivot", "gate"]


class SettingError(ValueError):
    """A setting of a rule has a value that it cannot have."""


def setting(default: int, *, ge: int, le: int, doc: str) -> int:
    """Declare a setting: its default, the least and the greatest value, and what it means."""
    result: int = field(default=default, metadata={"ge": ge, "le": le, "doc": doc})
    return result


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of a ladder: from this many attempts on, a finding asks for this action."""

    attempts: int
    action: Action


@dataclass(frozen=True, slots=True)
class Loop:
    """What a rule is told of a loop when it puts it into words."""

    labels: tuple[str, ...]  # of the turns that the others repeat, such as run_tests(a.py)
    attempts: int
    failed: bool  # true where every turn of the loop is known to have failed


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says of every turn of a lane; all columns have one element a turn.

    A loop fires at a turn when `reached` is at least `needed`. It then spans the last `length`
    turns of the lane: of a period above 1 all of them, otherwise those with the same `what`.
    """

    reached: Codes  # how many attempts, or rounds of a cycle, end here
    needed: int
    period: Codes  # turns in one round; 1 where one thing repeats
    length: Codes  # turns from the first of the loop to this one
    what: Codes  # code of the thing that repeats

    @property
    def fires(self) -> Mask:
        """The turns at which the loop is long enough to be a finding."""
        return self.reached >= self.needed


@dataclass(frozen=True, slots=True)
class Rule(ABC):
    """A rule: a frozen dataclass whose fields are its settings.

    Its docstring says in one sentence what it finds, and under *Looping* and *Not looping* gives
    turns in the notation of `looptrace.analyzer.notation`, which are run as tests.

    Raises:
        SettingError: if a setting lies outside its bounds.
    """

    name: ClassVar[str]
    lane: ClassVar[LaneSpec]
    ladder: ClassVar[tuple[Rung, ...]]

    def __post_init__(self) -> None:
        for item in fields(self):
            value, bounds = getattr(self, item.name), item.metadata
            if not bounds["ge"] <= value <= bounds["le"]:
                raise SettingError(
                    f"{self.name}.{item.name} is {value}; "
                    f"it must be between {bounds['ge']} and {bounds['le']}."
                )

    @property
    @abstractmethod
    def lookback(self) -> int:
        """How many turns of its lane, the judged one included, a verdict depends on at the most."""

    @abstractmethod
    def judge(self, lane: Lane) -> Verdict:
        """Say of every turn of the lane how far a loop has got there."""

    @abstractmethod
    def say(self, loop: Loop) -> str:
        """Put a loop into a person's words, without its turn numbers."""

    def action(self, attempts: int) -> Action:
        """Return the highest rung of the ladder that this many attempts reach."""
        reached = [rung.action for rung in self.ladder if attempts >= rung.attempts]
        return reached[-1] if reached else self.ladder[0].action

    def settings(self) -> dict[str, tuple[int, dict[str, Any]]]:
        """Return each setting's value and its bounds and sentence (`ge`, `le`, `doc`)."""
        return {f.name: (getattr(self, f.name), dict(f.metadata)) for f in fields(self)}


def repeats(reached: Codes, needed: int, what: Codes) -> Verdict:
    """Return the verdict of a rule that counts one thing in a row."""
    period = np.broadcast_to(np.int64(1), reached.shape)
    return Verdict(reached, needed, period, np.broadcast_to(np.int64(needed), reached.shape), what)
