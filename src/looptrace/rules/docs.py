"""The pages of the rules, made from their docstrings, settings and ladders."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping

from looptrace.rules.contract import Rule
from looptrace.rules.registry import RULES, family_of

_EXAMPLE = re.compile(r"^- `(?P<turns>[^`]+)`", re.MULTILINE)
# The example without a loop on a page: the first that says why; `looptrace rule` prints them all.
_REASON = re.compile(r"^- `[^`]+`:[^`]+?$(?!\n  )", re.MULTILINE)
_WHOSE = {"agent": "each agent", "task": "the task", "subtask": "each sub-task"}
_GENERATED = "<!-- Made by `make docs`. -->"
_JUDGED = "Not exact: a [judge](../judge.md) may be asked."


def summary(rule: type[Rule]) -> str:
    """Return the first sentence of a rule's docstring."""
    return about(rule).splitlines()[0]


def examples(rule: type[Rule], heading: str) -> list[str]:
    """Return the turns listed under a heading of a rule's docstring."""
    _, _, rest = about(rule).partition(f"## {heading}\n")
    section = rest.partition("\n## ")[0]
    return [match["turns"] for match in _EXAMPLE.finditer(section)]


def page(rule: type[Rule], settings: str) -> str:
    """Return the Markdown page of a rule: its docstring and its settings."""
    lane = f"Reads: {', '.join(rule.lane.kinds)} turns of {_WHOSE[rule.lane.by]}."
    off = [] if rule.on_by_default else ["Off unless switched on."]
    prose, _, _ = about(rule).partition("\n## ")
    _, _, rest = about(rule).partition("## Not looping\n")
    reasons = _REASON.findall(rest.partition("\n## ")[0])
    lines = [
        f"# `{rule.name}`",
        "",
        _GENERATED,
        "",
        prose.rstrip(),
        "",
        " ".join([lane, *([] if rule.exact else [_JUDGED]), *off]),
        "",
        f"- `{examples(rule, 'Looping')[0]}`: a loop.",
        *reasons[:1],
        "",
        settings,
        "",
    ]
    return "\n".join(lines)


def index() -> str:
    """Return the page that lists the rules, family by family."""
    families: dict[str, list[type[Rule]]] = {}
    for rule in sorted(RULES, key=lambda rule: rule.name):
        family = family_of(rule).__name__.rpartition(".")[2]
        families.setdefault(family, []).append(rule)
    lines = ["# Rules", "", _GENERATED]
    for family, rules in sorted(families.items()):
        lines += ["", f"## {family.capitalize()}", ""]
        for rule in rules:
            off = "" if rule.on_by_default else " Off unless switched on."
            lines.append(f"- [`{rule.name}`]({rule.name}.md): {summary(rule)}{off}")
    return "\n".join([*lines, ""])


def ladders() -> str:
    """Return the table of the default ladders by their actions, with the rules of each."""
    by_actions: dict[str, list[str]] = {}
    for rule in sorted(RULES, key=lambda rule: rule.name):
        actions = ", then ".join(f"`{rung.action}`" for rung in rule().ladder)
        by_actions.setdefault(actions, []).append(f"`{rule.name}`")
    rows = sorted(by_actions.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    lines = [f"| {actions} | {', '.join(names)} |" for actions, names in rows]
    return "\n".join(["", "| a loop leads to | by |", "| --- | --- |", *lines, ""])


def pages(settings: Mapping[str, str]) -> dict[str, str]:
    """Return every page by its file name; `settings` has a table by rule."""
    made = {f"{rule.name}.md": page(rule, settings[rule.name]) for rule in RULES}
    return {"README.md": index()} | made


def about(rule: type[Rule]) -> str:
    """Return what a rule's docstring says of it, as Markdown."""
    return inspect.cleandoc(rule.__doc__ or "")
