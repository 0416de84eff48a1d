"""The report for a person at a terminal; it also works without colour and at 80 columns."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.segment import Segment, Segments
from rich.text import Text

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.loops import CountedLoop, loops_in
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
    prices_text,
    shown_of,
    tokens_text,
    told_text,
)
from looptrace.analyzer.text.display import plain
from looptrace.rules.contract import Action

_INDENT_COLUMNS = 2
_CELLS_MAX = 2  # The most columns of a terminal that a character takes.
_BREAKS = frozenset("\n\t")
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
    page = ReportPage(console)
    groups = loops_in(analysis.own)
    shown, left_over = shown_of(groups)
    events_of_task = events_by_task(analysis.events)
    if warning := warning_text(analysis):
        page.add(Text(warning, style="bold yellow"))
    if analysis.summary.turns:
        page.add(_counts(analysis.summary))
    page.add(Text(verdict(analysis, groups), style="bold"))
    _add_outages(analysis, page)
    by_task: dict[str, list[CountedLoop]] = {}
    for group in shown:
        by_task.setdefault(group.lead.task, []).append(group)
    for task, groups in by_task.items():
        _add_task(task, groups, analysis, page)
        _add_strip(task, groups, analysis, page)
        if task in events_of_task:
            page.add_paragraph(_event_lines(events_of_task[task], opinions), _INDENT_COLUMNS)
    if left_over:
        page.add_paragraph([Text(left_over_text(left_over))])
    if analysis.summary.turns:
        page.add_paragraph([Text(line) for line in understood_lines(analysis)])
    if analysis.summary.turns:
        page.add_paragraph(_hints(analysis, events_of_task.values()))
    page.print()


def _hints(analysis: Analysis, events: Iterable[TaskEvents]) -> list[Text]:
    """Write where prices are from, and which commands show more."""
    lines = [prices_text(analysis.money.source)] if analysis.money else []
    lines.append(f"To look closer: {HOW_TO_LOOK_CLOSER}")
    if any(each.gate for each in events):
        lines.append(f"For a report on a gate: {HOW_TO_HAND_ON}")
    return [Text(line, style="dim") for line in lines if line]


def _add_outages(analysis: Analysis, page: ReportPage) -> None:
    for outage in analysis.outages:
        lines = [Text(outage_text(outage), style="bold")]
        lines.append(
            Text.assemble(("outage", "bold yellow"), f" {outage_more(outage, analysis.events)}")
        )
        page.add_paragraph(lines)


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


def _add_task(task: str, groups: list[CountedLoop], analysis: Analysis, page: ReportPage) -> None:
    sessions = dict.fromkeys(group.lead.session for group in groups)
    others = ", ".join(session for session in sessions if session != task)
    page.add_paragraph([Text.assemble("task ", (plain(task, NAME_LENGTH_MAX), "bold"))])
    if others:
        page.add(Text(f"session {plain(others, NAME_LENGTH_MAX)}", style="dim"))
    for group in groups:
        lines = _group_lines(group, loop_money_text(analysis, group.lead))
        page.add_paragraph(lines, _INDENT_COLUMNS)


def _add_strip(task: str, groups: list[CountedLoop], analysis: Analysis, page: ReportPage) -> None:
    strip = text_strip(
        analysis.turns.filter(task=task),
        [group.lead for group in groups],
        [event for event in analysis.events if event.task == task],
        page.width - _INDENT_COLUMNS,
        ascii_only=page.ascii_only,
    )
    page.add_paragraph(map(Text, strip), _INDENT_COLUMNS)


def _group_lines(group: CountedLoop, money: str) -> list[Text]:
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


def print_paragraph(lines: Iterable[Text], console: Console) -> None:
    """Print an empty line and these lines, or nothing if there are none."""
    page = ReportPage(console)
    page.add_paragraph(lines)
    page.print()


def wrapped(line: Text, console: Console, width: int) -> list[Text]:
    """Wrap a line here, because rich would leave spaces at the ends of wrapped lines."""
    short = len(line.plain) * _CELLS_MAX <= width and _BREAKS.isdisjoint(line.plain)
    parts = [line] if short else list(line.wrap(console, width))
    for part in parts:
        part.rstrip()
    return parts


class ReportPage:
    """Lines for a console, which are printed at once.

    Rich asks for the size of the terminal, and wraps what was wrapped, whenever something is
    printed.
    """

    def __init__(self, console: Console) -> None:
        """Ask the console for its width."""
        self.width = console.width
        self.ascii_only = console.options.ascii_only
        self._console = console
        self._segments: list[Segment] = []

    def add(self, line: Text, indent_columns: int = 0) -> None:
        """Add a line, wrapped."""
        for part in wrapped(line, self._console, self.width - indent_columns):
            indented = Text(" " * indent_columns) + part
            self._segments += indented.render(self._console, end="\n")

    def add_paragraph(self, lines: Iterable[Text], indent_columns: int = 0) -> None:
        """Add an empty line and these lines, or nothing if there are none."""
        for number, line in enumerate(lines):
            if not number:
                self._segments.append(Segment.line())
            self.add(line, indent_columns)

    def print(self) -> None:
        """Print the lines."""
        self._console.print(Segments(self._segments), end="", crop=False)
