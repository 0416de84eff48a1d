"""What rules look at live: the turns at which they may fire, and how far back they look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from looptrace.analyzer.detect.ruleset import RuleForms, RuleSet
from looptrace.analyzer.engine.turn_block import TurnBlock, table_of, turns_of
from looptrace.rules.needs import ALWAYS
from looptrace.rules.turns import Flags, LaneSpec, NewTurn


class Bound(NamedTuple):
    """A form of a rule, and what it needs of a turn."""

    name: str
    lane: LaneSpec
    has_needed: Callable[[NewTurn], bool]

    def allows(self, turn: NewTurn) -> bool:
        """Return whether the rule may fire at a turn of one of its kinds."""
        return self.lane.has(turn) and self.has_needed(turn)


def bounds_of(kind: str, every: Iterable[RuleForms], rule_set: RuleSet) -> list[Bound]:
    """Return the rules to ask about turns of a kind, in all forms."""
    bounds: list[Bound] = []
    for forms in every:
        if kind in forms.lane.kinds:
            by_meaning = rule_set.meaning is not None and forms.rules[0].compares_meaning
            # What means the same need not have come before in the same words.
            bounds += [
                Bound(forms.name, forms.lane, (ALWAYS if by_meaning else rule.needs).of(rule))
                for rule in forms.rules
            ]
    return bounds


def lookbacks_of(every: Iterable[RuleForms]) -> dict[LaneSpec, int]:
    """Return how many turns of each lane the result at one of its turns depends on."""
    lookbacks: dict[LaneSpec, int] = {}
    for forms in every:
        lookbacks[forms.lane] = max(lookbacks.get(forms.lane, 1), forms.lookback)
    return lookbacks


def needed(
    blocks: Sequence[TurnBlock],
    counts: Sequence[int],
    lookbacks: Mapping[LaneSpec, int],
    failures_max: int,
) -> Flags:
    """Mark those of the first turns of each task that later turns of the task depend on."""
    turns = turns_of(table_of(blocks, counts), counts)
    lasts = (np.cumsum(counts) - 1)[turns.task]
    # A reset ends the lanes, so turns before the last reset are never looked at. Lanes of attempts
    # go on over completions.
    goes_on = {
        outlasts: column == column[lasts]
        for outlasts, column in ((False, turns.epoch), (True, turns.resets_seen))
    }
    wanted = np.zeros(len(turns.task), dtype=np.bool_)
    for spec, lookback in lookbacks.items():
        lane = turns.lane(spec)
        looked_at = lane.rows[lane.following < lookback - 1]
        wanted[looked_at] |= goes_on[spec.outlasts_completion][looked_at]
    # A gate shows the last failures of its task.
    failures = np.cumsum(turns.failed)
    shown = failures[lasts] - failures < failures_max
    wanted |= turns.failed & goes_on[False] & shown
    return wanted
