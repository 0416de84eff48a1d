"""Checks that the rungs of a ladder can be reached."""

from itertools import pairwise

from looptrace.analyzer.gates.recovery import Recovery
from looptrace.rules.contract import Rule, Rung, SettingError

# Settings with the attempts at which a rule finds a loop; other rules count something else.
_NEEDED = ("attempts_min", "rounds_min")


def check_reach(rule: Rule, recovery: Recovery) -> None:
    """Refuse a ladder with a rung that no loop can reach.

    Raises:
        SettingError: if there is one; it says which, and why.
    """
    settings = rule.settings()
    name, needed = next(((n, settings[n][0]) for n in _NEEDED if n in settings), ("", 1))
    for lower, upper in pairwise(rule.ladder):
        if upper.attempts <= needed:
            _refuse(rule, lower, f"{name} is {needed}, where the ladder asks for {upper.action}")
        last, why = _end_after(lower, needed, recovery)
        if last is not None and upper.attempts > last:
            _refuse(rule, upper, why)


def _end_after(rung: Rung, needed: int, recovery: Recovery) -> tuple[int | None, str]:
    """Return the last count that a loop can have after a rung, and why; None for no end."""
    first = max(rung.attempts, needed)
    pivots = f"recovery.max_pivots is {recovery.max_pivots}"
    last_pivot = first * (recovery.max_pivots + 1)
    ends: dict[str, tuple[int, str]] = {
        "gate": (first, f"the gate at {first} stops the task"),
        "force_next": (first, f"the order to move on at {first} clears the count"),
        "pivot": (last_pivot, f"{pivots}, so a gate opens at {last_pivot}"),
        "unblock_authority": (
            (first + 1, f"authority is given at {first}, and the next attempt opens a gate")
            if recovery.unblock
            else (first, f"recovery.unblock is false, so a gate opens at {first}")
        ),
    }
    return ends.get(rung.action, (None, ""))


def _refuse(rule: Rule, rung: Rung, why: str) -> None:
    raise SettingError(
        f"{rule.name}.ladder has {rung.action} at {rung.attempts} attempts, "
        f"which no loop can reach: {why}."
    )
