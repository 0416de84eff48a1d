"""Points between 0 and 1 as an SVG picture of one panel or more; it holds no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

SIDE, GAP, COLUMNS = 220, 70, 3
LEGEND_LINE, RADIUS = 20, 5
TICKS = (0.0, 0.5, 1.0)
# Told apart also by people who do not see all colours (Okabe and Ito).
COLOURS = ("#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#777777", "#000000")


@dataclass(frozen=True, slots=True)
class Point:
    """One dot, in the colour of its name; `note` is shown where a mouse points at it."""

    name: str
    x: float
    y: float
    note: str = ""
    radius: float = RADIUS


def scatter_svg(panels: Mapping[str, Sequence[Point]], x_name: str, y_name: str) -> str:
    """Draw the points of each panel, by its title, and below all what the colours stand for."""
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
            *_panel(title, points, colours, x_name, y_name),
        ]
        parts += ["</g>"]
    for place, (name, colour) in enumerate(colours.items()):
        y = top + LEGEND_LINE * place
        parts.append(f'<circle cx="{GAP}" cy="{y - 4}" r="{RADIUS}" fill="{colour}"/>')
        parts.append(f'<text x="{GAP + 12}" y="{y}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    title: str, points: Sequence[Point], colours: Mapping[str, str], x_name: str, y_name: str
) -> list[str]:
    parts = [
        f'<rect width="{SIDE}" height="{SIDE}" fill="none" stroke="#999999"/>',
        f'<text y="-8" font-weight="bold">{escape(title)}</text>',
        f'<text x="{SIDE / 2}" y="{SIDE + 30}" text-anchor="middle">{x_name}</text>',
        f'<text x="-30" y="{SIDE / 2}" text-anchor="middle" '
        f'transform="rotate(-90 -30 {SIDE / 2})">{y_name}</text>',
    ]
    for tick in TICKS:
        along = tick * SIDE
        parts.append(f'<text x="{along}" y="{SIDE + 14}" text-anchor="middle">{tick}</text>')
        parts.append(f'<text x="-6" y="{SIDE - along + 4}" text-anchor="end">{tick}</text>')
    parts += [
        f'<circle cx="{point.x * SIDE:.1f}" cy="{(1 - point.y) * SIDE:.1f}" '
        f'r="{point.radius:g}" fill="{colours[point.name]}" fill-opacity="0.8">'
        f"<title>{escape(point.note or point.name)}</title></circle>"
        for point in points
    ]
    return parts
