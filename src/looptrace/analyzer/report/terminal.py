"""The report for a person at a terminal; it also works without colour and at 80 columns."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.loops import Loop, loops_in
from looptrace.analyzer.engine.analysis import Analysis, Summary
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.llm_judge import NOBODY_ASKED, Opinions
from looptrace.analyzer.report.strips.text import text_strip
from looptrace.analyzer.report.verdict import understood_lines, verdict, warning_text
from looptrace.analyzer.report.wording import (
    GATE_IS_OPEN,
    HOW_TO_HAND_ON,
    HOW_TO_LOOK_CLOSER,
    NAME_LENGTH_MAX,
    SENTENCE_LENGTH_MAX,
    TaskEvents,
    cost_text,
    counted,
    event_name,
    events_by_task,
    left_over_text,
    loop_money_text,
    opinion_text,
    outage_more,
    outage_text,
    shown_of,
    tokens_text,
    told_text,
)
from looptrace.analyzer.text.display import plain
from looptrace.rules.contract import Action

_INDENT_COLUMNS = 2
ACTION_STYLE: dict[Action, str] = {
    "warn": "yellow",
    "retry_later": "yellow",
    "pivot": "magenta",
    "force_next": "magenta",
    "unblock_authority": "magenta",
    "gate": "red",
}


def print_report(analysis: Analysis, console: Console, opinions: Opinions = NOBODY_ASKED) -> None:
    """Print the counts, the loops and events of each task, and what could not be compared."""
    groups = loops_in(analysis.own)
    shown, left_over = shown_of(groups)
    events_of_task = events_by_task(analysis.events)
    if warning := warning_text(analysis):
        _print_line(Text(warning, style="bold yellow"), console)
    if analysis.summary.turns:
        _print_line(_counts(analysis.summary), console)
    _print_line(Text(verdict(analysis, groups), style="bold"), console)
    _print_outages(analysis, console)
    by_task: dict[str, list[Loop]] = {}
    for group in shown:
        by_task.setdefault(group.lead.task, []).append(group)
    for task, groups in by_task.items():
        _print_task(task, groups, analysis, console)
        _print_strip(task, groups, analysis, console)
        if task in events_of_task:
            print_paragraph(_event_lines(events_of_task[task], opinions), console, _INDENT_COLUMNS)
    if left_over:
        print_paragraph([Text(left_over_text(left_over))], console)
    if analysis.summary.turns:
        print_paragraph([Text(line) for line in understood_lines(analysis)], console)
    if analysis.summary.turns:
        lines = [Text(f"To look closer: {HOW_TO_LOOK_CLOSER}", style="dim")]
        if any(events.gate for events in events_of_task.values()):
            lines.append(Text(f"For a report on a gate: {HOW_TO_HAND_ON}", style="dim"))
        print_paragraph(lines, console)


def _print_outages(analysis: Analysis, console: Console) -> None:
    for outage in analysis.outages:
        lines = [Text(outage_text(outage), style="bold")]
        lines.append(
            Text.assemble(("outage", "bold yellow"), f" {outage_more(outage, analysis.events)}")
        )
        print_paragraph(lines, console)


def _counts(summary: Summary) -> Text:
    counts = (
        counted(summary.sessions, "session"),
        counted(summary.tasks, "task"),
        counted(summary.turns, "turn"),
        counted(summary.spans, "span"),
        tokens_text(
            summary.input_tokens,
            summary.output_tokens,
            summary.cached_tokens,
            summary.reasoning_tokens,
        ),
    )
    return Text(", ".join(counts))


def _print_task(task: str, groups: list[Loop], analysis: Analysis, console: Console) -> None:
    sessions = dict.fromkeys(group.lead.session for group in groups)
    others = ", ".join(session for session in sessions if session != task)
    console.print()
    _print_line(Text.assemble("task ", (plain(task, NAME_LENGTH_MAX), "bold")), console)
    if others:
        _print_line(Text(f"session {plain(others, NAME_LENGTH_MAX)}", style="dim"), console)
    for group in groups:
        lines = _group_lines(group, loop_money_text(analysis, group.lead))
        print_paragraph(lines, console, _INDENT_COLUMNS)


def _print_strip(task: str, groups: list[Loop], analysis: Analysis, console: Console) -> None:
    strip = text_strip(
        analysis.turns.filter(task=task),
        [group.lead for group in groups],
        [event for event in analysis.events if event.task == task],
        console.width - _INDENT_COLUMNS,
        ascii_only=console.options.ascii_only,
    )
    print_paragraph(map(Text, strip), console, _INDENT_COLUMNS)


def _group_lines(group: Loop, money: str) -> list[Text]:
    lead = group.lead
    style = ACTION_STYLE[lead.action]
    lines = [
        Text(plain(lead.reason, SENTENCE_LENGTH_MAX), style="bold"),
        Text.assemble((lead.action, f"bold {style}"), f" by {lead.rule}", _agent(lead)),
    ]
    if group.others:
        lines.append(Text(f"also: {group.also}"))
    if cost := cost_text(lead.cost, money):
        lines.append(Text(f"in the loop: {cost}"))
    return lines


def _event_lines(events: TaskEvents, opinions: Opinions) -> list[Text]:
    """Write the events of a task, each on a line, and whether a gate is open."""
    lines = [Text("events:")]
    for event in events.head:
        lines += told_line(event, opinions)
    if events.between:
        lines.append(Text(f"… {counted(events.between, 'more event')}: all are in --format json"))
    for event in events.tail:
        lines += told_line(event, opinions)
    if events.gate:
        lines.append(Text(GATE_IS_OPEN, style="bold red"))
    return lines


def told_line(event: GateEvent, opinions: Opinions) -> list[Text]:
    """Write one event, and below a gate the opinion of the judge."""
    name, style = event_name(event), ACTION_STYLE[event.action] if event.action else ""
    more = told_text(event).removeprefix(name)
    lines = [Text.assemble(f"turn {event.turn}: ", (name, style), more)]
    if event.type == "gate_opened" and event.gate in opinions:
        lines.append(Text(f"judge: {opinion_text(opinions[event.gate])}"))
    return lines


def _agent(finding: Finding) -> str:
    if finding.agent in ("", finding.task):
        return ""
    return f", agent {plain(finding.agent, NAME_LENGTH_MAX)}"


def print_paragraph(lines: Iterable[Text], console: Console, indent_columns: int = 0) -> None:
    """Print an empty line and these lines, or nothing if there are none."""
    for number, line in enumerate(lines):
        if not number:
            console.print()
        _print_line(line, console, indent_columns)


def wrapped(line: Text, console: Console, width: int) -> list[Text]:
    """Wrap a line here, because rich would leave spaces at the ends of wrapped lines."""
    parts = list(line.wrap(console, width))
    for part in parts:
        part.rstrip()
    return parts


def _print_line(line: Text, console: Console, indent_columns: int = 0) -> None:
    for part in wrapped(line, console, console.width - indent_columns):
        console.print(Text(" " * indent_columns) + part)
