"""Which new spans are stored now, and which wait because their session is long.

New spans of a session have all of its turns made again. If that happened with each few spans, a
session would cost more the longer it is. So its new spans wait in the log for a time that grows
with its length, and its turns take a small share of the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count
from queue import SimpleQueue

import polars as pl

from looptrace.analyzer.normalize.span_ties import tie_rows, with_ties
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.bounded_dict import BoundedDict
from looptrace.collector.server.ingest_log import Postponed, packed

# The turns of a stored span take some 0.1 ms, so that a session takes 0.2 percent of a core,
# however long it is.
WAIT_S_A_SPAN = 0.05
WAIT_S_MAX = 300.0
# Spans that wait are in memory, too, packed to some 200 bytes each. With more, none waits.
BYTES_MAX = 32 << 20
# Traces whose turns were made; the spans of a forgotten one do not wait.
TRACES_MAX = 100_000
_GROUP = "looptrace group"  # The column with the group of a span's trace.


@dataclass(frozen=True, slots=True)
class _Made:
    """The turns of a trace as they were last made: of how many spans, and when."""

    spans: int
    at_s: float


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Waiting spans of traces that belong together, their ties, and the row of the log before."""

    postponed: Postponed
    ties: pl.DataFrame  # `tie_rows`
    after_seq: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The spans that a round stores (with `SPAN_TIES_SCHEMA`), and the parts that wait then."""

    now: pl.DataFrame
    waiting: list[_Part]
    postponed: list[Postponed]  # of the round's own spans
    stored: list[int]  # numbers of parts


class Waiting:
    """The spans that wait, and when the turns of each trace were last made."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._made: BoundedDict[str, _Made] = BoundedDict(TRACES_MAX)
        self._numbers = count(1)

    def __len__(self) -> int:
        """Return how many spans wait."""
        return sum(part.postponed.row.spans for part in self._parts)

    def ties(self) -> list[pl.DataFrame]:
        """Return the ties (`tie_rows`) of the waiting spans."""
        return [part.ties for part in self._parts]

    def stored_seq(self, read_seq: int) -> int:
        """Return the row of the log up to which no span waits, if it was read up to a row."""
        return min((part.after_seq for part in self._parts), default=read_seq)

    def plan(
        self,
        came: pl.DataFrame,
        after_seq: int,
        groups: Mapping[str, str],
        asked: Collection[str] | None,
        now_s: float,
    ) -> Plan:
        """Plan a round with spans that came after a row of the log.

        They have the columns of SPAN_TIES_SCHEMA. `groups` has the group of each trace of theirs,
        of waiting spans and of all that they are tied to. Groups with an `asked` trace do not wait;
        none waits if that is None.
        """
        is_full = sum(len(part.postponed.row.body) for part in self._parts) > BYTES_MAX
        due = self._due(groups, None if is_full else asked, now_s)
        of_group = pl.col("trace_id").replace_strict(groups, return_dtype=pl.String)
        came = came.with_columns(of_group.alias(_GROUP))
        is_due = pl.col(_GROUP).is_in(due)
        ended = [part for part in self._parts if groups[part.ties["trace_id"][0]] in due]
        now = [came.filter(is_due).drop(_GROUP)]
        now += [with_ties(part.postponed.spans()) for part in ended]
        left = came.filter(~is_due).partition_by(_GROUP, include_key=False)
        postponed = [
            _Part(
                Postponed(next(self._numbers), packed(part.select(*SPAN_SCHEMA))),
                tie_rows(part),
                after_seq,
            )
            for part in left
        ]
        return Plan(
            pl.concat(now),
            [part for part in self._parts if part not in ended] + postponed,
            [part.postponed for part in postponed],
            [part.postponed.number for part in ended],
        )

    def carry_out(self, plan: Plan, made: Mapping[str, int], now_s: float) -> None:
        """Note a plan that was carried out; `made` has how many spans of a trace became turns."""
        self._parts = plan.waiting
        for trace_id, spans in made.items():
            self._made.pop(trace_id, None)
            self._made[trace_id] = _Made(spans, now_s)

    def _due(
        self, groups: Mapping[str, str], asked: Collection[str] | None, now_s: float
    ) -> set[str]:
        """Return the groups whose spans are stored now."""
        if asked is None:
            return set(groups.values())
        spans: dict[str, int] = defaultdict(int)
        made_s: dict[str, float] = {}
        for trace_id, group in groups.items():
            if made := self._made.get(trace_id):
                spans[group] += made.spans
                made_s[group] = max(made.at_s, made_s.get(group, made.at_s))
        waits_s = {group: min(spans[group] * WAIT_S_A_SPAN, WAIT_S_MAX) for group in made_s}
        waiting = {group for group, at_s in made_s.items() if now_s - at_s < waits_s[group]}
        return set(groups.values()) - waiting | {groups[each] for each in asked if each in groups}


class Asked:
    """Traces whose spans do not wait, because somebody wants to look at them in the store."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Collection[str] | None] = SimpleQueue()
        self._taken: list[Collection[str] | None] = []  # by this round
        self._before: list[Collection[str] | None] = []  # by the last one that worked

    def add(self, traces: Collection[str] | None) -> None:
        """Ask for traces, or by None for all, from any thread."""
        self._queue.put(traces)

    @property
    def is_new(self) -> bool:
        """Whether a trace was asked for since the last round."""
        return not self._queue.empty()

    def take(self) -> Collection[str] | None:
        """Return the traces for a round, or None for all."""
        while not self._queue.empty():
            self._taken.append(self._queue.get())
        names = [*self._before, *self._taken]
        return None if None in names else set[str]().union(*(each or () for each in names))

    def done(self) -> None:
        """Note that a round worked.

        The names are for the next one, too: the rules may have told of spans a moment before this
        round could see that they had.
        """
        self._before = [names for names in self._taken if names is not None]
        self._taken = []
