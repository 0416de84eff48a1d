"""Makes the table and the plots of docs/benchmarks.md from docs/benchmarks.json."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import log10
from pathlib import Path
from typing import Any

from benchmarks.scatter import Axis, Point, scatter_svg
from benchmarks.speed.figures import WALL
from benchmarks.speed.rows import SIZES, SPANS, TASK_TURNS, TRACE_SPANS
from benchmarks.speed.table import BY_NAME, lines

FIGURES = Path(__file__).parent / "benchmarks.json"
THROUGHPUT, LATENCY = "benchmarks-throughput.svg", "benchmarks-latency.svg"

_HEAD = "| what | figure | measured | target | plain reader and loop, or peer (times as good) |"
_SHORT = {3: "k", 6: "M"}
_SIZED = re.compile(r"(?P<name>.*) of (?P<size>[\d,]+)")


def figures() -> dict[str, Any]:
    """Return what was measured last."""
    recorded: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return recorded


def table(recorded: Mapping[str, Any]) -> str:
    """Return the figures with a target or a comparison, and below them their machine."""
    written = ["", _HEAD, "|" + " --- |" * _HEAD.count(" | ") + " --- |"]
    for name, row in BY_NAME.items():
        if each := recorded["rows"].get(name):
            is_full = each["about"]["share"] == 1
            parts = each["values"], each["plain"], each["peers"]
            every = [_five(cells) for cells in lines(row, *parts, is_full=is_full)]
            aimed = [cells for cells in every if cells[3]]
            compared = aimed or [cells for cells in every if cells[4]]
            written += [
                "| " + " | ".join([row.title if place == 0 else "", *cells[1:]]) + " |"
                for place, cells in enumerate(_by_size(compared))
            ]
    return "\n".join([*written, "", *_about(recorded), ""])


def _five(cells: Sequence[str]) -> list[str]:
    """Return the cells of a line of the table, with target and ratio in one cell each."""
    padded = [cell.strip() for cell in [*cells, *[""] * 7]]
    what, figure, measured, target, met, other, ratio = padded[:7]
    compared = f"{other} ({ratio})" if other and ratio else other or ratio
    return [what, figure, measured, f"{target} {met}".strip(), compared]


def _by_size(every: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the lines, with figures that differ in a size alone in one."""
    groups: dict[tuple[str, str], list[Sequence[str]]] = {}
    for cells in every:
        sized = _SIZED.fullmatch(cells[1])
        name = sized["name"] if sized else cells[1]
        groups.setdefault((name, cells[3]), []).append(cells)
    merged = []
    for (name, target), group in groups.items():
        sizes = [sized["size"] for cells in group if (sized := _SIZED.fullmatch(cells[1]))]
        measured = "; ".join(cells[2] for cells in group)
        other = "; ".join(cells[4] for cells in group if cells[4])
        figure = f"{name} of {'; '.join(sizes)}" if sizes else name
        merged.append([group[0][0], figure, measured, target, other])
    return merged


def _about(recorded: Mapping[str, Any]) -> Iterator[str]:
    """Return a line for each machine and number of runs, with the dates and loads of its rows."""
    by_set_up: dict[str, dict[str, list[float]]] = {}
    for each in recorded["rows"].values():
        about = each["about"]
        runs = max((len(values) for values in each["runs"].values()), default=0)
        set_up = (
            f"{about['cores']} cores ({about['machine']}), Python {about['python']}, Polars "
            f"{about['polars']}, NumPy {about['numpy']}; runs: {runs}, share of the full size: "
            f"{about['share']:g}; load average"
        )
        dates = by_set_up.setdefault(set_up, {})
        dates.setdefault(about["date"], []).append(about["load"])
    for set_up, dates in by_set_up.items():
        days = ", ".join(
            f"{min(loads):g} to {max(loads):g} on {date}" for date, loads in dates.items()
        )
        yield f"- {set_up} {days}."


def _log_axis(name: str, low: int, high: int) -> Axis:
    """Return an axis from ten to the power of `low` to that of `high`."""
    ticks = {(power - low) / (high - low): _tick(power) for power in range(low, high + 1)}
    return Axis(name, ticks)


def _tick(power: int) -> str:
    thousands = power // 3 * 3
    if thousands <= 0:
        return f"{10.0**power:g}"
    return f"{10 ** (power - thousands)}{_SHORT[thousands]}"


def _point(name: str, x: float, y: float, axes: tuple[int, int, int, int], unit: str) -> Point:
    left, right, low, high = axes
    return Point(
        name,
        (log10(x) - left) / (right - left),
        min(1.0, max(0.0, (log10(y) - low) / (high - low))),
        f"{name}, {x:,}: {y:,.3g} {unit}",
    )


def throughput_svg(recorded: Mapping[str, Any]) -> str:
    """Draw the spans a second of files of several sizes, for each shape of spans."""
    axes = (3, 6, 2, 6)
    rows, panels = recorded["rows"], dict[str, list[Point]]()
    for shape, largest in SPANS.items():
        panels[shape] = points = []
        for name, kind in (("looptrace", "values"), ("plain reader and loop", "plain")):
            small = rows.get("sizes", {}).get(kind, {})
            at = {size: small[f"{shape} {size}"] for size in SIZES if f"{shape} {size}" in small}
            if shape in rows:
                at[int(largest * rows[shape]["about"]["share"])] = rows[shape][kind][WALL]
            points += [
                _point(name, size, speed, axes, "spans/s") for size, speed in sorted(at.items())
            ]
        target = BY_NAME[shape].figures[WALL].target or 1.0
        points.append(_point("target", largest, target, axes, "spans/s"))
    return scatter_svg(
        panels, _log_axis("spans in the files", 3, 6), _log_axis("spans/s", 2, 6), lines=True
    )


def latency_svg(recorded: Mapping[str, Any]) -> str:
    """Draw what one more span and one more turn cost, by how many there were before."""
    axes = (1, 5, -2, 2)
    panels = {}
    for name, title, sizes in (
        ("span", "one more span of a trace", TRACE_SPANS),
        ("lengths", "one more turn of a task", TASK_TURNS),
    ):
        row = recorded["rows"].get(name, {})
        panels[title] = [
            _point(f"{who}, {part}", size, row[kind][f"{part} {size}"], axes, "ms")
            for who, kind in (("looptrace", "values"), ("plain reader and loop", "plain"))
            for part in ("p50", "p99")
            for size in sizes
            if f"{part} {size}" in row.get(kind, {})
        ]
    return scatter_svg(
        panels, _log_axis("spans or turns before it", 1, 5), _log_axis("ms CPU", -2, 2), lines=True
    )
