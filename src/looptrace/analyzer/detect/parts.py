"""Counts of turns within parts of a table: of a task, an epoch, an agent, a phase, a call."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import Any

import numpy as np

from looptrace.rules.turns import Codes, Figures, Flags

Columns = dict[str, Any]  # arrays of one length by the names of columns, one element a turn


def changes(*columns: Codes) -> Flags:
    """Mark the first row, and rows that differ from the row before in any of the columns."""
    starts = np.ones(len(columns[0]), dtype=np.bool_)
    starts[1:] = columns[0][1:] != columns[0][:-1]
    for column in columns[1:]:
        starts[1:] |= column[1:] != column[:-1]
    return starts


class Parts:
    """Turns in parts; counts are made within each part.

    A part is a run of adjacent rows from one that `starts` on, or the rows of `only` with equal
    keys. NumPy does the counting, because a Polars window for each count takes ten times as long.
    """

    def __init__(
        self,
        rows: Columns,
        starts: Flags | None = None,
        by: Sequence[Codes] = (),
        only: Codes | None = None,
    ) -> None:
        self._rows = rows
        self.order: Codes | None = None
        if starts is None:
            keys = list(by) if only is None else [key[only] for key in by]
            order = np.lexsort(keys[::-1])
            starts = changes(*(key[order] for key in keys))
            self.order = order if only is None else only[order]
        self.starts = starts
        self.number = np.cumsum(starts)
        self.first = starts.nonzero()[0][self.number - 1]

    def sorted(self, values: Any) -> Any:
        """Return values of all rows, ordered part by part."""
        return values if self.order is None else values[self.order]

    def by_row(self, values: Any) -> Any:
        """Return values of the parts' rows in the order of all rows; 0 for rows in no part."""
        if self.order is None:
            return values
        result = np.zeros(len(self._rows["task"]), dtype=values.dtype)
        result[self.order] = values
        return result

    def count(self, **what: Any) -> None:
        """Set columns to the running sums of the values under their names, within each part."""
        totals = self._onwards(what)
        if self.order is not None:
            ordered, totals = totals, np.zeros((len(what), len(self._rows["task"])), np.int64)
            totals[:, self.order] = ordered
        self._rows |= zip(what, totals, strict=True)

    def _onwards(self, what: Columns) -> Codes:
        """Return a row of running sums for each column; one call for all is as fast as for one."""
        new = np.array([self.sorted(each) for each in what.values()], dtype=np.int64)
        total: Codes = new.cumsum(axis=1)
        total -= (total - new)[:, self.first]
        return total

    def since(self, **what: tuple[Flags, Flags]) -> None:
        """Set columns to the count since the last row that ends it, and to the count before.

        The rows of each part must be adjacent.
        """
        counted, ends = zip(*what.values(), strict=True)
        totals = self._onwards(dict(zip(what, counted, strict=True)))
        before = self._last_mark(np.where(ends, totals, 0))
        self._rows |= zip((f"{name}_before" for name in what), before, strict=True)
        self._rows |= zip(what, totals - before, strict=True)

    def _last_mark(self, marks: Codes) -> Codes:
        """Return for each row of marks the greatest mark of the part up to each place."""
        apart = self.number * (marks.max(initial=0) + 1)
        last: Codes = np.maximum.accumulate(marks + apart, axis=1) - apart
        return last

    def last(self, holds: Flags) -> Codes:
        """Return the last place of the part, up to each place, where `holds` is set; -1 without."""
        places = np.maximum.accumulate(np.where(holds, np.arange(len(holds)), -1))
        return np.where(places < self.first, -1, places)

    def best(self, name: str, sign: int) -> Figures:
        """Return the best figure of the part before each row, else NaN.

        A higher figure is better; with -1 as the sign, a lower one is.
        """
        figures = self._rows[name]
        worst = -inf * sign
        ordered = self.sorted(figures)
        values, ranks = np.unique(np.where(np.isnan(ordered), worst, ordered), return_inverse=True)
        apart = self.number * len(values)
        ranks = ranks if sign > 0 else len(values) - 1 - ranks
        ranks = np.maximum.accumulate(ranks + apart) - apart
        so_far = values[ranks if sign > 0 else len(values) - 1 - ranks]
        so_far = np.where(so_far == worst, nan, so_far)
        before = np.where(self.starts, nan, np.roll(so_far, 1))
        result = np.full(len(self._rows["task"]), nan)
        result[self.order] = before
        return result

    def before(self, places: Codes) -> Codes:
        """Return the value of the place before each one in its part; -1 at the first."""
        result = np.full_like(places, -1)
        result[1:] = np.where(self.starts[1:], -1, places[:-1])
        return result
