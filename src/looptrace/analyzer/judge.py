"""Turns to stretches: rules applied to columns, and their verdicts joined to loops.

Batch and live both come through here, batch with whole tasks and live with the ends of those that
changed. A stretch is a maximal run of firing turns of one lane, with all turns that belong to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from looptrace.analyzer.fingerprint import digest
from looptrace.analyzer.labels import label
from looptrace.rules.contract import Rule, Verdict
from looptrace.rules.turns import UNKNOWN, Lane, Mask, Turns

_CODES = ("agent", "call", "outcome", "signature", "response")
_HEX_DIGITS = 16
_SUMS = ("input_tokens", "output_tokens")


class LoopRow(NamedTuple):
    """What a stretch keeps of one of its turns; the sums are the agent's tokens up to it."""

    task: str
    agent: str
    epoch: int
    turn: int
    kind: str
    name: str | None
    arguments: str | None
    text: str | None
    phase: str | None
    trace_id: str
    span_id: str
    call_id: str | None
    session: str
    start_ns: int
    end_ns: int
    failed: bool | None
    signature: str | None
    response: str | None
    input_tokens: int | None
    output_tokens: int | None
    input_tokens_sum: int
    output_tokens_sum: int

    @property
    def label(self) -> str:
        """The turn as a person names it."""
        return label({name: getattr(self, name) for name in _LABELLED})

    @property
    def sign(self) -> str:
        """The signature of a call, else the hash of a response."""
        return self.signature or (self.response or "")[:_HEX_DIGITS]


_LABELLED = ("kind", "name", "arguments", "text", "phase")

Key = tuple[str, str, str, int, int, int]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A loop as one rule sees it: which lane, what repeats, and the turns in their order."""

    rule: Rule
    task: str
    agent: str
    epoch: int
    period: int
    what: int
    rows: tuple[LoopRow, ...]

    @property
    def key(self) -> Key:
        """What two parts of one loop have in common."""
        return (self.rule.name, self.task, self.agent, self.epoch, self.period, self.what)

    def joined(self, later: Stretch) -> Stretch:
        """Return both as one; turns that both have count once."""
        known = self.rows[-1].turn
        return Stretch(
            *(self.rule, self.task, self.agent, self.epoch, self.period, self.what),
            self.rows + tuple(row for row in later.rows if row.turn > known),
        )


def folded(
    opened: dict[Key, Stretch], found: Sequence[Stretch]
) -> tuple[dict[Key, Stretch], list[Stretch]]:
    """Continue open stretches with later ones; returns those still open, and those that ended.

    A stretch of the same key continues an open one if it begins within it, else it ends it.
    """
    still, ended = dict(opened), []
    for stretch in found:
        before = still.get(stretch.key)
        continues = before and stretch.rows[0].turn <= before.rows[-1].turn
        if before and not continues:
            ended.append(before)
        still[stretch.key] = before.joined(stretch) if before and continues else stretch
    return still, ended


def coded(turns: pl.DataFrame) -> pl.DataFrame:
    """Add to turns the integer codes that rules compare (`*_code`, 0 where unknown)."""
    return turns.with_columns(_code(turns[name]).alias(f"{name}_code") for name in _CODES)


def counted(turns: pl.DataFrame) -> pl.DataFrame:
    """Add to ordered turns what counts from a task's start: `epoch`, and tokens by agent."""
    epoch = (pl.col("kind") == "user").cum_sum().cast(pl.Int64).over("task")
    sums = [
        pl.col(name).fill_null(0).cum_sum().over("task", "agent").alias(f"{name}_sum")
        for name in _SUMS
    ]
    return turns.with_columns(epoch.alias("epoch"), *sums)


def stretches(
    table: pl.DataFrame, rules: Sequence[Rule], fresh: Mask | None = None
) -> list[Stretch]:
    """Apply the rules to turns that are ordered, coded and counted.

    `fresh` says which rows to judge; the others only serve to look back on.
    """
    turns = columns(table)
    lanes = {spec: turns.lane(spec) for spec in {rule.lane for rule in rules}}
    found: list[Stretch] = []
    for rule in rules:
        lane = lanes[rule.lane]
        verdict = rule.judge(lane)
        fires = verdict.fires if fresh is None else verdict.fires & fresh[lane.rows]
        members = list(_members(lane, verdict, np.flatnonzero(fires)))
        found += _stretches(table, rule, lane, verdict, members)
    return found


def _code(texts: pl.Series) -> pl.Series:
    """Give equal texts one code; texts that are hashes already are read as numbers."""
    distinct = texts.drop_nulls().unique()
    hashed = texts.name in ("call", "outcome", "response")
    codes = [int((t if hashed else digest(t))[:_HEX_DIGITS], 16) or 1 for t in distinct]
    values = pl.Series(codes, dtype=pl.UInt64).reinterpret(signed=True)
    return texts.replace_strict(distinct, values, default=UNKNOWN, return_dtype=pl.Int64)


def columns(table: pl.DataFrame) -> Turns:
    """Return turns that are ordered, coded and counted as the columns that rules see."""
    codes = {name: table[f"{name}_code"].to_numpy() for name in _CODES}
    return Turns(
        task=table["task"].rle_id().cast(pl.Int64).to_numpy(),
        epoch=table["epoch"].to_numpy(),
        kind=table["kind"].to_physical().cast(pl.Int64).to_numpy(),
        **codes,
    )


def _members(
    lane: Lane, verdict: Verdict, fires: npt.NDArray[np.int64]
) -> Iterator[npt.NDArray[np.int64]]:
    """Join the firing turns of a lane to stretches, and yield the positions of each one's turns.

    A firing turn continues the stretch of its kind if the loop that it sees began within it.
    """
    if not len(fires):
        return
    lane_start, period = fires - lane.position[fires], verdict.period[fires]
    what = np.where(period == 1, verdict.what[fires], UNKNOWN)
    order = np.lexsort((fires, what, period, lane_start))
    fires = fires[order]
    since = fires - verdict.length[fires] + 1
    begins = np.ones(len(fires), dtype=np.bool_)
    begins[1:] = since[1:] > fires[:-1]
    for column in (lane_start[order], period[order], what[order]):
        begins[1:] |= column[1:] != column[:-1]
    borders = [*np.flatnonzero(begins).tolist(), len(fires)]
    for start, end in pairwise(borders):
        span = np.arange(since[start], fires[end - 1] + 1)
        if period[order[start]] == 1:
            span = span[verdict.what[span] == verdict.what[fires[start]]]
        yield span


def _stretches(
    table: pl.DataFrame,
    rule: Rule,
    lane: Lane,
    verdict: Verdict,
    members: list[npt.NDArray[np.int64]],
) -> list[Stretch]:
    """Read the turns of all stretches out of the table at once."""
    if not members:
        return []
    turns = pl.Series(lane.rows[np.concatenate(members)])
    # Column by column, because that is several times as fast as row by row.
    read = [table[name].gather(turns).to_list() for name in LoopRow._fields]
    rows = map(LoopRow._make, zip(*read, strict=True))
    found = []
    for positions in members:
        mine = tuple(islice(rows, len(positions)))
        period = int(verdict.period[positions[-1]])
        found.append(
            Stretch(
                rule,
                task=mine[0].task,
                agent=mine[0].agent if rule.lane.by == "agent" else "",
                epoch=mine[0].epoch,
                period=period,
                what=int(verdict.what[positions[-1]]) if period == 1 else UNKNOWN,
                rows=mine,
            )
        )
    return found
