"""Directives: the texts that tell an agent to change course, made from templates.

A template is a file `<name>.txt.j2`, named after the rule or, if the rule has none, the action; for
a person's decision it is `resolved`. It may use only the values that `text_of` passes. Earlier
turns are not quoted, so an agent does not read its own mistakes again: a tool is named, because the
agent knows it by that name, and its arguments and results are not. The blockers of a task are those
that its author recorded, and the note of a decision is meant for the agent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from looptrace.analyzer.detect.budgets.rules import BUDGET_NAMES
from looptrace.analyzer.gates.decisions import NOTE_CHARS_MAX
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.gates.recovery import DEFAULT, Recovery
from looptrace.analyzer.gates.waiting import Waiting, waiting_for
from looptrace.analyzer.text.display import plain
from looptrace.errors import InputError

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

SUFFIX = ".txt.j2"
# The template of a person's decision.
RESOLVED = "resolved"
# The template of what is left of a budget of several tasks.
BUDGET = "budget"
# A blocker is a name or a sentence.
BLOCKER_LENGTH_MAX = 200
# More of them do not help to decide.
BLOCKERS_MAX = 20
# A loop of more tools is named by its first ones.
TOOLS_MAX, TOOL_LENGTH_MAX = 4, 80

# Directives that differ in more than their task.
TEXTS_KEPT_MAX = 1_000
_TASK = "\0"  # In place of the name; in no other value.

# Sample values with which a template is tried in advance.
_SAMPLE = {
    "task": "task",
    "rule": "repeated_call",
    "action": "warn",
    "attempts": 3,
    "loop_count": 2,
    "entropy_count": 3,
    "pivots": 1,
    "max_pivots": 2,
    "blockers": ["key"],
    "tools": ["fetch"],
    "retry_after_s": 60,
    "decision": "continue",
    "note": "Use the other key.",
    "budget": "money of session s1",
    "unless_decided": "within 60 minutes, the task is cancelled",
    "unanswered": False,
}

# A rule's own text is for an agent that goes on; a gate says that it must not.
_OF_RULES = ("warn", "pivot")


class DirectiveError(InputError):
    """A template cannot be used; the message is one line, with its name."""


@dataclass(frozen=True)  # Without slots: the environment is kept.
class Directives:
    """The templates in force: those of a folder, if one is given, before looptrace's own."""

    folder: Path | None = None
    recovery: Recovery = DEFAULT
    waiting: tuple[Waiting, ...] = ()  # where a server sees to it

    def text_of(self, event: GateEvent) -> str | None:
        """Return the directive of an event; None if the agent need not do anything.

        A template may use `task`, `rule`, `action`, `attempts`, `loop_count`, `pivots`,
        `entropy_count`, `max_pivots`, `blockers` and `tools` (lists), `retry_after_s`, `decision`,
        `note`, `budget` (of several tasks: `money of session s1`, or ""), `unless_decided` (of a
        gate: `within 60 minutes, the task is cancelled`, or "") and
        `unanswered` (of a decision: whether it was made by default).

        Raises:
            DirectiveError: if a template of the folder cannot be used.
        """
        if event.action is None and event.type != "gate_resolved":
            return None
        names = [f"{event.action or RESOLVED}{SUFFIX}"]
        if event.action in _OF_RULES:
            budget = [f"{BUDGET}{SUFFIX}"] if event.rule in BUDGET_NAMES else []
            names = [f"{event.rule}{SUFFIX}", *budget, *names]
        try:
            return self._render(names, event)
        except _faults() as error:
            why = plain(str(error), BLOCKER_LENGTH_MAX)
            raise DirectiveError(
                f"{self.folder}: a template of {names} cannot be used: {why}"
            ) from error

    def check(self) -> None:
        """Check that the folder is there and that each of its templates can be read.

        Raises:
            DirectiveError: if not.
        """
        if self.folder is None:
            return
        if not self.folder.is_dir():
            raise DirectiveError(
                f"{self.folder}: is not a folder; directives must be a folder of templates."
            )
        environment = self._environment
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            try:
                environment.get_template(path.name).render(_SAMPLE)
            except _faults() as error:
                why = plain(str(error), BLOCKER_LENGTH_MAX)
                raise DirectiveError(f"{path}: cannot be used: {why}") from error

    def _render(self, names: list[str], event: GateEvent) -> str:
        task = plain(event.task, BLOCKER_LENGTH_MAX)
        blockers = [plain(name, BLOCKER_LENGTH_MAX) for name in event.blockers[:BLOCKERS_MAX]]
        waiting = waiting_for(event, self.waiting) if event.action == "gate" else None
        values = {
            "tools": tuple(plain(name, TOOL_LENGTH_MAX) for name in event.tools[:TOOLS_MAX]),
            "rule": event.rule,
            "action": event.action,
            "attempts": event.attempts,
            "loop_count": event.loop_count,
            "entropy_count": event.entropy_count,
            "pivots": event.pivots,
            "max_pivots": self.recovery.max_pivots,
            "retry_after_s": event.retry_after_s,
            "decision": event.decision,
            "note": _note_of(event),
            "budget": _budget_of(event),
            "unless_decided": waiting.for_agent if waiting else "",
            "unanswered": event.type == "gate_resolved" and event.why == "UNANSWERED",
        }
        if self.folder is None:
            text = _own_text(tuple(names), tuple(values.items()), tuple(blockers))
            return text.replace(_TASK, task).strip()
        template = self._environment.select_template(names)
        return template.render(task=task, blockers=blockers, **values).strip()

    @cached_property
    def _environment(self) -> ImmutableSandboxedEnvironment:
        import jinja2  # noqa: PLC0415 - Most commands send no directive.
        from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

        own = jinja2.PackageLoader("looptrace.analyzer.gates", "templates")
        given = [jinja2.FileSystemLoader(self.folder)] if self.folder else []
        return ImmutableSandboxedEnvironment(
            loader=jinja2.ChoiceLoader([*given, own]),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )


def _faults() -> tuple[type[Exception], ...]:
    from jinja2 import TemplateError  # noqa: PLC0415 - as above

    return TemplateError, OSError, UnicodeDecodeError


OWN = Directives()


@lru_cache(TEXTS_KEPT_MAX)
def _own_text(
    names: tuple[str, ...], values: tuple[tuple[str, Any], ...], blockers: tuple[str, ...]
) -> str:
    """Return a directive of looptrace's own, which contains only the name of its task."""
    template = OWN._environment.select_template(names)
    return template.render(task=_TASK, blockers=list(blockers), **dict(values))


_MADE = ("directive", "note", "names")
_COPIED = [field.name for field in fields(GateNotice) if field.name not in _MADE]


def notice_of(event: GateEvent, directives: Directives, names: Iterable[str] = ()) -> GateNotice:
    """Return the notice of an event for an agent; `names` are other names of its task."""
    copied = {name: getattr(event, name) for name in _COPIED}
    text = directives.text_of(event)
    return GateNotice(**copied, directive=text, note=_note_of(event), names=tuple(names))


def _budget_of(event: GateEvent) -> str:
    is_budget = event.rule in BUDGET_NAMES
    return plain(event.signature, BLOCKER_LENGTH_MAX) if is_budget else ""


def _note_of(event: GateEvent) -> str | None:
    """Return the note without control characters, no longer than a decision's may be."""
    if event.note is None:
        return None
    lines = event.note[:NOTE_CHARS_MAX].splitlines()
    return "\n".join(plain(line, NOTE_CHARS_MAX) for line in lines)
