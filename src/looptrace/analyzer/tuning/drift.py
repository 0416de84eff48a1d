"""Whether the promise of a learned limit still holds: a test that may be looked at any day.

The gate of such a limit only warns in a share of the tasks, chosen by their hash (`is_spared`). So
of these tasks the outcome is known whatever they do, and each solved one is a draw: would the limit
have stopped it? If the promise is kept, the chance is at most the promised share p. The evidence
against it is a likelihood ratio, of greater shares (`_TIMES` p, with equal weights) to p. While the
promise is kept it is a supermartingale, and ever reaches 20 with a chance of at most 5 %, however
often one looks (Wald, 1945; Ville, 1939; Robbins, 1970).

The promise of a limit is known by its key, which changes with the limit. So a promise that was
withdrawn says nothing of the next one.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from looptrace.analyzer.detect.ruleset import Override, RuleSet
from looptrace.analyzer.detect.spared_tasks import is_spared
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.tuning.certificates import CONFIDENCE, Run, by_kind
from looptrace.rules.contract import Rule

# The evidence at which a promise is withdrawn.
EVIDENCE_MAX = 1 / (1 - CONFIDENCE)
# The shares that are compared with the promised one, as multiples of it.
_TIMES = (2, 4, 8)
_SHARE_MAX = 0.99
_PERCENT = 100


@dataclass(frozen=True, slots=True)
class PromiseTest:
    """The test of a learned limit: of the `solved` runs that it spared, `beyond` were beyond it."""

    override: Override  # with the rule alone
    rule: Rule
    solved: int
    beyond: int
    evidence: float  # against the promise, the greatest so far

    @property
    def key(self) -> str:
        """The key of the promise."""
        return promise_key(self.override, self.rule)

    @property
    def is_withdrawn(self) -> bool:
        """Return whether the promise does not hold any more."""
        return self.evidence >= EVIDENCE_MAX

    def warning(self) -> Override:
        """Return the override in which the limit only warns."""
        return replace(self.override, rules={self.rule.name: as_warning(self.rule)})


def promise_key(override: Override, rule: Rule) -> str:
    """Return the key of the promise of a rule's limit for the turns of an override."""
    values = {name: value for name, (value, _) in rule.settings().items()}
    return digest(repr((rule.name, sorted(override.selectors.items()), values, rule.ladder)))


def as_warning(rule: Rule) -> Rule:
    """Return a rule whose learned limit only warns."""
    *lower, last = rule.ladder
    rung = replace(last, action="warn", lost_percent=0.0, spared_percent=0)
    return replace(rule, ladder=(*(r for r in lower if r.action == "warn"), rung))


def without_promises(rule_set: RuleSet, keys: Collection[str]) -> RuleSet:
    """Return rules in which the limits with these keys only warn."""
    if not keys:
        return rule_set

    def kept(override: Override) -> Override:
        return override.each(
            lambda rule: as_warning(rule) if promise_key(override, rule) in keys else rule
        )

    base = kept(Override({rule.name: rule for rule in rule_set.rules})).rules.values()
    rules = tuple(rule for rule in base if rule)
    return replace(rule_set, rules=rules, overrides=tuple(map(kept, rule_set.overrides)))


def evidence_of(draws: Iterable[bool], share: float) -> float:
    """Return the greatest evidence, after any draw, that more than a share of the draws is true."""
    against = [min(times * share, _SHARE_MAX) for times in _TIMES]
    ratios = [1.0] * len(against)
    greatest = 1.0
    for is_true in draws:
        for place, other in enumerate(against):
            ratios[place] *= other / share if is_true else (1 - other) / (1 - share)
        greatest = max(greatest, sum(ratios) / len(ratios))
    return greatest


def promise_tests(
    runs: Iterable[Run], rule_set: RuleSet, since_ns: Mapping[str, int] = MappingProxyType({})
) -> Iterator[PromiseTest]:
    """Yield the test of each learned limit in force that spares some tasks.

    By the keys of promises, `since_ns` has when they were made; only later runs test them.
    """
    distinct = [run for alike in by_kind(runs).values() for run in alike]
    solved = sorted((run for run in distinct if run.solved), key=lambda run: run.end_ns)
    for override, rule in promises(rule_set):
        from_ns = since_ns.get(promise_key(override, rule), 0)
        own = [
            run
            for run in solved
            if run.end_ns >= from_ns and _is_for(override, run) and is_spared(run.task, rule)
        ]
        draws = [run.gate_rule == rule.name and run.later > 0 for run in own if run.steps > 1]
        share = rule.ladder[-1].lost_percent / _PERCENT
        found = evidence_of(draws, share)
        yield PromiseTest(override, rule, len(draws), sum(draws), found)


def promises(rule_set: RuleSet) -> Iterator[tuple[Override, Rule]]:
    """Yield the rules with a learned limit that spares tasks, each with its override."""
    forms = [Override({rule.name: rule}) for rule in rule_set.rules]
    for override in (*forms, *rule_set.overrides):
        for name, rule in override.rules.items():
            if rule and rule.ladder[-1].spared_percent:
                yield replace(override, rules={name: rule}), rule


def _is_for(override: Override, run: Run) -> bool:
    kind = run.kind._asdict()
    return all(getattr(override, name) in (None, value) for name, value in kind.items())
