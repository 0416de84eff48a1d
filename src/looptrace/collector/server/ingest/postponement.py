"""Which new spans are stored now, and which wait because their session is long.

New spans of a session have all of its turns made again. If that happened with each few spans, a
session would cost more the longer it is. So its new spans wait in the log for a time that grows
with its length, and its turns take a small share of the time.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from queue import SimpleQueue

import polars as pl

from looptrace.analyzer.fields.dialect_table import SHIPPED, DialectTable
from looptrace.analyzer.normalize.span_ties import tie_rows, with_ties
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.bounded_dict import BoundedDict
from looptrace.collector.server.ingest.packed_spans import Postponed, packed

# The turns of a stored span take some 0.1 ms, so that a session of up to 6,000 spans takes 0.2
# percent of a core. Longer sessions cost more, because the wait is capped at five minutes.
WAIT_S_A_SPAN = 0.05
WAIT_S_MAX = 300.0
# Spans that wait are in memory, too, packed to 200 to 600 bytes each. With more, none waits.
BYTES_MAX = 32 << 20
# Traces whose turns were made; the spans of a forgotten one do not wait.
TRACES_MAX = 100_000
_TIES = {"trace_id": pl.String, "tie": pl.String, "number": pl.Int64}


@dataclass(frozen=True, slots=True)
class _Made:
    """The turns of a trace as they were last made: of how many spans, and when."""

    spans: int
    at_s: float


@dataclass(frozen=True, slots=True)
class _PostponedPart:
    """Waiting spans of a group, one of its traces, and the row of the log before the spans."""

    postponed: Postponed
    trace_id: str
    after_seq: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The spans that a round stores (with `SPAN_TIES_SCHEMA`), and the parts that wait then."""

    now: pl.DataFrame
    waiting: list[_PostponedPart]
    ties: pl.DataFrame  # of the parts
    postponed: list[Postponed]  # of the round's own spans
    stored: list[int]  # numbers of parts


class WaitingSpans:
    """The spans that wait, and when the turns of each trace were last made."""

    def __init__(self, dialects: DialectTable = SHIPPED) -> None:
        self._dialects = dialects  # by which the names of spans are read
        self._parts: list[_PostponedPart] = []
        # The ties of the waiting spans (`tie_rows`), with the number of their part.
        self._ties = pl.DataFrame(schema=_TIES)
        self._made: BoundedDict[str, _Made] = BoundedDict(TRACES_MAX)
        self._numbers = count(1)

    def __len__(self) -> int:
        return sum(part.postponed.row.spans for part in self._parts)

    @property
    def ties(self) -> pl.DataFrame:
        """The ties (`tie_rows`) of the waiting spans."""
        return self._ties.drop("number")

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
        is_due = pl.col("trace_id").replace_strict(groups, return_dtype=pl.String).is_in(due)
        ended = [part for part in self._parts if groups[part.trace_id] in due]
        numbers = [part.postponed.number for part in ended]
        waited = [SPAN_SCHEMA.to_frame(), *(part.postponed.spans() for part in ended)]
        parts, ties = self._parts_of(came.filter(~is_due), groups, after_seq)
        return Plan(
            pl.concat([came.filter(is_due), with_ties(pl.concat(waited), self._dialects)]),
            [part for part in self._parts if groups[part.trace_id] not in due] + parts,
            pl.concat([self._ties.filter(~pl.col("number").is_in(numbers)), ties]),
            [part.postponed for part in parts],
            numbers,
        )

    def _parts_of(
        self, spans: pl.DataFrame, groups: Mapping[str, str], after_seq: int
    ) -> tuple[list[_PostponedPart], pl.DataFrame]:
        """Return a part of each group of spans, and the ties of all with the number of the part."""
        numbers: dict[str, int] = defaultdict(partial(next, self._numbers))
        of_trace = {trace_id: numbers[groups[trace_id]] for trace_id in spans["trace_id"].unique()}
        number = pl.col("trace_id").replace_strict(of_trace).cast(pl.Int64)
        parted = spans.with_columns(number=number).partition_by("number", as_dict=True)
        parts = [
            _PostponedPart(
                Postponed(int(n), packed(p.select(*SPAN_SCHEMA))), p["trace_id"][0], after_seq
            )
            for (n,), p in parted.items()
        ]
        return parts, tie_rows(spans).with_columns(number=number)

    def carry_out(self, plan: Plan, made: Mapping[str, int], now_s: float) -> None:
        """Note a plan that was carried out; `made` has how many spans of a trace became turns."""
        self._parts, self._ties = plan.waiting, plan.ties
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


class AskedTraces:
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

        The names are kept for the next one, because an event may name spans that this round could
        not read yet.
        """
        self._before = [names for names in self._taken if names is not None]
        self._taken = []
