"""Points between 0 and 1 as an SVG picture of one panel or more; it holds no script."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

SIDE, GAP, COLUMNS = 220, 70, 3
LEGEND_LINE, RADIUS = 20, 5
TICKS: Mapping[float, str] = {0.0: "0.0", 0.5: "0.5", 1.0: "1.0"}
# Colours that colour-blind people can also distinguish (Okabe and Ito).
COLOURS = ("#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#777777", "#000000")


@dataclass(frozen=True, slots=True)
class Point:
    """One dot, in the colour of its name; `note` is shown where a mouse points at it."""

    name: str
    x: float
    y: float
    note: str = ""
    radius: float = RADIUS


@dataclass(frozen=True, slots=True)
class Axis:
    """The name of an axis, and its ticks: the label at each place between 0 and 1."""

    name: str
    ticks: Mapping[float, str] = field(default_factory=lambda: TICKS)


def scatter_svg(
    panels: Mapping[str, Sequence[Point]], x_axis: Axis, y_axis: Axis, *, lines: bool = False
) -> str:
    """Draw the points of each panel, by its title, and a legend below.

    `lines` joins the points of one name in their order.
    """
    names = list(dict.fromkeys(point.name for points in panels.values() for point in points))
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
    columns = min(COLUMNS, max(len(panels), 1))
    rows = -(-len(panels) // columns)
    width = columns * (SIDE + GAP) + GAP
    top = rows * (SIDE + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="{top + LEGEND_LINE * (len(names) + 1)}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for place, (title, points) in enumerate(panels.items()):
        row, column = divmod(place, columns)
        left, above = GAP + column * (SIDE + GAP), GAP + row * (SIDE + GAP)
        parts += [
            f'<g transform="translate({left},{above})">',
            *_frame(title, x_axis, y_axis),
            *(_lines(points, colours) if lines else ()),
            *_dots(points, colours),
            "</g>",
        ]
    for place, (name, colour) in enumerate(colours.items()):
        y = top + LEGEND_LINE * place
        parts.append(f'<circle cx="{GAP}" cy="{y - 4}" r="{RADIUS}" fill="{colour}"/>')
        parts.append(f'<text x="{GAP + 12}" y="{y}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _frame(title: str, x_axis: Axis, y_axis: Axis) -> list[str]:
    parts = [
        f'<rect width="{SIDE}" height="{SIDE}" fill="none" stroke="#999999"/>',
        f'<text y="-8" font-weight="bold">{escape(title)}</text>',
        f'<text x="{SIDE / 2}" y="{SIDE + 30}" text-anchor="middle">{x_axis.name}</text>',
        f'<text x="-38" y="{SIDE / 2}" text-anchor="middle" '
        f'transform="rotate(-90 -38 {SIDE / 2})">{y_axis.name}</text>',
    ]
    for place, text in x_axis.ticks.items():
        parts.append(
            f'<text x="{place * SIDE:g}" y="{SIDE + 14}" text-anchor="middle">{text}</text>'
        )
    for place, text in y_axis.ticks.items():
        parts.append(
            f'<text x="-6" y="{SIDE - place * SIDE + 4:g}" text-anchor="end">{text}</text>'
        )
    return parts


def _dots(points: Sequence[Point], colours: Mapping[str, str]) -> list[str]:
    return [
        f'<circle cx="{point.x * SIDE:.1f}" cy="{(1 - point.y) * SIDE:.1f}" '
        f'r="{point.radius:g}" fill="{colours[point.name]}" fill-opacity="0.8">'
        f"<title>{escape(point.note or point.name)}</title></circle>"
        for point in points
    ]


def _lines(points: Sequence[Point], colours: Mapping[str, str]) -> list[str]:
    return [
        f'<line x1="{start.x * SIDE:.1f}" y1="{(1 - start.y) * SIDE:.1f}" '
        f'x2="{end.x * SIDE:.1f}" y2="{(1 - end.y) * SIDE:.1f}" stroke="{colours[end.name]}"/>'
        for start, end in pairwise(points)
        if start.name == end.name
    ]
