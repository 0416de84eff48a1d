"""The report for a person at a terminal; it also works without colour and at 80 columns."""

from collections.abc import Iterable

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.loops import CountedLoop, loops_in
from looptrace.analyzer.engine.analysis import Analysis, Summary
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.llm_judge import NOBODY_ASKED, Opinions
from looptrace.analyzer.report.pages import Line, Output, ReportPage, line, page_of
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
ACTION_STYLE: dict[Action, str] = {
    "warn": "yellow",
    "retry_later": "yellow",
    "pivot": "magenta",
    "force_next": "magenta",
    "unblock_authority": "magenta",
    "gate": "red",
}


def print_report(analysis: Analysis, output: Output, opinions: Opinions = NOBODY_ASKED) -> None:
    """Print the counts, the loops and events of each task, and what could not be compared."""
    page = page_of(output)
    groups = loops_in(analysis.own)
    shown, left_over = shown_of(groups)
    events_of_task = events_by_task(analysis.events)
    if warning := warning_text(analysis):
        page.add(line(warning, "bold yellow"))
    if analysis.summary.turns:
        page.add(_counts(analysis.summary))
    page.add(line(verdict(analysis, groups), "bold"))
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
        page.add_paragraph([line(left_over_text(left_over))])
    if analysis.summary.turns:
        page.add_paragraph(map(line, understood_lines(analysis)))
    if analysis.summary.turns:
        page.add_paragraph(_hints(analysis, events_of_task.values()))
    page.print()


def _hints(analysis: Analysis, events: Iterable[TaskEvents]) -> list[Line]:
    """Write where prices are from, and which commands show more."""
    lines = [prices_text(analysis.money.source)] if analysis.money else []
    lines.append(f"To look closer: {HOW_TO_LOOK_CLOSER}")
    if any(each.gate for each in events):
        lines.append(f"For a report on a gate: {HOW_TO_HAND_ON}")
    return [line(each, "dim") for each in lines if each]


def _add_outages(analysis: Analysis, page: ReportPage) -> None:
    for outage in analysis.outages:
        lines: list[Line] = [line(outage_text(outage), "bold")]
        lines.append((("outage", "bold yellow"), (f" {outage_more(outage, analysis.events)}", "")))
        page.add_paragraph(lines)


def _counts(summary: Summary) -> Line:
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
    return line(", ".join(counts))


def _add_task(task: str, groups: list[CountedLoop], analysis: Analysis, page: ReportPage) -> None:
    sessions = dict.fromkeys(group.lead.session for group in groups)
    others = ", ".join(session for session in sessions if session != task)
    page.add_paragraph([(("task ", ""), (plain(task, NAME_LENGTH_MAX), "bold"))])
    if others:
        page.add(line(f"session {plain(others, NAME_LENGTH_MAX)}", "dim"))
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
    page.add_paragraph(map(line, strip), _INDENT_COLUMNS)


def _group_lines(group: CountedLoop, money: str) -> list[Line]:
    lead = group.lead
    style = ACTION_STYLE[lead.action]
    lines: list[Line] = [
        line(plain(lead.reason, SENTENCE_LENGTH_MAX), "bold"),
        ((lead.action, f"bold {style}"), (f", found by {lead.rule}", ""), (_agent(lead), "")),
    ]
    if group.others:
        lines.append(line(f"also: {group.also}"))
    if cost := cost_text(lead.cost, money):
        lines.append(line(f"in the loop: {cost}"))
    return lines


def _event_lines(events: TaskEvents, opinions: Opinions) -> list[Line]:
    """Write the events of a task, each on a line, and whether a gate is open."""
    lines = [line("events:")]
    for event in events.head:
        lines += told_line(event, opinions)
    if events.between:
        lines.append(line(f"… {counted(events.between, 'more event')}: all are in --format json"))
    for event in events.tail:
        lines += told_line(event, opinions)
    if events.gate:
        lines.append(line(GATE_IS_OPEN, "bold red"))
    return lines


def told_line(event: GateEvent, opinions: Opinions) -> list[Line]:
    """Write one event, and below a gate the opinion of the judge."""
    name, style = event_name(event), ACTION_STYLE[event.action] if event.action else ""
    more = told_text(event).removeprefix(name)
    lines: list[Line] = [((f"turn {event.turn}: ", ""), (name, style), (more, ""))]
    if event.type == "gate_opened" and event.gate in opinions:
        lines.append(line(f"judge: {opinion_text(opinions[event.gate])}"))
    return lines


def _agent(finding: Finding) -> str:
    if finding.agent in ("", finding.task):
        return ""
    return f", agent {plain(finding.agent, NAME_LENGTH_MAX)}"
