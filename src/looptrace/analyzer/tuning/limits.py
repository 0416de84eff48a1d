"""Learned limits: of a rule that counts, the limit at which it stops no more solved runs than said.

A kind's problems are halved by a hash of their names. On one half the rule and its limit are chosen
with which gates, together, save the most steps of runs that were not solved; on the other the
promise is made (`certificates`), because the half that chose would flatter it. A model
(`failure_model`) is one more such rule, and is taken only where it saves more than every counter.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

from looptrace.analyzer.detect.ruleset import Override, RuleSet
from looptrace.analyzer.tuning.certificates import (
    COUNTERS,
    Certificate,
    Run,
    RunKind,
    by_kind,
    certificate,
    halves,
    share_max,
)
from looptrace.rules.contract import Rule, Rung, SettingError
from looptrace.rules.prediction.likely_failure import LikelyFailure

# The setting of a guard that is its limit; others have it in their ladder.
_GUARDS = {"max_iterations": "max_iterations", "consecutive_errors": "max_errors"}
# Less than this share of steps is no reason for another gate.
_SAVED_MIN = 0.01
_PERCENT = 100
# Of fewer solved runs nothing is chosen.
_CHOSEN_MIN = 30


@dataclass(frozen=True, slots=True)
class Limit:
    """A learned limit for a kind: a rule opens a gate when it has counted more than `most`.

    `alone` is what the gates in force do to the half of the runs that was not used to choose, and
    `together` what they do with the limit; of its runs that can be lost, and of its others, so many
    are `beyond` the limit. `chosen_on` are the solved runs of the other half. Of its steps `saved`
    is the share that the limit saves, and `saved_otherwise` that of the best
    counter where a model was chosen, or of the model; None without one.
    """

    kind: RunKind
    rule: str
    most: int
    chosen_on: int
    alone: Certificate
    together: Certificate
    beyond: tuple[int, int]
    saved: float
    saved_otherwise: float | None = None

    def is_kept(self, share: float) -> bool:
        """Return whether the promise is no more than a share of solved runs."""
        return self.together.at_most <= share

    def override(self, rule_set: RuleSet, share: float, spared_percent: int) -> Override:
        """Return the override of the settings that has the limit, with what it promises."""
        base = next(rule for rule in _limitable(rule_set) if rule.name == self.rule)
        rule = limited(base, self.most, share, spared_percent)
        named = {name: value or None for name, value in self.kind._asdict().items()}
        return Override({self.rule: rule}, **named)


def limits(runs: Iterable[Run], rule_set: RuleSet, share: float) -> list[Limit]:
    """Return the limit of each kind that has one worth a gate, the kind with most runs first."""
    found = (_limit(kind, alike, rule_set, share) for kind, alike in by_kind(runs).items())
    return sorted(filter(None, found), key=lambda each: (-each.together.losable, each.kind))


def limited(rule: Rule, most: int, share: float = 0.0, spared_percent: int = 0) -> Rule | None:
    """Return a rule that opens a gate beyond a limit; None where it does not allow that one."""
    promise = (round(share * _PERCENT, 3), spared_percent)
    try:
        if isinstance(rule, LikelyFailure):
            gate = (Rung(rule.attempts_min, "gate", *promise),)
            return replace(rule, likely_percent=most + 1, ladder=gate)
        if setting := _GUARDS.get(rule.name):
            return replace(rule, **{setting: most}, ladder=(Rung(1, "gate", *promise),))
        kept = tuple(
            rung for rung in rule.ladder if rung.attempts <= most and rung.action != "gate"
        )
        return replace(rule, ladder=(*kept, Rung(most + 1, "gate", *promise)))
    except SettingError:
        return None


def _limitable(rule_set: RuleSet) -> list[Rule]:
    """Return the rules that may get a limit; the model's is off where no model was fitted."""
    counters = [rule for rule in rule_set.rules if rule.name in COUNTERS]
    on = [rule for rule in rule_set.rules if isinstance(rule, LikelyFailure)]
    return [*counters, *(on or [LikelyFailure()])]


class _LimitChoice(NamedTuple):
    """A rule with a limit, and the share of steps that it saves with the gates in force."""

    saved: float
    rule: str = ""
    most: int = 0


def _limit(kind: RunKind, runs: Sequence[Run], rule_set: RuleSet, share: float) -> Limit | None:
    first, second = halves(runs)
    before = certificate(kind, first, share)
    # As many lost as the share allows, and where that cannot be known no more than the gates lose.
    if before.losable < _CHOSEN_MIN:
        return None
    allowed = max(before.lost, _allowed(before.losable, share))
    choices = [_best(rule, first, allowed) for rule in _limitable(rule_set)]
    model = next((each for each in choices if each.rule == LikelyFailure.name), None)
    counter = max((each for each in choices if each != model), key=itemgetter(0))
    is_model = model is not None and model.saved >= counter.saved + _SAVED_MIN
    best, other = (model, counter) if is_model and model else (counter, model)
    if best.saved < before.saved + _SAVED_MIN:
        return None
    limited_runs = [stopped_at(run, best.rule, best.most) for run in second]
    beyond = certificate(
        kind, [stopped_at(replace(run, later=0), best.rule, best.most) for run in second], share
    )
    return Limit(
        kind=kind,
        rule=best.rule,
        most=best.most,
        chosen_on=before.losable,
        alone=certificate(kind, second, share),
        together=certificate(kind, limited_runs, share),
        beyond=(beyond.lost, beyond.stopped),
        saved=best.saved,
        saved_otherwise=other.saved if other else None,
    )


def _best(rule: Rule, runs: Sequence[Run], allowed: int) -> _LimitChoice:
    """Return the least limit of a rule that loses no more of these solved runs than allowed."""

    def with_limit(most: int) -> Certificate:
        stopped = [stopped_at(run, rule.name, most) for run in runs]
        return certificate(runs[0].kind, stopped, share=1.0)

    values = [most for most in _values(runs, rule.name) if limited(rule, most)]
    place = bisect_left(values, True, key=lambda most: with_limit(most).lost <= allowed)
    if place == len(values):
        return _LimitChoice(0.0)
    return _LimitChoice(with_limit(values[place]).saved, rule.name, values[place])


def _allowed(of: int, share: float) -> int:
    """Return how many lost runs of so many still promise a share."""
    lost = 0
    while lost < of and share_max(lost, of) <= share:
        lost += 1
    return max(lost - 1, 0)


def _values(runs: Sequence[Run], rule: str) -> Iterator[int]:
    """Yield the limits that make a difference, the smallest first."""
    yield from sorted({p.reached for run in runs for p in run.peaks.get(rule, ()) if p.reached > 0})


def stopped_at(run: Run, rule: str, most: int) -> Run:
    """Return a run as the rule would stop it, if the gates do not before."""
    peaks = run.peaks.get(rule, ())
    place = bisect_right(peaks, most, key=itemgetter(0))
    return replace(run, later=max(run.later, peaks[place].later)) if place < len(peaks) else run
