"""The turns that a loop keeps: their task and agent, their labels and their signatures."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import starmap
from typing import Any, Protocol

import msgspec
import polars as pl

from looptrace.analyzer.text.display import label
from looptrace.rules.turns import Codes

_HEX_DIGITS = 16
# `LoopRow.sign` of counted turns; "" where a turn has none.
SIGN = pl.coalesce(
    pl.col("signature").replace("", None), pl.col("response").str.slice(0, _HEX_DIGITS), pl.lit("")
)

# In these forms the signatures of turns with one name are alike. Other calls of one tool differ too
# much from one another.
_COARSE_FORMS = ("test-fail", "file", "search", "request")
# Kinds that do not say what failed.
_UNTYPED = (None, "unknown", "untold")


class LoopRow(msgspec.Struct, frozen=True, gc=False):
    """What a stretch keeps of one of its turns; the garbage collector does not track it.

    The sums are the tokens of its agent up to this turn, the totals those of its task.
    """

    task: str
    agent: str
    epoch: int
    resets_seen: int
    turn: int
    kind: str
    name: str | None
    arguments: str | None
    text: str | None
    phase: str | None
    phase_before: str | None
    trace_id: str
    span_id: str
    call_id: str | None
    session: str
    service: str | None
    start_ns: int
    end_ns: int
    failed: bool | None
    error: str | None
    error_type: str | None
    error_kind: str | None
    signature: str | None
    response: str | None
    input_tokens: int | None
    output_tokens: int | None
    input_tokens_sum: int
    output_tokens_sum: int
    input_tokens_total: int
    output_tokens_total: int

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the turn (`TURN_KEY`), with "" in place of None."""
        return self.trace_id, self.span_id, self.kind, self.call_id or ""

    @property
    def label(self) -> str:
        """The turn as a person would name it."""
        return label({name: getattr(self, name) for name in _LABELLED})

    @property
    def sign(self) -> str:
        """The signature of a call, else the hash of a response."""
        return self.signature or (self.response or "")[:_HEX_DIGITS]

    @property
    def sign_coarse(self) -> str:
        """Type and tool of a failure, form and tool of another call, or the receiver; else ""."""
        form = (self.signature or "").partition(":")[0]
        type_ = self.error_type or self.error_kind
        if form in _COARSE_FORMS:
            return f"{form}:{self.name}"
        return f"error:{type_}-{self.name}" if self.failed and type_ not in _UNTYPED else ""


_LABELLED = ("kind", "name", "arguments", "text", "phase")


class TurnReader(Protocol):
    """Reads counted turns at some rows: one column, or what a loop keeps of each."""

    def column(self, name: str, rows: Codes) -> list[Any]:
        """Return a column of the turns at these rows."""

    def turns(self, rows: Codes) -> Iterable[LoopRow]:
        """Return the turns at these rows."""


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads a table of counted turns."""

    table: pl.DataFrame

    def column(self, name: str, rows: Codes) -> list[Any]:
        """Return a column of the turns at these rows."""
        return self.table[name].gather(pl.Series(rows)).to_list()

    def turns(self, rows: Codes) -> Iterable[LoopRow]:
        """Return the turns at these rows."""
        return starmap(LoopRow, self.table.select(LoopRow.__struct_fields__)[rows].rows())
