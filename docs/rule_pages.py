"""Makes the pages of the rules, of their docstrings, settings and ladders."""

import re
from collections.abc import Mapping

from looptrace.rules.contract import Rule
from looptrace.rules.docs import about, examples, summary
from looptrace.rules.registry import RULES, family_of

# The example without a loop on a page: the first that says why; `looptrace rule` prints them all.
_REASON = re.compile(r"^- `[^`]+`:[^`]+?$(?!\n  )", re.MULTILINE)
_WHOSE = {"agent": "each agent", "task": "the task", "subtask": "each sub-task"}
_GENERATED = "<!-- `make docs` makes this page and those of the rules, from their docstrings. -->"
_JUDGED = "Not exact ([judge](../judge.md))."


def page(rule: type[Rule], settings: str) -> str:
    """Return the Markdown page of a rule: its docstring and its settings."""
    lane = f"Reads: {', '.join(rule.lane.kinds)} turns of {_WHOSE[rule.lane.by]}."
    off = [] if rule.on_by_default else ["Off by default."]
    prose, _, _ = about(rule).partition("\n## ")
    _, _, rest = about(rule).partition("## Not looping\n")
    reasons = _REASON.findall(rest.partition("\n## ")[0])
    lines = [
        f"# `{rule.name}`",
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
            off = "" if rule.on_by_default else " Off by default."
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
