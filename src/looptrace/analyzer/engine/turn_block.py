"""The turns that a live engine holds: rows of numbers for the rules, and what loops keep.

A tick has few turns, so one call of Polars would cost more than all the work for them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import astuple

from looptrace import _core
from looptrace._core import CountedTurn
from looptrace.analyzer.detect.counters import RESETS
from looptrace.analyzer.detect.evaluate import Seen
from looptrace.analyzer.detect.loop_rows import LoopRow
from looptrace.analyzer.detect.ruleset import Override, RuleSet
from looptrace.analyzer.fingerprint.similarity import meanings_of
from looptrace.analyzer.gates.timeline import TaskReset, reset_of
from looptrace.analyzer.schema import columns as schema
from looptrace.analyzer.schema.turns import AT, TURN_SCHEMA, Turn
from looptrace.rules.turns import KINDS, Codes, Flags, Turns

__all__ = [
    "AT",
    "TurnBlock",
    "reader_of",
    "reset_at",
    "rows_of",
    "seen_of",
    "table_of",
    "turns_of",
]

# The columns that rules see, as they stand in a row of numbers.
_COLUMNS = dict(_core.COLUMNS[: _core.COLUMNS_SEEN])
_ROW = np.dtype(
    {
        "names": [*_COLUMNS],
        "formats": [*_COLUMNS.values()],
        "offsets": np.cumsum([0, *(np.dtype(kind).itemsize for kind in _COLUMNS.values())])[
            :-1
        ].tolist(),
        "itemsize": _core.ROW_BYTES,
    }
)
# With more rows than fit into a processor's cache, columns are read faster one by one.
_FEW_ROWS = 1_000

_KEPT = LoopRow.__struct_fields__
_COUNTED = [name for name in _KEPT if name == "turn" or name not in {*TURN_SCHEMA, "phase_before"}]
_SAME = [name for name in _KEPT if name in TURN_SCHEMA and name not in _COUNTED]
_same_of = itemgetter(*(AT[name] for name in _SAME))
_counted_of = attrgetter(*_COUNTED, "phase_before_text")
_in_order = itemgetter(*((*_SAME, *_COUNTED, "phase_before").index(name) for name in _KEPT))
_reset_about = itemgetter(
    *(AT[name] for name in ("trace_id", "span_id", "call_id", "kind", "name", "text"))
)


@dataclass(slots=True)
class TurnBlock:
    """Counted turns of one task in order: the numbers of each, and what a loop keeps of it."""

    numbers: bytearray = field(default_factory=bytearray)
    rows: list[LoopRow] = field(default_factory=list)
    texts: list[str | None] = field(default_factory=list)  # of the kinds that rules read

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, turn: Turn, one: CountedTurn, kinds_read: Collection[str]) -> None:
        """Add a turn that was counted."""
        self.numbers += one.numbers()
        row = LoopRow(*_in_order((*_same_of(turn), *_counted_of(one))))
        self.rows.append(row)
        self.texts.append(_text(turn) if row.kind in kinds_read else None)

    def cut(self, count: int) -> None:
        """Keep only the first `count` turns."""
        del self.numbers[count * _core.ROW_BYTES :], self.rows[count:], self.texts[count:]

    def keep(self, places: Sequence[int], count: int) -> None:
        """Keep the turns at these places among the first `count`, and all turns after those."""
        size = _core.ROW_BYTES
        kept = (self.numbers[place * size : (place + 1) * size] for place in places)
        self.numbers = bytearray().join((*kept, self.numbers[count * size :]))
        self.rows = [*(self.rows[place] for place in places), *self.rows[count:]]
        self.texts = [*(self.texts[place] for place in places), *self.texts[count:]]

    def frame(self) -> pl.DataFrame:
        """Return a table of the columns of the turns that findings and gates show."""
        names = {column.name: column.dtype for column in schema.COUNTED} | dict(TURN_SCHEMA)
        shown = {name: names[name] for name in _KEPT}
        return pl.DataFrame(list(map(astuple, self.rows)), shown, orient="row")


def rows_of(table: pl.DataFrame) -> list[Turn]:
    """Return the rows of turns (`TURN_SCHEMA`)."""
    names = TURN_SCHEMA.names()
    # A selection that changes nothing takes as long as a rule does.
    return (table if table.columns == names else table.select(names)).rows()


def reset_at(turn: Turn, one: CountedTurn) -> TaskReset | None:
    """Return the reset at a turn that was counted, with its task; None without one."""
    if not one.reset:
        return None
    reason = RESETS[one.reset - 1]
    about = _reset_about(turn)
    return reset_of(turn[AT["task"]], one.turn, one.end_ns, reason, *about)


def table_of(blocks: Sequence[TurnBlock], counts: Sequence[int]) -> npt.NDArray[Any]:
    """Return the numbers of the first turns of each of several tasks."""
    parts = zip(blocks, counts, strict=True)
    size = _core.ROW_BYTES
    written = b"".join(memoryview(block.numbers)[: count * size] for block, count in parts)
    return np.frombuffer(written, _ROW)


def turns_of(table: npt.NDArray[Any], counts: Sequence[int], **other: Any) -> Turns:
    """Return the columns of the turns of several tasks; `counts` has the number for each."""
    numbers: dict[str, Any] = {name: table[name] for name in _COLUMNS if name != "searches"}
    if len(table) > _FEW_ROWS:
        numbers = {name: np.ascontiguousarray(column) for name, column in numbers.items()}
    return Turns(
        task=np.repeat(np.arange(len(counts)), counts), **{"texts": (), **other}, **numbers
    )


def seen_of(
    blocks: Sequence[TurnBlock], fresh: Flags, rule_set: RuleSet, kinds: Collection[str]
) -> Seen:
    """Return what the rules see of counted turns; some turns are `fresh`.

    `kinds` are the kinds of turn with texts that the rules read.
    """
    counts = list(map(len, blocks))
    table = table_of(blocks, counts)
    other: dict[str, Any] = {}
    if any(KINDS[kind] in kinds for kind in np.unique(table["kind"][fresh]).tolist()):
        other["texts"] = tuple(chain.from_iterable(block.texts for block in blocks))
    if not rule_set.meaning and not rule_set.overrides:
        return Seen(turns_of(table, counts, **other), [])
    rows = list(chain.from_iterable(block.rows for block in blocks))
    if rule_set.meaning:
        other["meanings"] = meanings_of(_requests(rows, table), rule_set.meaning)
    fits = [_fits(rows, table, override) for override in rule_set.overrides]
    return Seen(turns_of(table, counts, **other), fits)


def _text(turn: Turn) -> str | None:
    """Return the output of a turn, as `columns` does for a table."""
    kind = turn[AT["kind"]]
    names = ("text",) if kind in ("model", "handoff") else ("error", "result")
    text: str | None = next((turn[AT[n]] for n in names if turn[AT[n]] is not None), None)
    return text


def _requests(rows: Sequence[LoopRow], table: npt.NDArray[Any]) -> pl.DataFrame:
    names = ("kind", "name", "arguments")
    columns = {name: [getattr(row, name) for row in rows] for name in names}
    coded = {name: table[name].copy() for name in ("searches", "external")}
    coded["outcome_code"] = table["outcome"].copy()
    return pl.DataFrame(
        columns | coded, schema_overrides={name: TURN_SCHEMA[name] for name in names}
    )


def _fits(rows: Sequence[LoopRow], table: npt.NDArray[Any], override: Override) -> Flags:
    """Mark the turns that an override is for; an unknown value of a turn fits none."""
    fits = np.ones(len(rows), dtype=np.bool_)
    for selector, value in override.selectors.items():
        if selector == "tool":
            fits &= np.array([row.kind == "tool" and row.name == value for row in rows])
        else:
            fits &= table[selector] == _core.code_of(value)
    return fits


@dataclass(frozen=True, slots=True)
class BlockReader:
    """Reads the turns that are held, which have what loops keep of them."""

    rows: Sequence[LoopRow]

    def column(self, name: str, rows: Codes) -> list[Any]:
        """Return a column of the turns at these rows."""
        return [getattr(self.rows[row], name) for row in rows.tolist()]

    def turns(self, rows: Codes) -> Sequence[LoopRow]:
        """Return the turns at these rows."""
        return [self.rows[row] for row in rows.tolist()]


def reader_of(blocks: Sequence[TurnBlock]) -> BlockReader:
    """Return a reader of the turns of several tasks, one after the other."""
    if len(blocks) == 1:
        return BlockReader(blocks[0].rows)
    return BlockReader(list(chain.from_iterable(block.rows for block in blocks)))
