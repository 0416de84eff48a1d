"""The registry of rules: each module of each family beside this one has one rule.

A family is a folder. Its docstring says in one sentence what its rules look at. There is no list
of the rules: a module in a family is found.
"""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from inspect import isabstract
from types import ModuleType

from looptrace.errors import InstallError
from looptrace.rules.contract import CHECKED, Rule

PACKAGE = "looptrace.rules"


class RegistryError(InstallError):
    """A module among the rules has no rule; the message names the module."""


def discover(package: str = PACKAGE) -> tuple[type[Rule], ...]:
    """Return the class of every rule in the families of a package, in the order of their check.

    Guards say when they are checked (`Rule.checked`); rules of the same time are in the order of
    their names. No verdict depends on the order.

    Raises:
        RegistryError: if a module has no rule or several, or one with another name than the
            module's, or if two families have a rule of the same name.
    """
    rules: dict[str, type[Rule]] = {}
    for family in _inside(package, packages=True):
        for module in _inside(family.__name__, packages=False):
            rule = _rule_of(module)
            if rule.name in rules:
                raise RegistryError(
                    f"{module.__name__}: {rules[rule.name].__module__} has a rule of this name too."
                )
            rules[rule.name] = rule
    return tuple(sorted(rules.values(), key=lambda rule: (CHECKED.index(rule.checked), rule.name)))


def family_of(rule: type[Rule]) -> ModuleType:
    """Return the package of a rule; its docstring says what the rules of the family look at."""
    return import_module(rule.__module__.rpartition(".")[0])


def _inside(package: str, *, packages: bool) -> Iterator[ModuleType]:
    """Import the packages, or the modules, that are directly in a package, by name."""
    for entry in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
        if entry.ispkg == packages:
            yield import_module(entry.name)


def _rule_of(module: ModuleType) -> type[Rule]:
    """Return the one rule that a module defines."""
    rules = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Rule)
        and value.__module__ == module.__name__
        and not isabstract(value)
    ]
    if len(rules) != 1:
        count = f"{len(rules)} rules" if rules else "no rule"
        raise RegistryError(f"{module.__name__}: it has {count}; a module of a family has one.")
    rule: type[Rule] = rules[0]
    own_name = module.__name__.rpartition(".")[2]
    if getattr(rule, "name", None) != own_name:
        raise RegistryError(f"{module.__name__}: its rule must have the name {own_name!r}.")
    return rule


RULES = discover()


def default_rules() -> tuple[Rule, ...]:
    """Return the rules that are on by default, with their default settings."""
    return tuple(rule() for rule in RULES if rule.on_by_default)
