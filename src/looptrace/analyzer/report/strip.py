"""A task as one drawing: a bar for each turn, and an arc from each repeat to its original.

A loop looks like a rainbow; progress has no arcs. Shapes have the same meaning as colours, and a
sentence describes the drawing. It has neither styles nor scripts; `strip.css` has its colours.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.report.wording import (
    NAME_LENGTH_MAX,
    SENTENCE_LENGTH_MAX,
    counted,
    place_of,
)
from looptrace.analyzer.schema.turns import IS_STEP
from looptrace.analyzer.text.display import label, plain
from looptrace.rules.vocabulary import NS_PER_S
from looptrace.semconv import SILENT

# More bars could not be distinguished on a screen; then a bar stands for several turns.
BARS_MAX = 400
# The most arcs of one finding, chosen evenly, because more would look like a block.
ARCS_MAX = 60
# Steps of a round that a diagram shows; longer rounds are only in the strip.
CYCLE_STEPS_MAX = 8
# The most turns of each kind that the sentence names.
_NAMED_MAX = 8

_COLUMN_PX, _COLUMN_LEAST_PX = 22.0, 2.4
_WIDTH_PX = 960.0
_BAR_SHARE, _THIN_SHARE = 0.7, 0.3
_ARC_PX, _BAR_PX, _BAR_LEAST_PX, _CROSS_PX, _MARK_PX, _LINE_PX = 56.0, 40.0, 4.0, 7.0, 11.0, 22.0
_GAP_PX = 4.0
# Arcs of half the length are higher than half, so that short ones are not flat.
_ARC_POWER = 0.6
_LANDS_SHARE = 0.5  # of a column: where arcs end

_Array = npt.NDArray[np.float64]
# The kinds of bars by rank: a bar of several turns is drawn as the last kind.
Bar = Literal["model", "silence", "attempt", "handoff", "tool"]
BARS: dict[Bar, str] = {
    "tool": "call",
    "model": "response",
    "silence": "silence",
    "handoff": "hand-off",
    "attempt": "attempt",
}
RANKS = get_args(Bar)
# The bar of a turn.
BAR = (
    pl.when((pl.col("kind") == "model") & pl.col("name").eq_missing(SILENT))
    .then(pl.lit("silence"))
    .when(pl.col("kind") == "progress")
    .then(pl.lit("attempt"))
    .otherwise(pl.col("kind").cast(pl.String))
    .alias("bar")
)
# Marks of events by rank: a bar with several events has the last mark.
MARKS = {
    "reset": "counted anew",
    "person": "a person spoke",
    "warn": "warned",
    "pivot": "told to change course",
    "gate": "gate",
}
_MARK_OF = {
    None: "reset",
    "warn": "warn",
    "retry_later": "warn",
    "pivot": "pivot",
    "force_next": "pivot",
    "unblock_authority": "pivot",
    "gate": "gate",
}


@dataclass(frozen=True, slots=True)
class Strip:
    """A drawing, as SVG paths by their meaning; lengths are in pixels."""

    width: float
    height: float
    baseline: float  # on which bars stand
    bars: dict[tuple[str, bool], str]  # by kind, and whether the turn is part of a loop
    crosses: str  # above bars that failed
    arcs: str
    marks: dict[str, str]  # below the bars
    line: str  # of the failing tests, empty with fewer than two figures
    turns: int
    turns_per_bar: int
    measure: str  # of the bars' height: time, tokens, or nothing
    figures: str  # what the line shows, in words
    text: str  # what the drawing shows, in a sentence

    @property
    def kinds(self) -> list[str]:
        """The kinds of bars in the drawing, in the order of the legend."""
        return [kind for kind in BARS if any(kind == bar for bar, _ in self.bars)]


class Arc(NamedTuple):
    """A turn that repeats an earlier one."""

    first: int
    repeat: int


@dataclass(frozen=True, slots=True)
class CycleStep:
    """One step of a round, and how often the next one followed it."""

    name: str
    label: str
    followed: int


def arcs_of(findings: Iterable[Finding]) -> list[Arc]:
    """Return the ends of the arcs: each repeat, and the first turn of its kind."""
    arcs: dict[Arc, None] = {}
    for finding in findings:
        turns = [turn.turn for turn in finding.turns]
        repeats = range(finding.period, len(turns))
        chosen = np.linspace(finding.period, len(turns) - 1, ARCS_MAX).astype(int)
        for place in repeats if len(repeats) <= ARCS_MAX else dict.fromkeys(chosen.tolist()):
            arcs[Arc(turns[place % finding.period], turns[place])] = None
    return list(arcs)


def mark_of(event: GateEvent) -> str:
    """Return the mark of an event."""
    by_person = event.type == "gate_resolved" or place_of(event)[1]
    return "person" if by_person else _MARK_OF["warn" if event.is_left_alone else event.action]


def strip_of(
    turns: pl.DataFrame, findings: Sequence[Finding], events: Sequence[GateEvent] = ()
) -> Strip:
    """Draw the turns of one task (`TURN_SCHEMA`, in order), with these loops and events."""
    turns = turns.filter(IS_STEP)
    per_bar = max(1, -(-turns.height // BARS_MAX))
    starts = np.arange(0, turns.height, per_bar)
    column = max(_COLUMN_LEAST_PX, min(_COLUMN_PX, _WIDTH_PX / max(starts.size, 1)))
    bar_of = {number: row // per_bar for row, number in enumerate(turns["turn"].to_list())}
    arcs = _drawn_arcs(arcs_of(findings), bar_of)
    longest = max((arc.repeat - arc.first for arc in arcs), default=1)
    loops = {turn.turn for finding in findings for turn in finding.turns}
    marks = _marks(events, bar_of)
    measure, heights = _heights(turns, starts)
    top = _GAP_PX + (_ARC_PX if arcs else 0.0)
    baseline = top + _CROSS_PX + _BAR_PX
    height = baseline + (_GAP_PX + _MARK_PX if marks else 1.0)
    figures = _figures(turns)
    is_failed = _any_of(turns["failed"].fill_null(value=False).to_numpy(), starts)
    return Strip(
        width=round(starts.size * column, 1),
        height=height + (_LINE_PX + _GAP_PX if figures else 0.0),
        baseline=baseline,
        bars=_bars(turns, starts, heights, loops, column, baseline),
        crosses="".join(
            _cross(_middle(place, column), baseline - heights[place])
            for place in np.flatnonzero(is_failed).tolist()
        ),
        arcs="".join(_arc(arc, column, top, longest) for arc in arcs),
        marks={
            kind: "".join(
                f"M{_middle(place, column):.1f} {baseline + _GAP_PX:.1f}{_MARK_SHAPES[kind]}"
                for place, mark in marks.items()
                if mark == kind
            )
            for kind in MARKS
            if kind in marks.values()
        },
        line=_line([(bar_of[turn], value) for turn, value in figures], column, height),
        turns=turns.height,
        turns_per_bar=per_bar,
        measure=measure,
        figures=_in_words([value for _, value in figures]),
        text=_sentence(turns, findings, events, measure),
    )


def cycle_of(finding: Finding, turns: pl.DataFrame) -> tuple[CycleStep, ...]:
    """Return the steps of a finding's round; none if it has one step, or too many to draw."""
    period = finding.period
    if not 1 < period <= CYCLE_STEPS_MAX:
        return ()
    numbers = [turn.turn for turn in finding.turns]
    rows = {row["turn"]: row for row in turns.filter(IS_STEP).iter_rows(named=True)}
    if not all(number in rows for number in numbers[:period]):
        return ()
    of_phases = "phase" in finding.rule or "transition" in finding.rule
    labels = [
        plain((of_phases and rows[number]["phase"]) or label(rows[number]), NAME_LENGTH_MAX)
        for number in numbers[:period]
    ]
    follow = [sum(i % period == step for i in range(len(numbers) - 1)) for step in range(period)]
    steps = zip(labels, follow, strict=True)
    return tuple(CycleStep(chr(ord("A") + i), *step) for i, step in enumerate(steps))


