"""Makes the diagrams of docs/concepts.md as SVG, in the colours that a reader's browser prefers."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

_STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2933 }
.small { font-size: 12px; fill: #52606d }
.bold { font-weight: 600 }
.middle { text-anchor: middle }
.ground { fill: #ffffff }
.box { fill: #eef2f6; stroke: #52606d }
.line { fill: none; stroke: #52606d; marker-end: url(#head) }
.life { stroke: #9aa5b1; stroke-dasharray: 4 4 }
.head { fill: #52606d }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb }
  .small { fill: #b5bfca }
  .ground { fill: #1f232b }
  .box { fill: #323a47; stroke: #9aa5b1 }
  .line { stroke: #9aa5b1 }
  .life { stroke: #616e7c }
  .head { fill: #9aa5b1 }
}
"""
_HEAD = (
    '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
    'orient="auto"><path class="head" d="M0 0L10 5L0 10z"/></marker>'
)
_LINE_HEIGHT = 17


class Box(NamedTuple):
    """A state, with its name in the first line; x and y are of its upper left corner."""

    x: int
    y: int
    lines: tuple[str, ...]
    width: int = 170
    height: int = 56


class Arrow(NamedTuple):
    """A transition along some points, and its label, with the place of the first line's middle."""

    path: str
    x: int
    y: int
    lines: tuple[str, ...]


_STATES = (
    Box(20, 90, ("task is active", "turns are counted")),
    Box(20, 270, ("pivot issued", "find another approach")),
    Box(330, 90, ("gate is open", "the task waits")),
    Box(640, 90, ("gate is resolved", "with decision and note")),
    Box(330, 270, ("gate is withdrawn", "the task is active")),
)
_TRANSITIONS = (
    Arrow("M190 118H328", 259, 92, ("a rung is", "a gate")),
    Arrow("M500 118H638", 569, 92, ("a person", "decides")),
    Arrow("M725 90V40H105V88", 415, 30, ("all counts of the task begin anew",)),
    Arrow("M70 146V268", 36, 190, ("a rung", "is a", "pivot")),
    Arrow("M140 270V148", 186, 214, ("the agent", "goes on")),
    Arrow("M190 285L348 148", 294, 262, ("pivots are used up",)),
    Arrow("M400 146V268", 362, 194, ("late spans", "show no", "loop")),
    Arrow("M450 270V148", 514, 200, ("other late spans", "show it again")),
)

_LIVES = ("agent", "server", "store", "you")
# From one lifeline to another, and what is sent; within one lifeline, what is done there.
_MESSAGES = (
    (0, 1, "a span that ended (OTLP)"),
    (1, 1, "writes it to the ingest log"),
    (1, 0, "acknowledged"),
    (1, 1, "makes turns, evaluates rules"),
    (1, 2, "event, gate and outbox"),
    (1, 0, "notice: stop"),
    (1, 3, "webhook: gate_opened"),
    (3, 1, "decision and note"),
    (1, 2, "resolution"),
    (1, 0, "notice: go on, with the note"),
    (1, 3, "webhook: gate_resolved"),
)
_GAP, _LEFT, _TOP, _STEP = 240, 70, 70, 38


def gate_states() -> str:
    """Return the states of a gate and of its task between pivots."""
    about = "States of a task and its gate: active, pivot issued, gate open, resolved, withdrawn."
    return _svg(830, 350, about, [*map(_box, _STATES), *map(_arrow, _TRANSITIONS)])


def turn_to_webhook() -> str:
    """Return what happens between the end of a span and the decision on its gate."""
    height = _TOP + _STEP * len(_MESSAGES) + 20
    width = 2 * _LEFT + _GAP * (len(_LIVES) - 1)
    about = "Messages between agent, server, store and you, from a span to a webhook and back."
    return _svg(width, height, about, [*_lives(height), *_messages()])


def _svg(width: int, height: int, about: str, parts: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">',
            f"<title>{escape(about)}</title>",
            f"<style>{_STYLE}</style>",
            f"<defs>{_HEAD}</defs>",
            f'<rect class="ground" width="{width}" height="{height}" rx="8"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _text(x: int, y: int, text: str, kind: str = "middle") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>'


def _box(box: Box) -> str:
    x, y = box.x + box.width // 2, box.y + 24
    name, about = box.lines
    return "\n".join(
        [
            f'<rect class="box" x="{box.x}" y="{box.y}" width="{box.width}" '
            f'height="{box.height}" rx="6"/>',
            _text(x, y, name, "middle bold"),
            _text(x, y + _LINE_HEIGHT + 2, about, "middle small"),
        ]
    )


def _arrow(arrow: Arrow) -> str:
    texts = [
        _text(arrow.x, arrow.y + _LINE_HEIGHT * place, line, "middle small")
        for place, line in enumerate(arrow.lines)
    ]
    return "\n".join([f'<path class="line" d="{arrow.path}"/>', *texts])


def _lives(height: int) -> Iterator[str]:
    for place, name in enumerate(_LIVES):
        x = _LEFT + _GAP * place
        yield f'<line class="life" x1="{x}" y1="46" x2="{x}" y2="{height - 14}"/>'
        yield f'<rect class="box" x="{x - 50}" y="14" width="100" height="32" rx="6"/>'
        yield _text(x, 35, name, "middle bold")


def _messages() -> Iterator[str]:
    for place, (source, target, text) in enumerate(_MESSAGES):
        x, to, y = _LEFT + _GAP * source, _LEFT + _GAP * target, _TOP + _STEP * place + 14
        if source == target:
            yield f'<path class="line" d="M{x} {y - 10}h20v18h-18"/>'
            yield _text(x + 28, y + 4, text, "small")
        else:
            yield f'<path class="line" d="M{x} {y}H{to - 2 if to > x else to + 2}"/>'
            # Between two lifelines, also where the arrow crosses a third.
            yield _text(max(x, to) - _GAP // 2, y - 6, text, "middle small")
