"""Loops: the findings of several rules about the same turns are one loop, under one of them.

Reports, the page, queries, metrics and exit codes count loops by these functions alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from looptrace.analyzer.detect.findings import Finding
from looptrace.rules.contract import ACTIONS, Action
from looptrace.rules.registry import RULES, family_of

# The guards, which limit any task, whether it repeats anything or not.
GUARDS = frozenset(rule.name for rule in RULES if family_of(rule).__name__.endswith(".guards"))


@dataclass(frozen=True, slots=True)
class CountedLoop:
    """One loop: the finding under which it is counted, and the other findings about it."""

    lead: Finding
    others: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding of this loop, the lead first."""
        return (self.lead, *self.others)

    @property
    def also(self) -> str:
        """The rules of the other findings, each named once."""
        return ", ".join(dict.fromkeys(finding.rule for finding in self.others))


class LoopPart(NamedTuple):
    """What decides of which loop a finding is, and whether it leads."""

    id: str
    task: str
    agent: str
    rule: str
    action: Action
    attempts: int
    turn_first: int
    turn_last: int
    turns: frozenset[int]

    @property
    def order(self) -> tuple[int, int, int, str, str, int, str]:
        """The order of loops: first the strongest action, then the most turns."""
        strength = ACTIONS.index(self.action)
        size = -len(self.turns), -self.attempts
        return (-strength, *size, self.rule, self.task, self.turn_first, self.id)


def loops_in(findings: Iterable[Finding]) -> list[CountedLoop]:
    """Return the loops of findings, the strongest first."""
    by_part = {part_of(finding): finding for finding in findings}
    loops = joined(by_part)
    return [
        CountedLoop(by_part[lead], tuple(by_part[each] for each in rest)) for lead, *rest in loops
    ]


def joined(parts: Iterable[LoopPart]) -> list[list[LoopPart]]:
    """Return the loops of the parts of any tasks, the strongest first, each led by its first part.

    The lead asks for the strongest action, and of several it explains the most turns. A guard leads
    only alone: it says that a task went on for too long, and an overlapping loop says why.
    """
    loops: list[list[LoopPart]] = []
    of_task: dict[str, list[list[LoopPart]]] = {}
    for part in sorted(parts, key=lambda part: (part.rule in GUARDS, part.order)):
        candidates = of_task.setdefault(part.task, [])
        same = next((loop for loop in candidates if _is_same_loop(loop[0], part)), None)
        if same is not None:
            same.append(part)
        else:
            candidates.append([part])
            loops.append(candidates[-1])
    return sorted(loops, key=lambda loop: min(part.order for part in loop))


def part_of(finding: Finding) -> LoopPart:
    """Return what decides of which loop a finding is."""
    turns = frozenset(turn.turn for turn in finding.turns)
    return LoopPart._make((*(getattr(finding, name) for name in LoopPart._fields[:-1]), turns))


def _is_same_loop(lead: LoopPart, other: LoopPart) -> bool:
    """Return whether two findings of one task overlap by at least half of the smaller.

    Stretches are compared, not single turns: a repeated call and the repeated response that asks
    for it are one loop and share no turn. But two agents side by side are two loops.
    """
    shared = min(lead.turn_last, other.turn_last) - max(lead.turn_first, other.turn_first) + 1
    smaller = min(each.turn_last - each.turn_first + 1 for each in (lead, other))
    if 2 * shared < smaller:
        return False
    return lead.agent == other.agent or not lead.turns.isdisjoint(other.turns)