def _drawn_arcs(arcs: Iterable[Arc], bar_of: Mapping[int, int]) -> list[Arc]:
    """Return the arcs between bars; turns in one bar, or no longer stored, have none."""
    shown = (
        Arc(bar_of[arc.first], bar_of[arc.repeat])
        for arc in arcs
        if arc.first in bar_of and arc.repeat in bar_of
    )
    return list(dict.fromkeys(arc for arc in shown if arc.first < arc.repeat))


def _marks(events: Iterable[GateEvent], bar_of: Mapping[int, int]) -> dict[int, str]:
    """Return which bars have a mark; events before the first turn have no bar."""
    order = list(MARKS)
    marks: dict[int, str] = {}
    for event in events:
        if (place := bar_of.get(event.turn)) is not None:
            marks[place] = max(mark_of(event), marks.get(place, order[0]), key=order.index)
    return marks


def _heights(turns: pl.DataFrame, starts: npt.NDArray[np.int64]) -> tuple[str, _Array]:
    """Return the meaning of the bars' height, and the heights: time, or tokens.

    Tokens are used if most turns have no time of their own, as in session logs.
    """
    tokens = turns["input_tokens"].fill_null(0) + turns["output_tokens"].fill_null(0)
    seconds = (turns["end_ns"] - turns["start_ns"]).fill_null(0) / NS_PER_S
    takes_time = 2 * int((seconds > 0).sum()) >= turns.height
    values = (seconds if takes_time else tokens).cast(pl.Float64).to_numpy().clip(min=0)
    most = float(values.max(initial=0.0))
    if not most or not starts.size:
        return "nothing", np.full(starts.size, _BAR_PX / 2)
    # The root keeps short turns visible beside long ones.
    shares = np.sqrt(np.maximum.reduceat(values, starts) / most)
    heights = _BAR_LEAST_PX + shares * (_BAR_PX - _BAR_LEAST_PX)
    return ("time" if takes_time else "tokens"), heights


