"""The turns that a live engine holds: as rows of numbers, which rules and counts are made of.

A tick has few turns, so that each call of Polars would cost more than all that is to be done. The
columns are the same as those of the counted table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from looptrace.analyzer.detect.columns import encode_few
from looptrace.analyzer.detect.counters import (
    NEVER_NS,
    RESETS,
    Counting,
    continue_counters,
)
from looptrace.analyzer.detect.evaluate import Seen
from looptrace.analyzer.detect.loop_rows import Gather, LoopRow
from looptrace.analyzer.detect.parts import Columns
from looptrace.analyzer.detect.phases import own_figures
from looptrace.analyzer.detect.ruleset import Override, RuleSet
from looptrace.analyzer.fingerprint.similarity import meanings_of
from looptrace.analyzer.fingerprint.single_turns import Turn
from looptrace.analyzer.gates.timeline import TaskReset, reset_of
from looptrace.analyzer.schema.columns import CODED, COUNTED
from looptrace.analyzer.schema.turns import TURN_SCHEMA, ordered
from looptrace.rules.turns import KINDS, Codes, Flags, Turns

# Places of the columns of a turn.
AT = {name: place for place, name in enumerate(TURN_SCHEMA)}

_FORMATS = {pl.Int64(): "i8", pl.Boolean(): "?", pl.Float64(): "f8"}
_CODED = {column.name for column in CODED}
_COUNTED = ["turn", *(column.name for column in COUNTED if column.dtype in _FORMATS)]
_FIGURES = ("tests_failed", "tests_total", "coverage")
_TIMES = ("start_ns", "end_ns", "order_ns", "phase_start_ns")
_OWN = ("kind", *_TIMES, "markers", "input_tokens", "output_tokens")
# One row of numbers: what is coded and counted of a turn, and its own numbers.
_ROW = np.dtype(
    [(name, "i8") for name in (*_OWN, "turn")]
    + [(name, "f8") for name in _FIGURES]
    + [("failed", "?")]
    + [
        (column.name, _FORMATS[column.dtype])
        for column in (*CODED, *COUNTED)
        if column.dtype in _FORMATS
    ],
    align=True,
)
# The columns of more rows than fit into a processor's cache are read faster one by one.
_FEW_ROWS = 1_000
# Rows are copied as bytes, because NumPy copies them field by field else.
_BYTES = np.dtype((np.void, _ROW.itemsize))
_FIELDS: dict[str, str] = {
    field.name: field.name if field.name in (_ROW.names or ()) else f"{field.name}_code"
    for field in fields(Turns)
    if field.name not in ("task", "texts", "meanings")
}

_PLACES = {name: place for place, name in enumerate(LoopRow._fields)}
_SAME = [name for name in LoopRow._fields if name in TURN_SCHEMA and name != "turn"]
_same_of = itemgetter(*(AT[name] for name in _SAME))
_ADDED = [name for name in LoopRow._fields if name in _COUNTED]
_in_order = itemgetter(*((*_SAME, *_ADDED, "phase_before").index(name) for name in LoopRow._fields))
# What is compared to put turns in their order, and what a gate shows of them.
_ORDERED_BY = ("end_ns", "trace_id", "step", "call", "outcome", "start_ns", "span_id", "call_id")
_SHOWN = ("error",)


@dataclass(frozen=True, slots=True)
class TurnBlock:
    """Turns in their order: of each the numbers, the turn, and, once counted, its `LoopRow`."""

    bytes: npt.NDArray[np.void]  # of the rows of numbers
    turns: list[Turn]
    rows: list[LoopRow | None]

    def __len__(self) -> int:
        return len(self.turns)

    @property
    def numbers(self) -> npt.NDArray[Any]:
        """The rows of numbers; they are written to."""
        return self.bytes.view(_ROW)

    def take(self, places: Codes) -> TurnBlock:
        """Return the turns of these places."""
        chosen = places.tolist()
        return TurnBlock(
            self.bytes[places],
            [self.turns[place] for place in chosen],
            [self.rows[place] for place in chosen],
        )

    def part(self, start: int, end: int) -> TurnBlock:
        """Return the turns between two places."""
        return TurnBlock(self.bytes[start:end], self.turns[start:end], self.rows[start:end])

    def columns(self) -> Columns:
        """Return the columns by their names."""
        numbers = self.numbers
        columns = {name: numbers[name] for name in _ROW.names or ()}
        if len(self) <= _FEW_ROWS:
            return columns
        return {name: np.ascontiguousarray(column) for name, column in columns.items()}

    def frame(self) -> pl.DataFrame:
        """Return counted turns as a table of what findings and gates show of them."""
        names = [*LoopRow._fields, *_SHOWN]
        schema = {column.name: column.dtype for column in COUNTED} | dict(TURN_SCHEMA)
        shown = [AT[name] for name in _SHOWN]
        rows = [
            (*(row or ()), *(turn[place] for place in shown))
            for row, turn in zip(self.rows, self.turns, strict=True)
        ]
        return pl.DataFrame(rows, {name: schema[name] for name in names}, orient="row")

    def resets(self, among: Flags) -> Iterator[TaskReset]:
        """Yield the resets at some of counted turns, with their task."""
        codes = self.numbers["reset_code"]
        for place in (among & (codes != 0)).nonzero()[0].tolist():
            row: Any = self.rows[place]
            reason = RESETS[int(codes[place]) - 1]
            about = (row.trace_id, row.span_id, row.call_id, row.kind, row.name, row.text)
            yield reset_of(row.task, row.turn, row.end_ns, reason, *about)


EMPTY = TurnBlock(np.zeros(0, _BYTES), [], [])


def rows_of(table: pl.DataFrame) -> list[Turn]:
    """Return the rows of turns (`TURN_SCHEMA`)."""
    names = TURN_SCHEMA.names()
    # A selection that changes nothing takes as long as a rule.
    return (table if table.columns == names else table.select(names)).rows()


def encoded(turns: Sequence[Turn]) -> TurnBlock:
    """Return turns with their codes, not yet counted."""
    columns = dict(zip(TURN_SCHEMA, zip(*turns, strict=True), strict=True))
    numbers = np.zeros(len(turns), _ROW)
    for name, codes in encode_few(columns).items():
        if name in _CODED:
            numbers[name] = codes
    for name in ("start_ns", "end_ns"):
        numbers[name] = columns[name]
    numbers["phase_start_ns"] = [
        NEVER_NS if value is None else value for value in columns["phase_start_ns"]
    ]
    for name in ("markers", "input_tokens", "output_tokens"):
        numbers[name] = [value or 0 for value in columns[name]]
    for name in _FIGURES:
        numbers[name] = [np.nan if value is None else value for value in columns[name]]
    numbers["kind"] = [KINDS.index(kind) for kind in columns["kind"]]
    numbers["failed"] = [value is True for value in columns["failed"]]
    return TurnBlock(numbers.view(_BYTES), list(turns), [None] * len(turns))


def joined(blocks: Sequence[TurnBlock]) -> TurnBlock:
    """Return the turns of all blocks, one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    turns: list[Turn] = []
    rows: list[LoopRow | None] = []
    for block in blocks:
        turns += block.turns
        rows += block.rows
    return TurnBlock(np.concatenate([block.bytes for block in blocks]), turns, rows)


