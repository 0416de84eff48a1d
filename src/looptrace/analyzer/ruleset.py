"""The rules that judge, what differs for some turns, and how their counts are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from looptrace.analyzer.counts import Counting
from looptrace.rules.contract import Rule
from looptrace.rules.registry import default_rules


@dataclass(frozen=True, slots=True)
class Override:
    """Rules that judge otherwise where a turn is of this phase, agent, kind of task, and tool.

    What is None holds for every turn; at least one is given. A rule that is None is off there.
    """

    rules: Mapping[str, Rule | None]
    phase: str | None = None
    agent: str | None = None
    task_kind: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class RuleSet:
    """What decides the findings in given turns; of several overrides the last that fits wins."""

    rules: tuple[Rule, ...] = field(default_factory=default_rules)
    overrides: tuple[Override, ...] = ()
    counting: Counting = field(default_factory=Counting)


DEFAULT = RuleSet()
