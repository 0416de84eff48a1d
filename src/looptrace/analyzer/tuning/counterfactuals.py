"""The settings that would have changed a rule or a gate.

A setting is named only with a value that was tried: the turns are evaluated again with it, and with
the value next to it. Settings are tried one at a time, by bisection between the value in force and
each of its bounds; changes that need two settings together are not found.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl

from looptrace.analyzer.detect.evaluate import find_stretches
from looptrace.analyzer.engine.batch import decide_tasks
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.gates.events import GateCause, GateEvent
from looptrace.analyzer.settings.file_tables import ENABLED
from looptrace.rules.contract import RUNG_ATTEMPTS_MAX, Rule, SettingError, numbers

# The settings of recovery that lead to a gate. A flag is tried as 0 and 1.
_RECOVERY_OF: dict[GateCause, str] = {
    "MAX_PIVOTS_EXCEEDED": "max_pivots",
    "MAX_FORCED_EXCEEDED": "max_forced",
    "UNBLOCKING_OFF": "unblock",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A setting, and its value nearest to the one in force that makes the difference."""

    setting: str  # as in a settings file, such as rules.repeated_call.attempts_min
    now: int
    then: int


@dataclass(frozen=True, slots=True)
class GateMove:
    """A change that moves a gate, and the turn at which a gate opens then, if any."""

    change: Change
    turn: int | None


@dataclass(frozen=True, slots=True)
class MovedGate:
    """A gate, the changes that would move it, and the first gate if its rule were off."""

    event: GateEvent
    moves: tuple[GateMove, ...]
    without_rule: GateEvent | None


@dataclass(frozen=True, slots=True)
class _Knob:
    """A setting that can be tried, its bounds, and the settings with another value of it."""

    setting: str
    now: int
    least: int
    greatest: int
    turned: Callable[[int], DetectionPolicy]


def changes_of_rule(rows: pl.DataFrame, rule: Rule, policy: DetectionPolicy) -> tuple[Change, ...]:
    """Return the settings with which a silent rule would fire, or a firing one would be silent.

    `rows` are counted turns. Where no number silences a rule, it may be `enabled` that does.
    """
    alone = _with_rules(policy, (rule,))

    def fires(tried: DetectionPolicy) -> bool:
        stretches = find_stretches(rows, tried.rule_set)
        return any(stretch.rule.name == rule.name for stretch in stretches)

    now = fires(alone)
    knobs = _knobs_of_rule(rule, alone)
    changes = [c for knob in knobs for c in _changes(knob, lambda tried: fires(tried) != now)]
    if now and not changes and not fires(_without(rule.name, alone)):
        changes.append(Change(f"rules.{rule.name}.{ENABLED}", now=True, then=False))
    return tuple(changes)


def moved_gate(
    rows: pl.DataFrame, event: GateEvent, events: Sequence[GateEvent], policy: DetectionPolicy
) -> MovedGate:
    """Return the settings with which the task would have gone on beyond the turn of a gate.

    `rows` are its counted turns, `events` all events of the task under the policy in force.
    """
    resolved = [e.turn for e in events if e.type == "gate_resolved" and e.turn < event.turn]
    since = max(resolved, default=-1)

    def opened(tried: DetectionPolicy) -> GateEvent | None:
        stretches = find_stretches(rows, tried.rule_set)
        _, tried_events = decide_tasks(rows, stretches, tried.recovery)
        gates = (e for e in tried_events if e.type == "gate_opened" and e.turn > since)
        return next(gates, None)

    def moves(tried: DetectionPolicy) -> bool:
        gate = opened(tried)
        return gate is None or gate.turn > event.turn

    tried_moves = []
    for knob in _knobs_of_gate(event, policy):
        for change in _changes(knob, moves):
            gate = opened(knob.turned(change.then))
            tried_moves.append(GateMove(change, gate.turn if gate else None))
    return MovedGate(event, tuple(tried_moves), opened(_without(event.rule, policy)))


