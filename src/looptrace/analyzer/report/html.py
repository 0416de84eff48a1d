"""The report as one HTML file: it has no script, loads nothing, and prints well."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from looptrace import __version__
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.loops import CountedLoop, loops_in
from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.llm_judge import NOBODY_ASKED, Opinions
from looptrace.analyzer.report.strip import CycleStep, Strip, cycle_of, strip_of
from looptrace.analyzer.report.templating import template
from looptrace.analyzer.report.verdict import understood_lines, verdict, warning_text
from looptrace.analyzer.report.wording import (
    GATE_IS_OPEN,
    HOW_TO_HAND_ON,
    HOW_TO_LOOK_CLOSER,
    NAME_LENGTH_MAX,
    TaskEvents,
    event_name,
    events_by_task,
    left_over_text,
    loop_cost_text,
    loop_money_text,
    opinion_text,
    outage_more,
    outage_text,
    place_of,
    prices_text,
    shown_of,
    told_text,
)
from looptrace.analyzer.schema.turns import IS_USER
from looptrace.analyzer.text.display import label, plain
from looptrace.rules.vocabulary import NS_PER_S

# Turns shown before and after a loop, for context.
_CONTEXT_TURNS = 3

# The most rows of the table of turns; a longer loop shows its start and its end.
_ROWS_HEAD_MAX = 40
_ROWS_TAIL_MAX = 20

_SKIPPED_SHOWN_MAX = 500
# Rows of the table of rules and agents.
_RULES_SHOWN_MAX = 50
_LABEL_LENGTH_MAX = 120
_OUTCOME_LENGTH_MAX = 160


@dataclass(frozen=True, slots=True)
class ShownEvent:
    """An event at a turn, in words; `text` begins with `name`."""

    turn: int
    badge: str  # class of the badge
    name: str
    more: str
    opinion: str | None


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One turn in the table of a loop; `place` distinguishes the turns of a longer period.

    A person's message is not a turn: it has no number, and is in no loop.
    """

    turn: int | None
    kind: str
    agent: str
    label: str
    outcome: str | None
    failed: bool
    role: str
    place: str
    events: list[ShownEvent]


@dataclass(frozen=True, slots=True)
class _Section:
    """One loop, ready for the template."""

    anchor: str
    group: CountedLoop
    strip: Strip
    cycle: tuple[CycleStep, ...]
    cost: str
    head: list[TurnRow]
    turns_between: int
    tail: list[TurnRow]
    decided: TaskEvents | None  # None if an earlier section of the same task has it

    @property
    def rows(self) -> list[TurnRow]:
        return self.head + self.tail

    @property
    def has_agents(self) -> bool:
        return any(row.agent for row in self.rows)


@dataclass(frozen=True, slots=True)
class _OfRule:
    """The loops of one rule and one agent, each counted once."""

    rule: str
    agent: str
    loops: int
    tasks: int
    tokens: int
    seconds: float


def html_report(analysis: Analysis, opinions: Opinions = NOBODY_ASKED) -> str:
    """Write the analysis as one self-contained HTML page."""
    groups = loops_in(analysis.own)
    shown, left_over = shown_of(groups)
    events_of_task = events_by_task(analysis.events)
    sections = _sections(analysis, shown, events_of_task, opinions)
    by_rule = _by_rule(groups)
    page = template("report.html.j2").render(
        summary=analysis.summary,
        verdict=verdict(analysis, groups),
        sections=sections,
        shown=partial(shown_event, opinions=opinions),
        by_rule=by_rule[:_RULES_SHOWN_MAX],
        rules_left_over=max(0, len(by_rule) - _RULES_SHOWN_MAX),
        outages=[
            (outage_text(each), outage_more(each, analysis.events)) for each in analysis.outages
        ],
        left_over=left_over_text(left_over) if left_over else "",
        warning=warning_text(analysis),
        prices=prices_text(analysis.money.source if analysis.money else ""),
        understood=understood_lines(analysis),
        skipped=analysis.skipped[:_SKIPPED_SHOWN_MAX],
        skipped_count=len(analysis.skipped),
        gate_is_open=GATE_IS_OPEN,
        how_to_look_closer=HOW_TO_LOOK_CLOSER,
        how_to_hand_on=HOW_TO_HAND_ON if any(each.gate for each in events_of_task.values()) else "",
        version=__version__,
    )
    return page + "\n"


def _sections(
    analysis: Analysis,
    shown: Sequence[CountedLoop],
    events_by_tasks: dict[str, TaskEvents],
    opinions: Opinions,
) -> list[_Section]:
    """Make a section of each loop; the first one of a task has the task's events."""
    turns_of_task = _turns_of_tasks(analysis.turns, {group.lead.task for group in shown})
    events_of_task = _events_of_tasks(analysis.events, opinions)
    raw_events: dict[str, list[GateEvent]] = {}
    for event in analysis.events:
        raw_events.setdefault(event.task, []).append(event)
    sections = []
    for number, group in enumerate(shown, start=1):
        task = group.lead.task
        turns = turns_of_task.get(task, analysis.turns.clear())
        decided = events_by_tasks.pop(task, None)
        events, places = raw_events.get(task, []), events_of_task.get(task, {})
        cost = loop_cost_text(
            group.lead.cost, loop_money_text(analysis, group.lead), _share(group.lead, turns)
        )
        sections.append(_section(f"loop-{number}", group, turns, events, places, decided, cost))
    return sections


