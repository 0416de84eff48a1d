"""Selection of rules: only the selected ones, without the ignored ones."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from looptrace.analyzer.detect.rule_plugins import known_rules
from looptrace.analyzer.settings.rule_forms import effective_overrides
from looptrace.analyzer.settings.sections import Settings, with_rules
from looptrace.analyzer.text.near_names import did_you_mean
from looptrace.errors import InputError


def selected(settings: Settings, select: Collection[str], ignore: Collection[str]) -> Settings:
    """Return the settings with the rules that are selected and not ignored.

    Raises:
        InputError: if no rule has a given name, or none is left.
    """
    known = {rule.name: rule for rule in known_rules()}
    for name in (*select, *ignore):
        if name not in known:
            raise InputError(f"there is no rule {name!r}. {did_you_mean(name, known)}")
    if not select and not ignore:
        return settings
    rule_set = settings.policy.rule_set
    in_force = {rule.name: rule for rule in rule_set.rules}
    wanted = [name for name in select or in_force if name not in ignore]
    if not wanted:
        raise InputError("no rule is left of those that are selected or on; ignore fewer.")
    # Rules keep their order, by which findings of equal strength are ordered.
    rules = tuple((in_force.get(name) or known[name]) for name in known if name in wanted)
    overrides = [
        replace(
            override,
            rules={
                name: rule
                for name, rule in override.rules.items()
                if name not in ignore and (not select or name in select)
            },
        )
        for override in rule_set.overrides
    ]
    still = tuple(each for each in effective_overrides(rules, overrides) if each.rules)
    return with_rules(settings, replace(rule_set, rules=rules, overrides=still))
