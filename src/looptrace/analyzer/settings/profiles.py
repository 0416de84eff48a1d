"""Profiles: one word for how early rules act and how tasks recover."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from looptrace.analyzer.detect.rule_plugins import known_rules
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.rules.contract import Rule, Rung

THRESHOLD = "attempts_min"
LADDER = "ladder"

# A profile scales these settings, and the ladder of their rule with them.
_SCALED = (THRESHOLD, "rounds_min")

# One attempt repeats nothing, so no profile makes it a loop.
_SCALED_LEAST = 2


@dataclass(frozen=True, slots=True)
class Profile:
    """How early a loop is found, and how its task recovers.

    Counts of the rules' defaults are multiplied by `scale`.
    """

    scale: Fraction
    doc: str
    recovery: Recovery = field(default_factory=Recovery)


DEFAULT_PROFILE = "balanced"
PROFILES = {
    "conservative": Profile(
        Fraction(8, 5),
        "Acts late: from 5 attempts on, and again at 8. Never unblocks a task by itself.",
        Recovery(unblock=False),
    ),
    DEFAULT_PROFILE: Profile(Fraction(1), "The default: from 3 attempts on, and again at 5."),
    "aggressive": Profile(Fraction(3, 5), "Acts early: from 2 attempts on, and again at 3."),
}


def rules_of_profile(profile: str) -> tuple[Rule, ...]:
    """Return every rule with the values of a profile, including rules that are off by default."""
    return tuple(_scaled(rule, PROFILES[profile].scale) for rule in known_rules())


def _scaled(rule: Rule, scale: Fraction) -> Rule:
    """Multiply the counts of a rule; each rung stays above the one before it."""
    counts = {name: count for name, count in rule.settings().items() if name in _SCALED}
    if not counts:
        return rule
    changed: dict[str, Any] = {
        name: min(max(_times(count, scale), about["ge"]), about["le"])
        for name, (count, about) in counts.items()
    }
    rungs: list[Rung] = []
    for rung in rule.ladder:
        least = rungs[-1].attempts + 1 if rungs else 0
        rungs.append(Rung(max(_times(rung.attempts, scale), least), rung.action))
    return replace(rule, **changed, ladder=tuple(rungs))


def _times(count: int, scale: Fraction) -> int:
    return max(round(count * scale), min(count, _SCALED_LEAST))
