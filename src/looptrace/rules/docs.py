"""The pages of the rules, made from their docstrings, settings and ladders."""

from __future__ import annotations

import inspect
import re

from looptrace.rules.contract import Rule
from looptrace.rules.registry import RULES

_EXAMPLE = re.compile(r"^- `(?P<turns>[^`]+)`", re.MULTILINE)
_WHOSE = {
    "agent": "each agent of a task",
    "task": "the whole task",
    "subtask": "each sub-task",
}
_GENERATED = "<!-- Made from the rule's docstring by `make docs`; edit it there. -->"
_JUDGED = "What it finds is no exact match: a [judge](../judge.md) may be asked, if there is one."


def summary(rule: type[Rule]) -> str:
    """Return the first sentence of a rule's docstring."""
    return _docstring(rule).splitlines()[0]


def examples(rule: type[Rule], heading: str) -> list[str]:
    """Return the turns listed under a heading of a rule's docstring."""
    _, _, rest = _docstring(rule).partition(f"## {heading}\n")
    section = rest.partition("\n## ")[0]
    return [match["turns"] for match in _EXAMPLE.finditer(section)]


def page(rule: type[Rule]) -> str:
    """Return the Markdown page of a rule."""
    settings = [
        f"| `{name}` | {value} | {about['ge']} to {about['le']} | {about['doc']} |"
        for name, (value, about) in rule().settings().items()
    ]
    ladder = [f"| {rung.attempts} | `{rung.action}` |" for rung in rule().ladder]
    judged = [] if rule.exact else ["", _JUDGED]
    lines = [
        f"# `{rule.name}`",
        "",
        _GENERATED,
        "",
        _docstring(rule),
        "",
        "The notation is explained in [writing a rule](../writing-a-rule.md).",
        "",
        "## Looks at",
        f"The {' and '.join(rule.lane.kinds)} turns of {_WHOSE[rule.lane.by]}, in their order.",
        *judged,
        "",
        "## Settings",
        "| setting | default | bounds | meaning |",
        "| --- | --- | --- | --- |",
        *settings,
        "",
        "## Actions",
        "| from attempts | action |",
        "| --- | --- |",
        *ladder,
        "",
    ]
    return "\n".join(lines)


def index() -> str:
    """Return the page that lists the rules."""
    rows = [f"| [`{rule.name}`]({rule.name}.md) | {summary(rule)} |" for rule in RULES]
    return "\n".join(
        ["# Rules", "", _GENERATED, "", "| rule | finds |", "| --- | --- |", *rows, ""]
    )


def pages() -> dict[str, str]:
    """Return every page by its file name."""
    return {"README.md": index()} | {f"{rule.name}.md": page(rule) for rule in RULES}


def _docstring(rule: type[Rule]) -> str:
    return inspect.cleandoc(rule.__doc__ or "")
