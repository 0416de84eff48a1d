"""A timeline as a drawing: bars in the lanes of agents, and what they waited for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.report.strip import BAR, arcs_of, mark_of
from looptrace.analyzer.report.wording import NAME_LENGTH_MAX, counted, duration_text
from looptrace.analyzer.schema.turns import IS_STEP
from looptrace.analyzer.text.display import label, plain
from looptrace.collector.page.timeline.axis import Cut, Tick, TimeAxis, axis_of
from looptrace.collector.page.timeline.parents import Family, SpanKey, family_of
from looptrace.rules.vocabulary import NS_PER_S

WIDTH_PX = 1_200.0
_ARCS_PX, _AXIS_PX, _NAME_PX, _ROW_PX, _BAR_PX, _LANE_GAP_PX = 60.0, 22.0, 16.0, 15.0, 12.0, 8.0
_BAR_PX_MIN = 2.5
_INDENT_PX = 18.0
# Arcs of half the length are higher than half, so that short ones are not flat.
_ARC_POWER = 0.6
_CURVE_SHARE = 0.75  # of the height of its control points that a curve reaches
# Calls that overlap are below each other; more of them share the last row.
_ROWS_MAX = 5
# The most agents with a lane of their own; the last lane has the rest.
_LANES_MAX = 12


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """A turn, as long as it took."""

    x: float
    y: float
    width: float
    kind: str
    in_loop: bool
    failed: bool
    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class AgentLane:
    """An agent; `indent` says how many agents are above it."""

    name: str
    y: float
    height: float
    indent: float


@dataclass(frozen=True, slots=True)
class Box:
    """A run of an agent, or a wait at a gate."""

    x: float
    y: float
    width: float
    height: float
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """A drawing; lengths are in pixels."""

    width: float
    height: float
    top: float  # of the first lane
    lanes: tuple[AgentLane, ...]
    bars: tuple[TimelineBar, ...]
    runs: tuple[Box, ...]
    calls: str  # lines from turns to the runs that they made
    arcs: str  # from repeats to what they repeat
    waits: tuple[Box, ...]  # at gates
    cuts: tuple[Cut, ...]
    ticks: tuple[Tick, ...]
    marks: tuple[tuple[float, str, str], ...]  # of events: place, mark, words
    text: str


def timeline_of(
    turns: pl.DataFrame,
    spans: pl.DataFrame,
    findings: Sequence[Finding],
    events: Sequence[GateEvent],
) -> Timeline | None:
    """Draw turns of a task; None where they have no times.

    `spans` are those of their traces, with `FAMILY_COLUMNS`. Findings and events outside of the
    turns are left out.
    """
    steps = turns.filter(IS_STEP)
    if steps.is_empty() or steps["end_ns"].max() == steps["start_ns"].min():
        return None
    family = family_of(steps, spans)
    times = list(steps.select("start_ns", "end_ns").iter_rows())
    axis = axis_of(times, WIDTH_PX)
    agents = family.in_order(steps.sort("start_ns")["agent"].unique(maintain_order=True).to_list())
    lane_of = {agent: min(place, _LANES_MAX - 1) for place, agent in enumerate(agents)}
    rows = _rows([lane_of[agent] for agent in steps["agent"]], times, axis)
    lanes = _lanes(agents, rows, family)
    loops = {turn.turn for finding in findings for turn in finding.turns}
    bars = _bars(steps, rows, lanes, axis, loops)
    place_of = {bar.turn: bar for bar in bars}
    keys = zip(steps["trace_id"], steps["span_id"], steps["turn"], strict=True)
    turn_of = {(trace_id, span_id): turn for trace_id, span_id, turn in keys}
    runs, calls = _runs(family, lanes, lane_of, axis, {k: place_of[t] for k, t in turn_of.items()})
    bottom = lanes[-1].y + lanes[-1].height
    return Timeline(
        width=WIDTH_PX,
        height=bottom + _AXIS_PX,
        top=_ARCS_PX,
        lanes=tuple(lanes),
        bars=tuple(bars),
        runs=tuple(runs),
        calls=calls,
        arcs=_arcs(findings, place_of),
        waits=tuple(_waits(events, axis, bottom)),
        cuts=tuple(axis.cuts),
        ticks=tuple(axis.ticks),
        marks=tuple(_marks(events, axis)),
        text=_text(steps, lanes, axis),
    )


def _rows(lanes: list[int], times: list[tuple[int, int]], axis: TimeAxis) -> list[tuple[int, int]]:
    """Return the lane and the row of each turn; those that overlap are in rows below each other."""
    free: dict[tuple[int, int], float] = {}
    placed: dict[int, tuple[int, int]] = {}
    for at in sorted(range(len(times)), key=lambda n: (times[n][0], -times[n][1])):
        start, end = (axis.x(each) for each in times[at])
        lane = lanes[at]
        row = next(
            (n for n in range(_ROWS_MAX - 1) if free.get((lane, n), -1.0) <= start), _ROWS_MAX - 1
        )
        free[lane, row] = max(end, start + _BAR_PX_MIN)
        placed[at] = lane, row
    return [placed[at] for at in range(len(times))]


def _lanes(agents: list[str], rows: list[tuple[int, int]], family: Family) -> list[AgentLane]:
    lanes, y = [], _ARCS_PX
    for place, agent in enumerate(agents[:_LANES_MAX]):
        height = _NAME_PX + _ROW_PX * (1 + max((n for lane, n in rows if lane == place), default=0))
        is_rest = place == _LANES_MAX - 1 and len(agents) > _LANES_MAX
        name = "others" if is_rest else plain(agent, NAME_LENGTH_MAX) or "no agent named"
        lanes.append(AgentLane(name, y, height, _INDENT_PX * family.depth(agent)))
        y += height + _LANE_GAP_PX
    return lanes


def _bars(
    steps: pl.DataFrame,
    rows: list[tuple[int, int]],
    lanes: list[AgentLane],
    axis: TimeAxis,
    loops: set[int],
) -> list[TimelineBar]:
    bars = []
    for row, (lane, line) in zip(steps.with_columns(BAR).iter_rows(named=True), rows, strict=True):
        start, end = axis.x(row["start_ns"]), axis.x(row["end_ns"])
        took = duration_text((row["end_ns"] - row["start_ns"]) / NS_PER_S)
        what = label(row, NAME_LENGTH_MAX)
        bars.append(
            TimelineBar(
                x=min(start, WIDTH_PX - _BAR_PX_MIN),
                y=lanes[lane].y + _NAME_PX + line * _ROW_PX,
                width=max(end - start, _BAR_PX_MIN),
                kind=row["bar"],
                in_loop=row["turn"] in loops,
                failed=bool(row["failed"]),
                turn=row["turn"],
                text=f"turn {row['turn']}, {took}: {what}" + (", failed" if row["failed"] else ""),
            )
        )
    return bars


def _runs(
    family: Family,
    lanes: list[AgentLane],
    lane_of: Mapping[str, int],
    axis: TimeAxis,
    bars: Mapping[SpanKey, TimelineBar],
) -> tuple[list[Box], str]:
    boxes, lines = [], []
    for run in family.runs:
        lane = lanes[lane_of[run.agent]]
        start, end = axis.x(run.start_ns), axis.x(run.end_ns)
        took = duration_text((run.end_ns - run.start_ns) / NS_PER_S)
        text = f"{plain(run.name, NAME_LENGTH_MAX)}, {took}"
        boxes.append(Box(start, lane.y, max(end - start, _BAR_PX_MIN), lane.height, text))
        caller = bars.get(run.caller) if run.caller else None
        if caller is not None:
            lines.append(f"M{start:.1f} {caller.y + _BAR_PX:.1f}V{lane.y:.1f}")
    return boxes, "".join(lines)


def _arcs(findings: Iterable[Finding], places: Mapping[int, TimelineBar]) -> str:
    """Return the arcs above the lanes, between the middles of bars."""
    paths = []
    for arc in arcs_of(findings):
        first, repeat = places.get(arc.first), places.get(arc.repeat)
        if first is None or repeat is None:
            continue
        start, end = first.x + first.width / 2, repeat.x + repeat.width / 2
        lift = (_ARCS_PX - 8.0) * (abs(end - start) / WIDTH_PX) ** _ARC_POWER
        top, base = _ARCS_PX - lift / _CURVE_SHARE, _ARCS_PX - 2.0
        curve = f"{start:.1f} {top:.1f} {end:.1f} {top:.1f} {end:.1f} {base:.1f}"
        paths.append(f"M{start:.1f} {base:.1f}C{curve}")
    return "".join(paths)


def _waits(events: Iterable[GateEvent], axis: TimeAxis, bottom: float) -> list[Box]:
    """Return the stretches at gates, from each opening to its end, as far as the axis goes."""
    boxes = []
    opened = {event.gate: event.at_ns for event in events if event.type == "gate_opened"}
    ended = {event.gate: event.at_ns for event in events if event.type == "gate_resolved"}
    for gate, at_ns in opened.items():
        end_ns = ended.get(gate)
        start, end = axis.x(at_ns), WIDTH_PX if end_ns is None else axis.x(end_ns)
        if end_ns is not None:
            end = max(
                [end, *(cut.x + 1 for cut in axis.cuts if cut.start_ns <= end_ns < cut.end_ns)]
            )
        if end > start:
            lasted = "still open" if end_ns is None else duration_text((end_ns - at_ns) / NS_PER_S)
            boxes.append(Box(start, _ARCS_PX, end - start, bottom - _ARCS_PX, f"gate, {lasted}"))
    return boxes


def _marks(events: Iterable[GateEvent], axis: TimeAxis) -> list[tuple[float, str, str]]:
    first_ns, last_ns = axis.starts_ns[0], axis.ends_ns[-1]
    return [
        (axis.x(event.at_ns), mark_of(event), event.type.replace("_", " "))
        for event in events
        if first_ns <= event.at_ns <= last_ns and event.type != "gate_renamed"
    ]


def _text(steps: pl.DataFrame, lanes: Sequence[AgentLane], axis: TimeAxis) -> str:
    """Return what the drawing shows, in a sentence."""
    lasted = duration_text((axis.ends_ns[-1] - axis.starts_ns[0]) / NS_PER_S)
    what = f"{counted(steps.height, 'turn')} of {counted(len(lanes), 'agent')} in {lasted}"
    cuts = ", ".join(cut.text for cut in axis.cuts)
    return f"{what}; cut short: {cuts}" if cuts else what
