"""The tasks in which the gate of a learned limit only warns, so that its promise can be tested."""

from looptrace.analyzer.text.digests import digest
from looptrace.rules.contract import Action, Rule

_PERCENT = 100


def is_spared(task: str, rule: Rule) -> bool:
    """Return whether the gate of a rule at a learned limit only warns in a task, by its hash."""
    percent = rule.ladder[-1].spared_percent
    return percent > 0 and int(digest(f"spared {task}"), 16) % _PERCENT < percent


def action_in(task: str, rule: Rule, attempts: int, seconds: float) -> Action:
    """Return the action of a rule in a task; a gate only warns where it spares the task."""
    action = rule.action(attempts, seconds)
    return "warn" if action == "gate" and is_spared(task, rule) else action
