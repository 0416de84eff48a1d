"""The rules that are on, their overrides for some turns, and how turns are counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from msgspec import Meta

from looptrace.analyzer.detect.counters import Counting
from looptrace.analyzer.fingerprint.similarity import Meaning
from looptrace.analyzer.text.names import Name
from looptrace.rules.contract import Rule
from looptrace.rules.registry import default_rules
from looptrace.rules.turns import LaneSpec

# The fields of a turn that an override can match.
SELECTORS = ("phase", "agent", "task_kind", "model", "tool", "signature")

# Stands in place of an index into the forms of a rule: the rule is off.
OFF = -1


@dataclass(frozen=True, slots=True)
class Override:
    """Other settings of rules for turns of this phase, agent, kind of task, model, tool, signature.

    None matches every turn; at least one selector is given. A rule of None is off for these turns.
    """

    rules: Mapping[str, Rule | None]
    phase: Annotated[Name, Meta(description="The turn's phase, as declared.")] | None = None
    agent: Annotated[Name, Meta(description="The name of the turn's agent.")] | None = None
    task_kind: (
        Annotated[Name, Meta(description="The kind of the turn's task, as declared.")] | None
    ) = None
    model: (
        Annotated[
            Name,
            Meta(
                description="The model of the turn: that of the last response of its agent since a "
                "person spoke."
            ),
        ]
        | None
    ) = None
    tool: Annotated[Name, Meta(description="The name of the tool that the turn calls.")] | None = (
        None
    )
    signature: (
        Annotated[Name, Meta(description="What the turn does, as findings name it.")] | None
    ) = None

    @property
    def selectors(self) -> dict[str, str]:
        """The values that a turn must have to match the override."""
        every = {name: getattr(self, name) for name in SELECTORS}
        return {name: value for name, value in every.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules that decide the findings; of several overrides the last match wins."""

    rules: tuple[Rule, ...] = field(default_factory=default_rules)
    overrides: tuple[Override, ...] = ()
    counting: Counting = field(default_factory=Counting)
    meaning: Meaning | None = None  # None compares requests word by word

    def forms(self) -> list[RuleForms]:
        """Return every rule that is on for some turns, in all forms that overrides give it."""
        bases: list[tuple[str, Rule | None]] = [(rule.name, rule) for rule in self.rules]
        on = {rule.name for rule in self.rules}
        named = dict.fromkeys(name for override in self.overrides for name in override.rules)
        bases += [(name, None) for name in named if name not in on]
        every = [_forms(name, base, self.overrides) for name, base in bases]
        return [forms for forms in every if forms.rules]


def without_spared(rule_set: RuleSet) -> RuleSet:
    """Return rules whose gates at learned limits open in every task."""

    def whole(rule: Rule) -> Rule:
        ladder = tuple(replace(rung, spared_percent=0) for rung in rule.ladder)
        return rule if ladder == rule.ladder else replace(rule, ladder=ladder)

    overrides = (
        replace(each, rules={name: rule and whole(rule) for name, rule in each.rules.items()})
        for each in rule_set.overrides
    )
    rules = tuple(map(whole, rule_set.rules))
    return replace(rule_set, rules=rules, overrides=tuple(overrides))


@dataclass(frozen=True, slots=True)
class RuleForms:
    """The different forms of one rule with its settings, and where each form applies."""

    rules: tuple[Rule, ...]
    base: int  # index into `rules`, or `OFF`, for turns that no override changes
    overridden: tuple[tuple[int, int], ...]  # index of an override, and of the form that it uses

    @property
    def name(self) -> str:
        """The name that all forms have."""
        return self.rules[0].name

    @property
    def lane(self) -> LaneSpec:
        """The lane that all forms evaluate."""
        return self.rules[0].lane

    @property
    def lookback(self) -> int:
        """The number of turns of its lane that the result of any form depends on."""
        return max(rule.lookback for rule in self.rules)


def _forms(name: str, base: Rule | None, overrides: Sequence[Override]) -> RuleForms:
    named = [
        (i, override.rules[name]) for i, override in enumerate(overrides) if name in override.rules
    ]
    rules = tuple(dict.fromkeys(rule for rule in (base, *(rule for _, rule in named)) if rule))
    places: dict[Rule | None, int] = {rule: place for place, rule in enumerate(rules)} | {None: OFF}
    return RuleForms(rules, places[base], tuple((i, places[rule]) for i, rule in named))


DEFAULT = RuleSet()
