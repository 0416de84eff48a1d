"""Rules of a settings file: for all turns, and in overrides for some."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from msgspec import Struct
from msgspec.structs import astuple

from looptrace.analyzer.detect.ruleset import SELECTORS, Override
from looptrace.analyzer.gates.ladders import check_reach
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.settings.file_tables import ENABLED
from looptrace.analyzer.settings.profiles import LADDER
from looptrace.analyzer.settings.tables import made, stated
from looptrace.analyzer.settings.toml_reader import Errors, Node
from looptrace.rules.contract import Rule, Rung


@dataclass(frozen=True, slots=True)
class Form:
    """A rule of a table; a rule that is off also has settings, for overrides that need them."""

    rule: Rule
    enabled: bool = True

    @property
    def in_force(self) -> Rule | None:
        """The rule, or None if it is off."""
        return self.rule if self.enabled else None


def forms_of(
    node: Node, tables: Struct, bases: Mapping[str, Form], recovery: Recovery, errors: Errors
) -> dict[str, Form]:
    """Return the rules that have a table in the file, each with the changes of its table.

    A rule that cannot have these settings stays as it is, and its error is collected.
    """
    given = stated(node, tables)
    return {
        name: errors.tried(partial(_form, node.at(name), table, bases[name], recovery), bases[name])
        for name, table in given.items()
    }


def _form(node: Node, table: Struct, form: Form, recovery: Recovery) -> Form:
    changes = stated(node, table)
    enabled = changes.pop(ENABLED, form.enabled)
    if LADDER in changes:
        changes[LADDER] = tuple(Rung(*astuple(rung)) for rung in changes[LADDER])
    rule: Rule = made(node, partial(replace, form.rule), changes)
    if (
        rule.ladder != form.rule.ladder
    ):  # The file does not change the ladder of a profile unless it has one.
        made(node, partial(check_reach, rule, recovery), {})
    return Form(rule, enabled)


def overrides_of(
    node: Node,
    tables: Sequence[Struct],
    bases: Mapping[str, Form],
    recovery: Recovery,
    errors: Errors,
) -> tuple[Override, ...]:
    """Return the overrides; each rule in one starts from the file's settings for all turns.

    The errors are those of rules that cannot have these settings, and overrides without effect.
    """
    nodes = [node.at(index) for index in range(len(tables))]
    overrides = tuple(
        errors.tried(partial(_override, each, table, bases, recovery, errors), Override({}))
        for each, table in zip(nodes, tables, strict=True)
    )
    rules = [form.rule for form in bases.values() if form.enabled]
    effective = effective_overrides(rules, overrides)
    for index, (each, override) in enumerate(zip(nodes, overrides, strict=True)):
        for name in override.rules:
            at = each.at("rules").at(name)
            if name not in effective[index].rules:
                why = f"{at.name} changes nothing: without it, the rule is the same."
                errors.add(at.error(why))
            elif any(_covers(later, override, name) for later in overrides[index + 1 :]):
                why = "never applies: a later override matches every turn that it matches."
                errors.add(at.error(f"{at.name} {why}"))
    return overrides


def _override(
    node: Node,
    table: Struct,
    bases: Mapping[str, Form],
    recovery: Recovery,
    errors: Errors,
) -> Override:
    given = stated(node, table)
    forms = forms_of(node.at("rules", {}), given.pop("rules", Struct()), bases, recovery, errors)
    if not given:
        raise node.error(f"an override must have at least one of {', '.join(SELECTORS)}.")
    if not forms:
        raise node.error("the override changes nothing: it has no rules.")
    return Override({name: form.in_force for name, form in forms.items()}, **given)


def _covers(later: Override, earlier: Override, name: str) -> bool:
    """Return whether a later override of a rule matches every turn that an earlier one matches."""
    return name in later.rules and later.selectors.items() <= earlier.selectors.items()


def effective_overrides(rules: Sequence[Rule], overrides: Sequence[Override]) -> list[Override]:
    """Remove from overrides the rules that are the same without them.

    A later override may reset a rule that an earlier one changes, for some of its turns.
    """
    bases: dict[str, Rule | None] = {rule.name: rule for rule in rules}
    effective: list[Override] = []
    for override in overrides:
        before = [earlier for earlier in effective if _may_meet(earlier, override)]
        differ = {
            name: rule
            for name, rule in override.rules.items()
            if rule != bases.get(name) or any(name in earlier.rules for earlier in before)
        }
        effective.append(replace(override, rules=differ))
    return effective


def _may_meet(one: Override, other: Override) -> bool:
    """Return whether a turn can match both."""
    first, second = one.selectors, other.selectors
    return all(first[name] == second[name] for name in first.keys() & second.keys())
