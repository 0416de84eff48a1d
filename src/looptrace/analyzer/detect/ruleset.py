"""The rules that are on, their overrides for some turns, and how turns are counted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from looptrace import _core
from looptrace.analyzer.detect.counters import Counting
from looptrace.analyzer.fingerprint.similarity import Meaning
from looptrace.analyzer.plugins import PluginError
from looptrace.analyzer.text.names import Name
from looptrace.rules.contract import Rule, setting
from looptrace.rules.needs import ALWAYS
from looptrace.rules.registry import default_rules
from looptrace.rules.turns import LaneSpec
from looptrace.rules.vocabulary import NS_PER_S

_logger = logging.getLogger(__name__)

# The fields of a turn that an override can match.
SELECTORS = ("phase", "agent", "task_kind", "model", "tool", "signature")

# A lane of no rule: it keeps the last response of each agent, which names the model of its calls.
_LAST_RESPONSES = (("model",), "agent", "twin", (), "resets_seen", 2)
# Stands in place of an index into the forms of a rule: the rule is off.
OFF = -1


@dataclass(frozen=True, slots=True)
class Override:
    """Other settings of rules for turns of this phase, agent, kind of task, model, tool, signature.

    None matches every turn; at least one selector is given. A rule of None is off for these turns.
    """

    rules: Mapping[str, Rule | None]
    phase: Name | None = setting(None, doc="The turn's phase, as declared.")
    agent: Name | None = setting(None, doc="The name of the turn's agent.")
    task_kind: Name | None = setting(None, doc="The kind of the turn's task, as declared.")
    model: Name | None = setting(
        None,
        doc="The model of the turn: that of the last response of its agent since a person spoke.",
    )
    tool: Name | None = setting(None, doc="The name of the tool that the turn calls.")
    signature: Name | None = setting(None, doc="What the turn does, as findings name it.")

    @property
    def selectors(self) -> dict[str, str]:
        """The values that a turn must have to match the override."""
        every = {name: getattr(self, name) for name in SELECTORS}
        return {name: value for name, value in every.items() if value is not None}

    def each(self, change: Callable[[Rule], Rule]) -> Override:
        """Return the override with each of its rules changed."""
        rules = {name: rule and change(rule) for name, rule in self.rules.items()}
        return replace(self, rules=rules)


class LeftOut(set[str]):
    """The names of rules of plug-ins that failed, and are left out while this process runs."""

    def note(self, name: str, error: PluginError) -> None:
        """Leave a rule out, and log why, once."""
        if name not in self:
            self.add(name)
            _logger.error("%s Until this process starts again, the rule is left out.", error)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules that decide the findings; of several overrides the last match wins."""

    rules: tuple[Rule, ...] = field(default_factory=default_rules)
    overrides: tuple[Override, ...] = ()
    counting: Counting = field(default_factory=Counting)
    meaning: Meaning | None = None  # None compares requests word by word
    # Live, a rule that fails is left out, and the other rules go on; None lets it raise.
    left_out: LeftOut | None = field(default=None, repr=False, compare=False)

    def forms(self) -> list[RuleForms]:
        """Return every rule that is on for some turns, in all forms that overrides give it."""
        bases: list[tuple[str, Rule | None]] = [(rule.name, rule) for rule in self.rules]
        on = {rule.name for rule in self.rules}
        named = dict.fromkeys(name for override in self.overrides for name in override.rules)
        bases += [(name, None) for name in named if name not in on]
        every = [_forms(name, base, self.overrides) for name, base in bases]
        return [forms for forms in every if forms.rules]

    @property
    def names_models(self) -> bool:
        """Whether an override is for the turns of a model."""
        return any(override.model is not None for override in self.overrides)

    @property
    def needs(self) -> _core.Needs:
        """What the rules need, by their places in `forms()`, as the core asks about it."""
        every = self.forms()
        lookbacks: dict[LaneSpec, int] = {}
        for forms in every:
            lookbacks[forms.lane] = max(lookbacks.get(forms.lane, 1), forms.lookback)
        lanes = [
            (
                spec.kinds,
                None if spec.by == "task" else spec.by,
                spec.once,
                spec.required,
                "resets_seen" if spec.outlasts_completion else "epoch",
                lookback,
            )
            for spec, lookback in lookbacks.items()
        ]
        bounds = [
            (place, [*lookbacks].index(forms.lane), needs.of(rule), _least_ns(rule))
            for place, forms in enumerate(every)
            for rule in forms.rules
            # What means the same need not have come before in the same words.
            for needs in [ALWAYS if self.meaning and rule.compares_meaning else rule.needs]
        ]
        return _core.Needs([*lanes, _LAST_RESPONSES] if self.names_models else lanes, bounds)


def leaving_out(rule_set: RuleSet) -> RuleSet:
    """Return rules of which those that fail are left out, from the first failure on."""
    if rule_set.left_out is not None:
        return rule_set
    return replace(rule_set, left_out=LeftOut())


def without_spared(rule_set: RuleSet) -> RuleSet:
    """Return rules whose gates at learned limits open in every task."""

    def whole(rule: Rule) -> Rule:
        ladder = tuple(replace(rung, spared_percent=0) for rung in rule.ladder)
        return rule if ladder == rule.ladder else replace(rule, ladder=ladder)

    overrides = tuple(override.each(whole) for override in rule_set.overrides)
    return replace(rule_set, rules=tuple(map(whole, rule_set.rules)), overrides=overrides)


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


def _least_ns(rule: Rule) -> int:
    """Return how long a turn, or the pause before it, is at least for a rule to fire."""
    return rule.seconds_min * NS_PER_S if rule.reads_times else 0


def _forms(name: str, base: Rule | None, overrides: Sequence[Override]) -> RuleForms:
    named = [
        (i, override.rules[name]) for i, override in enumerate(overrides) if name in override.rules
    ]
    rules = tuple(dict.fromkeys(rule for rule in (base, *(rule for _, rule in named)) if rule))
    places: dict[Rule | None, int] = {rule: place for place, rule in enumerate(rules)} | {None: OFF}
    return RuleForms(rules, places[base], tuple((i, places[rule]) for i, rule in named))


DEFAULT = RuleSet()
