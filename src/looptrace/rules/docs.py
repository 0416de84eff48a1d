"""What the docstring of a rule says: a sentence, all of it, or its examples."""

import inspect
import re

from looptrace.rules.contract import Rule

_EXAMPLE = re.compile(r"^- `(?P<turns>[^`]+)`", re.MULTILINE)


def summary(rule: type[Rule]) -> str:
    """Return the first sentence of a rule's docstring."""
    return about(rule).splitlines()[0]


def examples(rule: type[Rule], heading: str) -> list[str]:
    """Return the turns listed under a heading of a rule's docstring."""
    _, _, rest = about(rule).partition(f"## {heading}\n")
    section = rest.partition("\n## ")[0]
    return [match["turns"] for match in _EXAMPLE.finditer(section)]


def about(rule: type[Rule]) -> str:
    """Return what a rule's docstring, or that of the rule it is made of, says, as Markdown."""
    return inspect.getdoc(rule) or f"`{rule.name}` has no docstring."
