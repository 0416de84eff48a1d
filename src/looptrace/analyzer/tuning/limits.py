"""Learned limits: of a rule that counts, the limit at which it stops no more solved runs than said.

A kind's problems are halved by a hash of their names. On one half the rule and its limit are chosen
with which gates, together, save the most steps of runs that were not solved; on the other the
promise is made (`certificates`), because the half that chose would flatter it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from looptrace.analyzer.detect.ruleset import Override, RuleSet
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.tuning.certificates import (
    Certificate,
    Kind,
    Run,
    by_kind,
    certificate,
    share_max,
)
from looptrace.rules.contract import Rule, Rung, SettingError

# The setting of a guard that is its limit; others have it in their ladder.
_GUARDS = {"max_iterations": "max_iterations", "consecutive_errors": "max_errors"}
# Less than this share of steps is no reason for another gate.
_SAVED_MIN = 0.01
# Of fewer solved runs nothing is chosen.
_CHOSEN_MIN = 30


@dataclass(frozen=True, slots=True)
class Limit:
    """A learned limit for a kind: a rule opens a gate when it has counted more than `most`.

    `alone` is what the gates in force do to the half of the runs that was not used to choose, and
    `together` what they do with the limit. `chosen_on` are the solved runs of the other half.
    """

    kind: Kind
    rule: str
    most: int
    chosen_on: int
    alone: Certificate
    together: Certificate

    def is_kept(self, share: float) -> bool:
        """Return whether the promise is no more than a share of solved runs."""
        return self.together.at_most <= share

    def override(self, rule_set: RuleSet) -> Override:
        """Return the override of the settings that has the limit."""
        base = next(rule for rule in rule_set.rules if rule.name == self.rule)
        rule = limited(base, self.most)
        return Override({self.rule: rule}, agent=self.kind.agent or None,
                        task_kind=self.kind.task_kind or None)  # fmt: skip


def limits(runs: Iterable[Run], rule_set: RuleSet, share: float) -> list[Limit]:
    """Return the limit of each kind that has one worth a gate, the kind with most runs first."""
    found = (_limit(kind, alike, rule_set, share) for kind, alike in by_kind(runs).items())
    return sorted(filter(None, found), key=lambda each: (-each.together.losable, each.kind))


def limited(rule: Rule, most: int) -> Rule | None:
    """Return a rule that opens a gate beyond a limit; None where it does not allow that one."""
    try:
        if setting := _GUARDS.get(rule.name):
            return replace(rule, **{setting: most}, ladder=(Rung(1, "gate"),))
        kept = tuple(
            rung for rung in rule.ladder if rung.attempts <= most and rung.action != "gate"
        )
        return replace(rule, ladder=(*kept, Rung(most + 1, "gate")))
    except SettingError:
        return None


def _limit(kind: Kind, runs: Sequence[Run], rule_set: RuleSet, share: float) -> Limit | None:
    first, second = _halves(runs)
    best = (0.0, "", 0)  # the share saved, the rule, and its limit
    before = certificate(kind, first, share)
    # As many lost as the share allows, and where that cannot be known no more than the gates lose.
    if before.losable < _CHOSEN_MIN:
        return None
    allowed = max(before.lost, _allowed(before.losable, share))
    for rule in rule_set.rules:

        def with_limit(most: int, name: str = rule.name) -> Certificate:
            return certificate(kind, [_stopped(run, name, most) for run in first], share)

        values = [most for most in _values(first, rule.name) if limited(rule, most)]
        place = bisect_left(values, True, key=lambda most: with_limit(most).lost <= allowed)
        if place < len(values):
            saved = with_limit(values[place]).saved
            best = max(best, (saved, rule.name, values[place]), key=itemgetter(0))
    if best[0] < before.saved + _SAVED_MIN:
        return None
    _, name, most = best
    together = certificate(kind, [_stopped(run, name, most) for run in second], share)
    return Limit(kind, name, most, before.losable, certificate(kind, second, share), together)


def _halves(runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """Return the runs in two halves; all tries of a problem are in one."""
    halves: tuple[list[Run], list[Run]] = ([], [])
    for run in runs:
        halves[int(digest(run.problem), 16) % 2].append(run)
    return halves


def _allowed(of: int, share: float) -> int:
    """Return how many lost runs of so many still promise a share."""
    lost = 0
    while lost < of and share_max(lost, of) <= share:
        lost += 1
    return max(lost - 1, 0)


def _values(runs: Sequence[Run], rule: str) -> Iterator[int]:
    """Yield the limits that make a difference, the smallest first."""
    yield from sorted({p.reached for run in runs for p in run.peaks.get(rule, ()) if p.reached > 0})


def _stopped(run: Run, rule: str, most: int) -> Run:
    """Return a run as the rule would stop it, if the gates do not before."""
    peaks = run.peaks.get(rule, ())
    place = bisect_right(peaks, most, key=itemgetter(0))
    return replace(run, later=max(run.later, peaks[place].later)) if place < len(peaks) else run
