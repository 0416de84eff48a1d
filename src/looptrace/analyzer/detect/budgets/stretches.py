"""The responses at which budgets fire, as stretches like those of rules."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from msgspec import structs

from looptrace._core import code_of
from looptrace.analyzer.detect.budgets.ledger import Crossing, Ledger
from looptrace.analyzer.detect.loop_rows import LoopRow, TurnReader
from looptrace.analyzer.detect.stretches import Stretch, StretchRows, read_stretches
from looptrace.rules.turns import Turns
from looptrace.rules.vocabulary import SOFT_PERCENT


def crossings_at(
    ledger: Ledger, rows: npt.NDArray[np.int64], reader: TurnReader
) -> dict[int, Sequence[Crossing]]:
    """Return the budgets that fire at these rows."""
    found: dict[int, Sequence[Crossing]] = {}
    for row, turn in zip(rows.tolist(), reader.turns(rows), strict=True):
        if fires := ledger.fires(turn.task).get(turn.key):
            found[row] = fires
    return found


def budget_stretches(
    turns: Turns, reader: TurnReader, crossings: Mapping[int, Sequence[Crossing]]
) -> list[Stretch]:
    """Return the stretches of the budgets that fire at some rows, of each task and between resets.

    The signature of such a stretch is the name of its budget, so that the gates of all tasks that
    spend from it are one incident.
    """
    if not crossings:
        return []
    rows = np.array([*crossings], dtype=np.int64)
    of: dict[tuple[str, int, str], list[tuple[int, Crossing]]] = {}
    for (row, fires), turn in zip(crossings.items(), reader.turns(rows), strict=True):
        for crossing in fires:
            key = (turn.task, turn.resets_seen, crossing.rule.title)
            of.setdefault(key, []).append((row, crossing))
    members = [_rows_of(title, fired) for (_, _, title), fired in of.items()]
    titles = [title for _, _, title in of]
    stretches = read_stretches(turns, reader, members)
    return [
        replace(stretch, first=tuple(_named(row, title) for row in stretch.first))
        for stretch, title in zip(stretches, titles, strict=True)
    ]


def _rows_of(title: str, fired: Sequence[tuple[int, Crossing]]) -> StretchRows:
    rows = np.array([row for row, _ in fired], dtype=np.int64)
    return StretchRows(
        period=1,
        what=code_of(title),
        rows=rows,
        fired=rows,
        rules=[crossing.rule for _, crossing in fired],
        needed=[SOFT_PERCENT] * len(fired),
        counted=[crossing.percent for _, crossing in fired],
        outlasts_completion=True,
    )


def _named(row: LoopRow, title: str) -> LoopRow:
    return structs.replace(row, signature=title)
