"""What a server acknowledged before it started and has not judged, the newest tasks first.

Spans that share a trace, a session, a task or a link are judged together, so that what is decided
of a task rests on all of its turns.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from looptrace.analyzer.normalize.span_ties import tie_rows, with_ties
from looptrace.analyzer.normalize.span_tree import groups
from looptrace.analyzer.schema.spans import SPAN_SCHEMA


class Backlog:
    """A piece of the log in groups of spans that are tied together."""

    def __init__(self, spans: pl.DataFrame) -> None:
        """Group spans (`SPAN_SCHEMA`)."""
        self.spans_left = spans.height
        self._group_of = groups(tie_rows(with_ties(spans)).iter_rows())
        group = pl.col("trace_id").replace_strict(self._group_of, return_dtype=pl.String)
        newest = pl.col("end_ns").max().over("group")
        ordered = spans.with_columns(group=group).with_columns(newest=newest)
        ordered = ordered.sort("newest", "group", descending=True, maintain_order=True)
        parts = ordered.drop("newest").partition_by(
            "group", as_dict=True, include_key=False, maintain_order=True
        )
        self._parts = {str(name): part for (name,), part in parts.items()}

    def names(self) -> set[str]:
        """Return the traces, sessions and tasks that spans are left of."""
        return {name for name, group in self._group_of.items() if group in self._parts}

    def take(self, spans_max: int, tied_to: pl.DataFrame) -> pl.DataFrame:
        """Take the groups that some spans are tied to, and the newest others up to a number."""
        named = tie_rows(with_ties(tied_to))
        taken = self._pop(self._group_of.get(name, "") for name in named["tie"])
        taken_spans = sum(part.height for part in taken)
        for name in list(self._parts):
            if taken_spans >= spans_max:
                break
            taken += self._pop([name])
            taken_spans += taken[-1].height
        self.spans_left -= taken_spans
        return pl.concat([SPAN_SCHEMA.to_frame(), *taken])

    def _pop(self, names: Iterable[str]) -> list[pl.DataFrame]:
        return [self._parts.pop(name) for name in names if name in self._parts]
