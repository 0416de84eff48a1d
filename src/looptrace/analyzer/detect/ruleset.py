"""The rules that are on, what differs for some turns, and how their counts are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from looptrace.analyzer.detect.counters import Counting
from looptrace.analyzer.fingerprint.similarity import Meaning
from looptrace.analyzer.text.names import Name
from looptrace.rules.contract import Rule
from looptrace.rules.registry import default_rules
from looptrace.rules.turns import LaneSpec

# What an override can ask of a turn.
SELECTORS = ("phase", "agent", "task_kind", "tool")

# In place of an index into the forms of a rule: it is off there.
OFF = -1


@dataclass(frozen=True, slots=True)
class Override:
    """Rules that are set otherwise where a turn is of this phase, agent, kind of task, and tool.

    What is None holds for every turn; at least one is given. A rule that is None is off there.
    """

    rules: Mapping[str, Rule | None]
    phase: Annotated[Name, Meta(description="The turn's phase, as declared.")] | None = None
    agent: Annotated[Name, Meta(description="The name of the turn's agent.")] | None = None
    task_kind: (
        Annotated[Name, Meta(description="The kind of the turn's task, as declared.")] | None
    ) = None
    tool: Annotated[Name, Meta(description="The name of the tool that the turn calls.")] | None = (
        None
    )

    @property
    def selectors(self) -> dict[str, str]:
        """What a turn must be for the override to hold there."""
        every = {name: getattr(self, name) for name in SELECTORS}
        return {name: value for name, value in every.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RuleSet:
    """What decides the findings in turns; of several overrides the last that fits wins."""

    rules: tuple[Rule, ...] = field(default_factory=default_rules)
    overrides: tuple[Override, ...] = ()
    counting: Counting = field(default_factory=Counting)
    meaning: Meaning | None = None  # None compares requests word by word

    def forms(self) -> list[RuleForms]:
        """Return every rule that is on anywhere, in all the forms that overrides give it."""
        bases: list[tuple[str, Rule | None]] = [(rule.name, rule) for rule in self.rules]
        on = {rule.name for rule in self.rules}
        named = dict.fromkeys(name for override in self.overrides for name in override.rules)
        bases += [(name, None) for name in named if name not in on]
        every = [_forms(name, base, self.overrides) for name, base in bases]
        return [forms for forms in every if forms.rules]


@dataclass(frozen=True, slots=True)
class RuleForms:
    """One rule as it is set: its forms that differ, and which of them holds where."""

    rules: tuple[Rule, ...]
    base: int  # index into `rules`, or `OFF`, of turns that no override changes
    overridden: tuple[tuple[int, int], ...]  # index of an override, and of what holds in it

    @property
    def name(self) -> str:
        """The name that all forms have."""
        return self.rules[0].name

    @property
    def lane(self) -> LaneSpec:
        """The lane that all forms look at."""
        return self.rules[0].lane

    @property
    def lookback(self) -> int:
        """On how many turns of its lane what any form finds at a turn depends."""
        return max(rule.lookback for rule in self.rules)


def _forms(name: str, base: Rule | None, overrides: Sequence[Override]) -> RuleForms:
    named = [
        (i, override.rules[name]) for i, override in enumerate(overrides) if name in override.rules
    ]
    rules = tuple(dict.fromkeys(rule for rule in (base, *(rule for _, rule in named)) if rule))
    places: dict[Rule | None, int] = {rule: place for place, rule in enumerate(rules)} | {None: OFF}
    return RuleForms(rules, places[base], tuple((i, places[rule]) for i, rule in named))


DEFAULT = RuleSet()