def _knobs_of_gate(event: GateEvent, policy: DetectionPolicy) -> Iterator[_Knob]:
    """Yield the settings that led to a gate: recovery, the rung of the ladder, the rule's own."""
    name = _RECOVERY_OF.get(event.why) if event.why else None
    if name:
        recovery = policy.recovery
        now = getattr(recovery, name)
        about = {"ge": 0, "le": 1} if name not in numbers(recovery) else numbers(recovery)[name][1]
        turned = partial(_with_recovery, policy, name)
        yield _Knob(f"recovery.{name}", now, about["ge"], about["le"], turned)
    for rule in policy.rule_set.rules:
        if rule.name == event.rule:
            yield _knob_of_ladder(rule, event.attempts, policy)
            yield from _knobs_of_rule(rule, policy)


def _knobs_of_rule(rule: Rule, policy: DetectionPolicy) -> Iterator[_Knob]:
    for name, (now, about) in rule.settings().items():
        turned = partial(_with_number, policy, rule, name)
        yield _Knob(f"rules.{rule.name}.{name}", now, about["ge"], about["le"], turned)


def _knob_of_ladder(rule: Rule, attempts: int, policy: DetectionPolicy) -> _Knob:
    """Return the rung that these attempts reach; its count may go up to the next one."""
    reached = [place for place, rung in enumerate(rule.ladder) if rung.attempts <= attempts]
    place = reached[-1] if reached else 0
    now = rule.ladder[place].attempts
    above = [rung.attempts - 1 for rung in rule.ladder[place + 1 :]]
    turned = partial(_with_rung, policy, rule, place)
    greatest = min(above, default=RUNG_ATTEMPTS_MAX)
    return _Knob(f"rules.{rule.name}.ladder[{place}].attempts", now, now, greatest, turned)


def _with_number(policy: DetectionPolicy, rule: Rule, name: str, value: int) -> DetectionPolicy:
    changes: dict[str, Any] = {name: value}
    return _with_rule(policy, replace(rule, **changes))


def _with_rung(policy: DetectionPolicy, rule: Rule, place: int, attempts: int) -> DetectionPolicy:
    rung = replace(rule.ladder[place], attempts=attempts)
    ladder = (*rule.ladder[:place], rung, *rule.ladder[place + 1 :])
    changed: dict[str, Any] = {"ladder": ladder}
    return _with_rule(policy, replace(rule, **changed))


def _with_recovery(policy: DetectionPolicy, name: str, value: int) -> DetectionPolicy:
    kind = type(getattr(policy.recovery, name))
    return replace(policy, recovery=replace(policy.recovery, **{name: kind(value)}))


def _with_rule(policy: DetectionPolicy, changed: Rule) -> DetectionPolicy:
    rules = policy.rule_set.rules
    return _with_rules(policy, (changed if rule.name == changed.name else rule for rule in rules))


def _without(name: str, policy: DetectionPolicy) -> DetectionPolicy:
    """Switch a rule off, as a settings file does; an override may switch it on."""
    return _with_rules(policy, (rule for rule in policy.rule_set.rules if rule.name != name))


def _with_rules(policy: DetectionPolicy, rules: Iterable[Rule]) -> DetectionPolicy:
    return replace(policy, rule_set=replace(policy.rule_set, rules=tuple(rules)))


def _changes(knob: _Knob, differs: Callable[[DetectionPolicy], bool]) -> Iterator[Change]:
    """Yield the nearest value that makes a difference, below and above the one in force."""
    for bound in (knob.least, knob.greatest):
        # Other settings can forbid values within the bounds.
        forbidden = _nearest(knob.now, bound, lambda value: not _may_be(knob, value))
        last = bound if forbidden is None else forbidden + (1 if forbidden < knob.now else -1)
        then = _nearest(knob.now, last, lambda value: differs(knob.turned(value)))
        if then is not None:
            yield Change(knob.setting, knob.now, then)


def _may_be(knob: _Knob, value: int) -> bool:
    try:
        knob.turned(value)
    except SettingError:
        return False
    return True


def _nearest(now: int, bound: int, differs: Callable[[int], bool]) -> int | None:
    """Return a value that makes a difference while its neighbour towards `now` does not.

    If all values beyond the first different one differ as well, it is the nearest of all. None
    where the bound makes no difference.
    """
    if now == bound or not differs(bound):
        return None
    same, other = now, bound
    while abs(other - same) > 1:
        middle = (same + other) // 2
        if differs(middle):
            other = middle
        else:
            same = middle
    return other