def put_in_order(blocks: Sequence[TurnBlock]) -> list[TurnBlock]:
    """Sort the turns of each block, which is of a task of its own, and set their `order_ns`."""
    block = joined(blocks)
    sizes = [len(each) for each in blocks]
    number = np.repeat(np.arange(len(blocks)), sizes)
    table = pl.DataFrame(
        {name: [turn[AT[name]] for turn in block.turns] for name in _ORDERED_BY}
        | {"task": number, "row": np.arange(len(block))},
        schema_overrides={name: TURN_SCHEMA[name] for name in _ORDERED_BY},
    )
    table = ordered(table)
    block = block.take(table["row"].to_numpy())
    block.numbers["order_ns"] = table["order_ns"].to_numpy()
    ends = np.cumsum(sizes).tolist()
    return [block.part(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def count_on(block: TurnBlock, task: Codes, settled: Flags, how: Counting) -> None:
    """Count turns of several tasks on from those before them, which are `settled`."""
    rows = block.columns() | {"task": task, "settled": settled}
    phases = (turn[AT["phase"]] for turn in block.turns)
    metrics = (turn[AT["metrics"]] for turn in block.turns)
    rows["own_figure"] = own_figures(len(block), phases, metrics, how.converging)
    before = continue_counters(rows, how)
    numbers = block.numbers
    for name in _COUNTED:
        numbers[name] = rows[name]
    places = (~settled).nonzero()[0]
    counts = zip(*(rows[name][places].tolist() for name in _ADDED), strict=True)
    for place, counted in zip(places.tolist(), counts, strict=True):
        turn = block.turns[place]
        phase = _phase_before(block, int(before[place]))
        block.rows[place] = LoopRow._make(_in_order((*_same_of(turn), *counted, phase)))


def _phase_before(block: TurnBlock, before: int) -> str | None:
    if before < 0:
        return None
    phase: str | None = block.turns[before][AT["phase"]]
    row = block.rows[before]
    return phase if phase is not None or row is None else row.phase_before


def seen_of(
    block: TurnBlock, task: Codes, fresh: Flags, rule_set: RuleSet, kinds: Collection[str]
) -> Seen:
    """Return what the rules see of counted turns, of which some are `fresh`.

    `kinds` are those whose texts the rules read.
    """
    turns = turns_of(block, task)
    if any(KINDS[kind] in kinds for kind in np.unique(turns.kind[fresh]).tolist()):
        turns = replace(turns, texts=tuple(_text(turn, kinds) for turn in block.turns))
    if rule_set.meaning:
        turns = replace(turns, meanings=meanings_of(_requests(block), rule_set.meaning))
    return Seen(turns, [_fits(block, override) for override in rule_set.overrides])


def turns_of(block: TurnBlock, task: Codes) -> Turns:
    """Return the columns of counted turns without texts and meanings."""
    columns = block.columns()
    numbers: dict[str, Any] = {name: columns[column] for name, column in _FIELDS.items()}
    return Turns(task=task, texts=(), **numbers)


def _text(turn: Turn, kinds: Collection[str]) -> str | None:
    """Return what a turn of these kinds put out, as `columns` does for a table."""
    kind = turn[AT["kind"]]
    if kind not in kinds:
        return None
    names = {"model": ("text",), "handoff": ("arguments",)}.get(kind, ("error", "result"))
    text: str | None = next((turn[AT[n]] for n in names if turn[AT[n]] is not None), None)
    return text


def _requests(block: TurnBlock) -> pl.DataFrame:
    names = ("kind", "name", "arguments")
    table = {name: [turn[AT[name]] for turn in block.turns] for name in names}
    coded = {name: block.numbers[name] for name in ("searches", "external", "outcome_code")}
    return pl.DataFrame(table | coded, schema_overrides={name: TURN_SCHEMA[name] for name in names})


def _fits(block: TurnBlock, override: Override) -> Flags:
    """Mark the turns that an override is for; what a turn does not say fits none."""
    fits = np.ones(len(block), dtype=np.bool_)
    for selector, value in override.selectors.items():
        place = AT["name" if selector == "tool" else selector]
        fits &= np.array([turn[place] == value for turn in block.turns], dtype=np.bool_)
    if override.tool is not None:
        fits &= block.numbers["kind"] == KINDS.index("tool")
    return fits


def gather_from(block: TurnBlock) -> Gather:
    """Return how counted turns are read."""
    rows: list[Any] = block.rows
    return lambda name, places: [rows[place][_PLACES[name]] for place in places.tolist()]
