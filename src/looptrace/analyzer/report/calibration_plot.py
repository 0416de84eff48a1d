"""The picture of a model's calibration: an SVG that holds no script and loads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_SIZE_PX = 320
_MARGIN_PX = 48
_FONT_PX = 12
_RADIUS_PX = (3, 14)  # of the fewest and of the most turns
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def calibration_svg(bins: Sequence[Mapping[str, Any]]) -> str:
    """Draw what was predicted against what came; the larger a dot, the more turns it stands for."""
    most = max((one["turns"] for one in bins), default=1)
    least, span = _RADIUS_PX[0], _RADIUS_PX[1] - _RADIUS_PX[0]
    dots = [
        f'<circle cx="{_x(one["predicted"]):.1f}" cy="{_y(one["observed"]):.1f}"'
        f' r="{least + span * (one["turns"] / most) ** 0.5:.1f}" fill="#2f6fb0"'
        f' fill-opacity="0.7"><title>{one["turns"]} turns: {one["predicted"]} predicted,'
        f" {one['observed']} observed</title></circle>"
        for one in bins
    ]
    whole = _SIZE_PX + 2 * _MARGIN_PX
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {whole}" role="img"'
            f' font-family="sans-serif" font-size="{_FONT_PX}">',
            "<title>Calibration: probability predicted, and how often it came true</title>",
            f'<rect width="{whole}" height="{whole}" fill="#fff"/>',
            f'<path d="M{_x(0)} {_y(0)}L{_x(1)} {_y(1)}" stroke="#999" stroke-dasharray="4 4"/>',
            f'<path d="M{_x(0)} {_y(1)}V{_y(0)}H{_x(1)}" fill="none" stroke="#333"/>',
            *_axes(),
            *dots,
            "</svg>",
            "",
        ]
    )


def _axes() -> list[str]:
    below, left = _y(0) + _MARGIN_PX / 3, _x(0) - _FONT_PX / 2
    marks = [
        text
        for tick in _TICKS
        for text in (
            f'<text x="{_x(tick)}" y="{below}" text-anchor="middle">{tick:g}</text>',
            f'<text x="{left}" y="{_y(tick) + _FONT_PX / 3}" text-anchor="end">{tick:g}</text>',
        )
    ]
    middle = _x(0.5)
    names = [
        f'<text x="{middle}" y="{below + 1.5 * _FONT_PX}" text-anchor="middle">predicted</text>',
        f'<text transform="translate({_FONT_PX} {_y(0.5)}) rotate(-90)" text-anchor="middle">'
        "observed</text>",
    ]
    return marks + names


def _x(share: float) -> float:
    return _MARGIN_PX + share * _SIZE_PX


def _y(share: float) -> float:
    return _MARGIN_PX + (1 - share) * _SIZE_PX
