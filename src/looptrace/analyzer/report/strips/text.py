"""The strip of a task in text: a character a turn, and marks above and below, without colour."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.report.strip import BAR, BARS, MARKS, RANKS, mark_of
from looptrace.analyzer.schema.turns import IS_STEP

# The most steps of a round with a letter each; all turns of a longer round have the first.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LABELS_WIDTH = len("decided ")
# A turn between those of a loop.
_BETWEEN = "·"


@dataclass(frozen=True, slots=True)
class _Signs:
    """One character for each thing that a strip shows."""

    bars: dict[str, str]
    marks: dict[str, str]
    failed: str


_UNICODE = _Signs(
    {"tool": "█", "model": "│", "silence": "░", "handoff": "→", "attempt": "▒"},
    {"gate": "■", "pivot": "◆", "warn": "▲", "person": "●", "reset": "○"},
    "✗",
)
_ASCII = _Signs(
    {"tool": "#", "model": "|", "silence": ".", "handoff": ">", "attempt": "="},
    {"gate": "G", "pivot": "V", "warn": "W", "person": "P", "reset": "R"},
    "x",
)


def text_strip(
    turns: pl.DataFrame,
    findings: Sequence[Finding],
    events: Iterable[GateEvent],
    width: int,
    *,
    ascii_only: bool,
) -> list[str]:
    """Return the turns of one task (`TURN_SCHEMA`, in order) in lines of at most so many columns.

    A column stands for several turns where there are more turns than columns.
    """
    signs = _ASCII if ascii_only else _UNICODE
    turns = turns.filter(IS_STEP)
    if turns.is_empty():
        return []
    per_column = -(-turns.height // max(1, width - _LABELS_WIDTH))
    columns = -(-turns.height // per_column)
    at = {number: row // per_column for row, number in enumerate(turns["turn"].to_list())}
    kinds, failed, loops, decided = ([""] * columns for _ in range(4))
    for number, kind, is_failed in turns.select("turn", BAR, "failed").iter_rows():
        place = at[number]
        kinds[place] = max(kind, kinds[place] or RANKS[0], key=RANKS.index)
        failed[place] = failed[place] or (signs.failed if is_failed else "")
    for finding in reversed(findings):  # The strongest finding decides how a turn is shown.
        for place, letter in _letters(finding, at):
            loops[place] = letter
    order = list(MARKS)
    for event in events:
        if (where := at.get(event.turn)) is not None:
            decided[where] = max(mark_of(event), decided[where] or order[0], key=order.index)
    rows = {
        "loop": loops,
        "turns": [signs.bars[kind] for kind in kinds],
        "failed": failed,
        "decided": [signs.marks.get(mark, "") for mark in decided],
    }
    return [*_lines(rows), _legend(signs, kinds, decided, per_column, is_loop=any(loops))]


def loop_strip(finding: Finding, failed: Collection[int], width: int) -> list[str]:
    """Return the stretch of a loop in lines of at most so many columns, without its turns.

    Turns between those of the loop are only counted; `failed` are turns known to have failed.
    """
    count = finding.turn_last - finding.turn_first + 1
    per_column = -(-count // max(1, width - _LABELS_WIDTH))
    at = {finding.turn_first + place: place // per_column for place in range(count)}
    loops = [_BETWEEN] * (at[finding.turn_last] + 1)
    for place, letter in _letters(finding, at):
        loops[place] = letter
    failures = [""] * len(loops)
    for turn in failed:
        if turn in at:
            failures[at[turn]] = _UNICODE.failed
    lines = _lines({"loop": loops, "failed": failures})
    several = f", {per_column} turns a column" if per_column > 1 else ""
    legend = f"turns {finding.turn_first}–{finding.turn_last}, a repeats A{several}"
    return [*lines, f"{'':<{_LABELS_WIDTH}}{legend}"]


def _lines(rows: Mapping[str, Sequence[str]]) -> list[str]:
    """Write rows of cells, each after its label; an empty one is left out."""
    return [
        f"{name:<{_LABELS_WIDTH}}{''.join(cell or ' ' for cell in row).rstrip()}"
        for name, row in rows.items()
        if any(row)
    ]


def _letters(finding: Finding, at: dict[int, int]) -> Iterable[tuple[int, str]]:
    """Return the letters of a loop's columns: capitals for the first turns, small for repeats."""
    period = finding.period if finding.period <= len(_LETTERS) else 1
    for index, turn in reversed(list(enumerate(finding.turns))):
        if (place := at.get(turn.turn)) is not None:
            letter = _LETTERS[index % period]
            yield place, letter if turn.role == "first" else letter.lower()


def _legend(
    signs: _Signs, bars: list[str], decided: list[str], per_column: int, *, is_loop: bool
) -> str:
    parts = [f"{signs.bars[kind]} {BARS[kind]}" for kind in BARS if kind in bars]
    parts += [f"{signs.marks[mark]} {MARKS[mark]}" for mark in MARKS if mark in decided]
    parts += ["a repeats A"] if is_loop else []
    parts += [f"{per_column} turns a column"] if per_column > 1 else []
    return f"{'':<{_LABELS_WIDTH}}{', '.join(parts)}"
