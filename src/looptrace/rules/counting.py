"""Bases of rules that count alike: turns in a row, turns among the last ones, or one turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from looptrace.rules.actions import Action
from looptrace.rules.contract import (
    Evaluation,
    Rule,
    Rung,
    SettingError,
    ladder_setting,
    repeats,
    setting,
)
from looptrace.rules.needs import has
from looptrace.rules.turns import Flags, Lane
from looptrace.rules.vocabulary import NS_PER_S, streak

# Back-offs usually double the pause; the time of the calls themselves makes it look less.
BACK_OFF = 1.5
# Turns with two pauses between them.
PAUSED_TURNS = 3


@dataclass(frozen=True, slots=True)
class TurnRule(Rule):
    """A rule that reads the turn alone: the engine has counted, or the turn has all of it."""

    @property
    def lookback(self) -> int:
        """The turn itself."""
        return 1


@dataclass(frozen=True, slots=True)
class RowRule(Rule):
    """A rule that counts turns in a row: it has a setting `attempts_min`."""

    if TYPE_CHECKING:
        attempts_min: int = field(init=False)

    @property
    def lookback(self) -> int:
        """The turns of a loop."""
        return self.attempts_min


@dataclass(frozen=True, slots=True)
class WindowRule(Rule):
    """A rule that counts among the last turns: it has the settings `attempts_min` and `window`.

    Raises:
        SettingError: if the window cannot hold the attempts of a loop or a rung.
    """

    compared: ClassVar[str]  # what is in the window, such as "calls"

    if TYPE_CHECKING:
        attempts_min: int = field(init=False)
        window: int = field(init=False)

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        holds = f"which its window of {self.window} {self.compared} cannot hold."
        if self.attempts_min > self.window:
            raise SettingError(f"{self.name}.attempts_min is {self.attempts_min}, {holds}")
        highest = self.ladder[-1]
        if highest.attempts > self.window:
            raise SettingError(
                f"{self.name}.ladder has {highest.action} at {highest.attempts} attempts, {holds}"
            )

    @property
    def lookback(self) -> int:
        """The window."""
        return self.window


@dataclass(frozen=True, slots=True)
class ExternalRule(RowRule):
    """A rule of failures that are not the agent's fault, so that it is asked to try again later.

    A person has to look only when they go on for long: the ladder's gate waits until the failures
    have lasted `gate_after_s`.
    """

    needs = has("external")

    attempts_min: int = setting(3, ge=2, le=50, doc="External failures in a row that make a loop.")
    gate_after_s: int = setting(
        1_800, ge=60, le=604_800, doc="Seconds that they must last before there is a gate."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "retry_later"), Rung(5, "gate")))

    @property
    def lookback(self) -> int:
        """The turns of a loop, and the two pauses by which a back-off is known."""
        return max(self.attempts_min, PAUSED_TURNS)

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the external failures in a row, whatever their message."""
        external = lane.external
        row = streak(lane, external)
        reached = np.where(self._backs_off(lane), np.minimum(row, 1), row)
        return repeats(reached, self.attempts_min, external.astype(np.int64))

    def _backs_off(self, lane: Lane) -> Flags:
        """Return which turns come a good deal later after the last one than that did.

        Who waits longer each time does what the rule asks for, but not for ever.
        """
        gap_ns = np.zeros(len(lane.rows), dtype=np.int64)
        gap_ns[1:] = np.diff(lane.end_ns)
        later = np.zeros(len(gap_ns), dtype=np.bool_)
        later[2:] = gap_ns[2:] >= np.maximum(BACK_OFF * gap_ns[1:-1], NS_PER_S)
        return later & (2 * gap_ns < self.gate_after_s * NS_PER_S) & (lane.position > 1)

    def action(self, attempts: int, seconds: float = inf) -> Action:
        """Return the highest rung that is reached; a gate only after the time set for it."""
        lasts = seconds >= self.gate_after_s
        reached = [rung.action for rung in self.ladder if attempts >= rung.attempts]
        allowed = [action for action in reached if lasts or action != "gate"]
        return allowed[-1] if allowed else "retry_later"
