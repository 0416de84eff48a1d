"""The report as one HTML file: it holds no script, loads nothing, and prints well."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import polars as pl

from looptrace import __version__
from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.llm_judge import NOBODY_ASKED, Opinions
from looptrace.analyzer.report.templating import template
from looptrace.analyzer.report.wording import (
    GATE_IS_OPEN,
    HOW_TO_HAND_ON,
    HOW_TO_LOOK_CLOSER,
    NAME_LENGTH_MAX,
    Group,
    TaskEvents,
    blind_spots,
    event_name,
    events_by_task,
    grouped,
    left_over_text,
    opinion_text,
    outage_more,
    outage_text,
    place_of,
    told_text,
    verdict,
)
from looptrace.analyzer.schema.turns import IS_USER
from looptrace.analyzer.text.display import label, plain
from looptrace.rules.contract import Action

# A strip of more cells than this could not be told apart on a screen; a cell then stands for
# several turns.
_CELLS_MAX = 400

# Turns shown before and after a loop, to see how the agent came in and out.
_CONTEXT_TURNS = 3

# Rows of the table of turns. Of a longer loop the start and the end are shown.
_ROWS_HEAD_MAX = 40
_ROWS_TAIL_MAX = 20

_SKIPPED_SHOWN_MAX = 500
_LABEL_LENGTH_MAX = 120
_OUTCOME_LENGTH_MAX = 160

# What a cell of the strip is, by rank: of several turns in one cell the highest is shown.
_CELL_KINDS = ("other", "repeat", "first")

# In the strip the turns that act are tall, and those that only speak are low.
_ACTING_KINDS = ("tool", "handoff", "attempt")
_CELL_WIDTH_PX = 20
_GAP_WIDTH_PX = 4
_CELL_HEIGHT_PX = 32
_LOW_CELL_HEIGHT_PX = 16

# Above the cells: what was decided at a turn, by rank; of several at one cell the highest is shown.
_Mark = Literal["reset", "warn", "pivot", "gate"]
_MARKS: dict[_Mark, str] = {
    "reset": "counted anew",
    "warn": "warned",
    "pivot": "told to change course",
    "gate": "gate",
}
_MARK_OF: dict[Action, _Mark] = {
    "warn": "warn",
    "retry_later": "warn",
    "pivot": "pivot",
    "force_next": "pivot",
    "unblock_authority": "pivot",
    "gate": "gate",
}
_MARK_HEIGHT_PX = 14


@dataclass(frozen=True, slots=True)
class _Event:
    """What was decided at a turn, in words; `name` is what `text` begins with."""

    turn: int
    badge: str  # class of the badge
    name: str
    more: str
    opinion: str | None


@dataclass(frozen=True, slots=True)
class _Decided:
    """What was decided of a task, as a section lists it."""

    head: list[_Event]
    between: int
    tail: list[_Event]
    is_open: bool


@dataclass(frozen=True, slots=True)
class _Row:
    """One turn in the table of a loop; `place` tells the turns of a longer period apart.

    A person's message is no turn: it has no number, and is in no loop.
    """

    turn: int | None
    kind: str
    agent: str
    label: str
    outcome: str | None
    failed: bool
    role: str
    place: str
    events: list[_Event]


@dataclass(frozen=True, slots=True)
class _Strip:
    """All turns of a task as one picture: an SVG path for each kind of cell and of mark."""

    width_px: int
    height_px: int
    paths: dict[str, str]
    marks: dict[str, str]  # what the marks that there are mean, by their class
    turns: int
    turns_per_cell: int


@dataclass(frozen=True, slots=True)
class _Section:
    """One loop, ready for the template."""

    anchor: str
    group: Group
    strip: _Strip
    head: list[_Row]
    turns_between: int
    tail: list[_Row]
    decided: _Decided | None  # None where an earlier section of the same task has it

    @property
    def rows(self) -> list[_Row]:
        return self.head + self.tail

    @property
    def has_agents(self) -> bool:
        return any(row.agent for row in self.rows)


def html_report(analysis: Analysis, opinions: Opinions = NOBODY_ASKED) -> str:
    """Write the analysis as one self-contained HTML page."""
    shown, left_over = grouped(analysis.own)
    events_of_task = events_by_task(analysis.events)
    sections = _sections(analysis, shown, events_of_task, opinions)
    page = template("report.html.j2").render(
        summary=analysis.summary,
        verdict=verdict(analysis, shown),
        sections=sections,
        outages=[
            (outage_text(each), outage_more(each, analysis.events)) for each in analysis.outages
        ],
        left_over=left_over_text(left_over) if left_over else "",
        blind_spots=blind_spots(analysis.summary),
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
    shown: list[Group],
    events_by_tasks: dict[str, TaskEvents],
    opinions: Opinions,
) -> list[_Section]:
    """Make a section of each loop; what was decided of a task stands in its first."""
    turns_of_task = _turns_of_tasks(analysis.turns, {group.lead.task for group in shown})
    events_of_task = _events_of_tasks(analysis.events, opinions)
    sections = []
    for number, group in enumerate(shown, start=1):
        task = group.lead.task
        turns = turns_of_task.get(task, analysis.turns.clear())
        decided = _decided(events_by_tasks.pop(task), opinions) if task in events_by_tasks else None
        events = events_of_task.get(task, {})
        sections.append(_section(f"loop-{number}", group, turns, events, decided))
    return sections


def _turns_of_tasks(turns: pl.DataFrame, tasks: set[str]) -> dict[Any, pl.DataFrame]:
    """Split off the turns of the tasks that are shown, each in order.

    A person's message has the number of the turn before it, and stands after it.
    """
    order = ("task", "turn", IS_USER, "order_ns", "span_id")
    of_tasks = turns.filter(pl.col("task").is_in(list(tasks))).sort(order)
    parts = of_tasks.partition_by("task", as_dict=True, maintain_order=True)
    return {task: part for (task,), part in parts.items()}


_Events = dict[tuple[int, bool], list[_Event]]  # by `place_of`


def _events_of_tasks(events: tuple[GateEvent, ...], opinions: Opinions) -> dict[str, _Events]:
    """Return events by task and turn."""
    by_task: dict[str, _Events] = {}
    for event in events:
        of_task = by_task.setdefault(event.task, {})
        of_task.setdefault(place_of(event), []).append(_event(event, opinions))
    return by_task


def _event(event: GateEvent, opinions: Opinions) -> _Event:
    is_judged = event.type == "gate_opened" and event.gate in opinions
    name = event_name(event)
    return _Event(
        turn=event.turn,
        badge=_MARK_OF[event.action] if event.action else "reset",
        name=name,
        more=told_text(event).removeprefix(name),
        opinion=opinion_text(opinions[event.gate]) if is_judged else None,
    )


def _decided(events: TaskEvents, opinions: Opinions) -> _Decided:
    return _Decided(
        head=[_event(event, opinions) for event in events.head],
        between=events.between,
        tail=[_event(event, opinions) for event in events.tail],
        is_open=events.gate is not None,
    )


def _section(
    anchor: str, group: Group, turns: pl.DataFrame, events: _Events, decided: _Decided | None
) -> _Section:
    roles = {turn.turn: turn.role for finding in reversed(group.findings) for turn in finding.turns}
    head, turns_between, tail = _rows_around(group, turns, roles, events)
    strip = _strip(turns, roles, events)
    return _Section(anchor, group, strip, head, turns_between, tail, decided)


def _rows_around(
    group: Group, turns: pl.DataFrame, roles: dict[int, Any], events: _Events
) -> tuple[list[_Row], int, list[_Row]]:
    """Return the turns of the loop and some around it; of a long loop the start and the end."""
    first = min(finding.turn_first for finding in group.findings)
    last = max(finding.turn_last for finding in group.findings)
    window = turns.filter(
        pl.col("turn").is_between(max(0, first - _CONTEXT_TURNS), last + _CONTEXT_TURNS)
    )
    places = _places(group)
    turns_between = max(0, window.height - _ROWS_HEAD_MAX - _ROWS_TAIL_MAX)
    head_length = _ROWS_HEAD_MAX if turns_between else window.height
    make = partial(_row, roles=roles, places=places, events=events)
    head = [make(row) for row in window.head(head_length).iter_rows(named=True)]
    tail_window = window.slice(head_length + turns_between)
    tail = [make(row) for row in tail_window.iter_rows(named=True)]
    return head, turns_between, tail


def _places(group: Group) -> dict[int, str]:
    """Name the turns of a cycle by their place in the round: A, B, A, B."""
    if group.lead.period == 1:
        return {}
    turns = sorted(turn.turn for turn in group.lead.turns)
    return {turn: chr(ord("A") + index % group.lead.period) for index, turn in enumerate(turns)}


def _row(
    row: dict[str, Any], roles: dict[Any, Any], places: dict[Any, str], events: _Events
) -> _Row:
    is_user = row["kind"] == "user"
    turn = None if is_user else row["turn"]
    outcome = (row["error"] if row["failed"] else None) or row["result"]
    return _Row(
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


def _strip(turns: pl.DataFrame, roles: dict[int, Any], events: _Events) -> _Strip:
    """Draw every turn as a cell, several turns a cell where there are too many, marks above."""
    turns = turns.filter(~IS_USER)
    turns_per_cell = max(1, -(-turns.height // _CELLS_MAX))
    starts = np.arange(0, turns.height, turns_per_cell)
    ranks = {turn: _CELL_KINDS.index(role) for turn, role in roles.items()}
    rank = turns["turn"].replace_strict(ranks, default=0, return_dtype=pl.UInt8).to_numpy()
    acts = turns["kind"].cast(pl.String).is_in(_ACTING_KINDS).to_numpy()
    cells = zip(
        np.maximum.reduceat(rank, starts) if starts.size else [],
        np.logical_or.reduceat(acts, starts) if starts.size else [],
        strict=True,
    )
    marks = _marks(turns, events, turns_per_cell)
    top_px = _MARK_HEIGHT_PX if marks else 0
    paths = dict.fromkeys((*_CELL_KINDS, *_MARKS), "")
    for index, (cell_rank, cell_acts) in enumerate(cells):
        paths[_CELL_KINDS[cell_rank]] += _cell_path(index, top_px, is_tall=bool(cell_acts))
    for index, mark in marks.items():
        paths[mark] += _mark_path(index)
    return _Strip(
        width_px=int(starts.size) * _CELL_WIDTH_PX,
        height_px=top_px + _CELL_HEIGHT_PX,
        paths=paths,
        marks={mark: said for mark, said in _MARKS.items() if mark in marks.values()},
        turns=turns.height,
        turns_per_cell=turns_per_cell,
    )


def _marks(turns: pl.DataFrame, events: _Events, turns_per_cell: int) -> dict[int, str]:
    """Return which cells have a mark; what was decided before the first turn has no cell."""
    cells = {turn: row // turns_per_cell for row, turn in enumerate(turns["turn"].to_list())}
    marks: dict[int, str] = {}
    order: list[str] = list(_MARKS)
    for (turn, _), decided in events.items():
        if turn in cells:
            badges = [event.badge for event in decided] + [marks.get(cells[turn], order[0])]
            marks[cells[turn]] = max(badges, key=order.index)
    return marks


def _cell_path(index: int, top_px: int, *, is_tall: bool) -> str:
    height = _CELL_HEIGHT_PX if is_tall else _LOW_CELL_HEIGHT_PX
    width = _CELL_WIDTH_PX - _GAP_WIDTH_PX
    x, y = index * _CELL_WIDTH_PX, top_px + _CELL_HEIGHT_PX - height
    return f"M{x} {y}h{width}v{height}h-{width}z"


def _mark_path(index: int) -> str:
    """Draw a triangle that points at the cell below it."""
    width, height = _CELL_WIDTH_PX - _GAP_WIDTH_PX, _MARK_HEIGHT_PX - _GAP_WIDTH_PX
    return f"M{index * _CELL_WIDTH_PX} 0h{width}l-{width // 2} {height}z"