def _bars(
    turns: pl.DataFrame,
    starts: npt.NDArray[np.int64],
    heights: _Array,
    loops: set[int],
    column: float,
    baseline: float,
) -> dict[tuple[str, bool], str]:
    ranks = {kind: rank for rank, kind in enumerate(RANKS)}
    rank = turns.select(BAR.replace_strict(ranks, return_dtype=pl.Int8)).to_series().to_numpy()
    kinds = np.maximum.reduceat(rank, starts) if starts.size else rank
    in_loop = _any_of(turns["turn"].is_in(list(loops)).to_numpy(), starts)
    paths: dict[tuple[str, bool], list[str]] = {}
    for place, (kind, is_in) in enumerate(zip(kinds.tolist(), in_loop.tolist(), strict=True)):
        name = RANKS[kind]
        path = _bar(name, _middle(place, column), column, baseline, float(heights[place]))
        paths.setdefault((name, is_in), []).append(path)
    return {key: "".join(parts) for key, parts in paths.items()}


def _any_of(flags: npt.NDArray[np.bool_], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    return np.logical_or.reduceat(flags, starts) if starts.size else flags


def _bar(kind: str, middle: float, column: float, baseline: float, height: float) -> str:
    """Draw a bar: responses are thin, hand-offs pointed, attempts cut, others wide."""
    width = column * (_THIN_SHARE if kind == "model" else _BAR_SHARE)
    left, top, half = middle - width / 2, baseline - height, width / 2
    if kind == "handoff":
        point = min(half, height)
        return f"M{left:.1f} {baseline:.1f}v{-(height - point):.1f}l{half:.1f} {-point:.1f}" + (
            f"l{half:.1f} {point:.1f}v{height - point:.1f}z"
        )
    if kind == "attempt":
        cut = height / 4
        lower = f"M{left:.1f} {baseline:.1f}v{-cut:.1f}h{width:.1f}v{cut:.1f}z"
        return lower + f"M{left:.1f} {top:.1f}h{width:.1f}v{height / 2:.1f}h{-width:.1f}z"
    return f"M{left:.1f} {top:.1f}h{width:.1f}v{height:.1f}h{-width:.1f}z"


def _middle(place: int, column: float) -> float:
    return (place + _LANDS_SHARE) * column


def _cross(middle: float, top: float) -> str:
    arm = (_CROSS_PX - 3) / 2
    y = top - _CROSS_PX / 2
    down = f"M{middle - arm:.1f} {y - arm:.1f}L{middle + arm:.1f} {y + arm:.1f}"
    return down + f"M{middle - arm:.1f} {y + arm:.1f}L{middle + arm:.1f} {y - arm:.1f}"


def _arc(arc: Arc, column: float, top: float, longest: int) -> str:
    """Draw half an ellipse; its height grows with its length, and the longest fills the height."""
    left, right = _middle(arc.first, column), _middle(arc.repeat, column)
    high = min(_ARC_PX, (right - left) / 2) * ((arc.repeat - arc.first) / longest) ** _ARC_POWER
    return f"M{left:.1f} {top:.1f}A{(right - left) / 2:.1f} {high:.1f} 0 0 1 {right:.1f} {top:.1f}"


# The shape of each mark, from the middle of its top on; as high and wide as `_MARK_PX`.
_DISC = "m-5.5 5.5a5.5 5.5 0 0 1 11 0a5.5 5.5 0 0 1 -11 0z"
_MARK_SHAPES = {
    "gate": "m-5.5 0h11v11h-11z",
    "pivot": "l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
    "warn": "l5.5 11h-11z",
    "person": _DISC,
    "reset": f"{_DISC}m2.75 0a2.75 2.75 0 0 0 5.5 0a2.75 2.75 0 0 0 -5.5 0z",
}


def _figures(turns: pl.DataFrame) -> list[tuple[int, int]]:
    """Return turns with their failing tests; none if there are fewer than two."""
    known = turns.filter(pl.col("tests_failed").is_not_null())
    figures = list(known.select("turn", "tests_failed").iter_rows())
    return figures if len(figures) > 1 else []


def _line(figures: list[tuple[int, int]], column: float, top: float) -> str:
    if not figures:
        return ""
    most = max(value for _, value in figures) or 1
    points = [
        f"{_middle(place, column):.1f} {top + _GAP_PX + (1 - value / most) * _LINE_PX:.1f}"
        for place, value in figures
    ]
    return "M" + "L".join(points)


def _in_words(values: Sequence[int]) -> str:
    """Write `5 → 5 → 3`, of many figures the first and the last, of equal neighbours one."""
    changes = [value for before, value in pairwise([None, *values]) if value != before]
    if len(changes) > _NAMED_MAX:
        half = _NAMED_MAX // 2
        return " → ".join([*map(str, changes[:half]), "…", *map(str, changes[-half:])])
    return " → ".join(map(str, changes)) + (", unchanged" if len(changes) == 1 else "")


def _sentence(
    turns: pl.DataFrame, findings: Sequence[Finding], events: Sequence[GateEvent], measure: str
) -> str:
    """Write a description of the drawing, for people who cannot see it."""
    failed = int(turns["failed"].sum())
    tall = "" if measure == "nothing" else f" The height of a bar is its {measure}."
    parts = [f"{counted(turns.height, 'turn')} of the task, {failed:,} failed.{tall}"]
    parts += [f"{plain(each.reason, SENTENCE_LENGTH_MAX)}." for each in findings[:_NAMED_MAX]]
    decided: dict[str, list[str]] = {}
    for event in events:
        decided.setdefault(MARKS[mark_of(event)], []).append(str(event.turn))
    for meaning, at in decided.items():
        more = ", …" if len(at) > _NAMED_MAX else ""
        parts.append(f"{meaning}: turn {', '.join(at[:_NAMED_MAX])}{more}.")
    return " ".join(parts)