def _by_rule(groups: Sequence[CountedLoop]) -> list[_OfRule]:
    """Return the number of loops for each rule and agent, the most frequent first."""
    leads: dict[tuple[str, str], list[Finding]] = {}
    for group in groups:
        leads.setdefault((group.lead.rule, group.lead.agent), []).append(group.lead)
    rows = [
        _OfRule(
            *key,
            loops=len(found),
            tasks=len({finding.task for finding in found}),
            tokens=sum(each.cost.tokens for each in found),
            seconds=sum(finding.cost.seconds for finding in found),
        )
        for key, found in leads.items()
    ]
    return sorted(rows, key=lambda row: (-row.loops, row.rule, row.agent))


def _share(lead: Finding, turns: pl.DataFrame) -> float | None:
    """Return the share of a loop in its task: in tokens, else in time."""
    tokens = int(turns["input_tokens"].sum()) + int(turns["output_tokens"].sum())
    if tokens:
        return min(1.0, lead.cost.tokens / tokens)
    lasted = turns.select((pl.col("end_ns").max() - pl.col("start_ns").min()) / NS_PER_S).item()
    return min(1.0, lead.cost.seconds / lasted) if lasted else None


def _turns_of_tasks(turns: pl.DataFrame, tasks: set[str]) -> dict[Any, pl.DataFrame]:
    """Split off the turns of the tasks that are shown, each in order.

    A person's message has the number of the turn before it, and comes after it.
    """
    order = ("task", "turn", IS_USER, "order_ns", "span_id")
    of_tasks = turns.filter(pl.col("task").is_in(list(tasks))).sort(order)
    parts = of_tasks.partition_by("task", as_dict=True, maintain_order=True)
    return {task: part for (task,), part in parts.items()}


EventPlaces = dict[tuple[int, bool], list[ShownEvent]]  # by `place_of`


def _events_of_tasks(events: tuple[GateEvent, ...], opinions: Opinions) -> dict[str, EventPlaces]:
    by_task: dict[str, EventPlaces] = {}
    for event in events:
        of_task = by_task.setdefault(event.task, {})
        of_task.setdefault(place_of(event), []).append(shown_event(event, opinions))
    return by_task


def shown_event(event: GateEvent, opinions: Opinions = NOBODY_ASKED) -> ShownEvent:
    """Return events in the form of a list."""
    is_judged = event.type == "gate_opened" and event.gate in opinions
    name = event_name(event)
    return ShownEvent(
        turn=event.turn,
        badge=event.action or ("warn" if event.is_left_alone else "reset"),
        name=name,
        more=told_text(event).removeprefix(name),
        opinion=opinion_text(opinions[event.gate]) if is_judged else None,
    )


def _section(
    anchor: str,
    group: CountedLoop,
    turns: pl.DataFrame,
    events: Sequence[GateEvent],
    places: EventPlaces,
    decided: TaskEvents | None,
    cost: str,
) -> _Section:
    roles = {turn.turn: turn.role for finding in reversed(group.findings) for turn in finding.turns}
    head, turns_between, tail = _rows_around(group, turns, roles, places)
    strip = strip_of(turns, (group.lead,), events)
    cycle = cycle_of(group.lead, turns)
    return _Section(anchor, group, strip, cycle, cost, head, turns_between, tail, decided)


def _rows_around(
    group: CountedLoop, turns: pl.DataFrame, roles: dict[int, Any], events: EventPlaces
) -> tuple[list[TurnRow], int, list[TurnRow]]:
    """Return the turns of the loop and some around it; a long loop has only its start and end."""
    first = min(finding.turn_first for finding in group.findings)
    last = max(finding.turn_last for finding in group.findings)
    window = turns.filter(
        pl.col("turn").is_between(max(0, first - _CONTEXT_TURNS), last + _CONTEXT_TURNS)
    )
    places = places_in_round(group)
    turns_between = max(0, window.height - _ROWS_HEAD_MAX - _ROWS_TAIL_MAX)
    head_length = _ROWS_HEAD_MAX if turns_between else window.height
    make = partial(turn_row, roles=roles, places=places, events=events)
    head = [make(row) for row in window.head(head_length).iter_rows(named=True)]
    tail_window = window.slice(head_length + turns_between)
    tail = [make(row) for row in tail_window.iter_rows(named=True)]
    return head, turns_between, tail


def places_in_round(group: CountedLoop) -> dict[int, str]:
    """Name the turns of a cycle by their place in the round: A, B, A, B."""
    if group.lead.period == 1:
        return {}
    turns = sorted(turn.turn for turn in group.lead.turns)
    return {turn: chr(ord("A") + index % group.lead.period) for index, turn in enumerate(turns)}


def turn_row(
    row: dict[str, Any], roles: dict[Any, Any], places: dict[Any, str], events: EventPlaces
) -> TurnRow:
    """Return a turn in the form of a table, with its part in a loop and the events at it."""
    is_user = row["kind"] == "user"
    turn = None if is_user else row["turn"]
    outcome = (row["error"] if row["failed"] else None) or row["result"]
    return TurnRow(
        turn=turn,
        kind=row["kind"],
        agent=plain(row["agent"] or "", NAME_LENGTH_MAX),
        label=label(row, _LABEL_LENGTH_MAX),
        outcome=None if outcome is None else plain(outcome, _OUTCOME_LENGTH_MAX),
        failed=bool(row["failed"]),
        role=roles.get(turn, ""),
        place=places.get(turn, ""),
        events=events.get((row["turn"], is_user), []),
    )
