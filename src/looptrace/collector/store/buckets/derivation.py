"""The turns and findings of a bucket from its spans, in any process."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice, pairwise
from pathlib import Path

import numpy as np
import polars as pl

from looptrace.analyzer.detect.budgets.ledger import SPENDING_COLUMNS, Ledger
from looptrace.analyzer.engine.analysis import Money
from looptrace.analyzer.engine.batch import Detection, detect
from looptrace.analyzer.engine.detection_source import detection_source
from looptrace.analyzer.engine.parts import tied_parts
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.fingerprint.fingerprints import fingerprint_source
from looptrace.analyzer.gates.events import with_service_versions
from looptrace.analyzer.gates.resolutions import Resolution, with_decisions
from looptrace.analyzer.normalize.span_ties import joined_names
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.service_versions import versions_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.schema.turns import BY_TURN, IS_USER, numbered
from looptrace.analyzer.tuning.loop_money import loop_money
from looptrace.collector.store.buckets.evaluated import EvaluatedBucket, evaluated_of
from looptrace.collector.store.buckets.placement import SPANS_AT_ONCE, Traces
from looptrace.collector.store.buckets.spending import StoreLedger
from looptrace.collector.store.tables.file_contents import Having
from looptrace.collector.store.tables.finding_rows import finding_table
from looptrace.collector.store.tables.parquet import (
    STORED_SPAN_SCHEMA,
    bucket_files,
    empty_of,
    files_in_buckets,
    read_bucket,
    read_buckets,
    rows_of,
)
from looptrace.collector.store.tables.replacement import NewRows, batches, replace_rows
from looptrace.engines import in_threads

# Files of buckets are read together up to so many rows; few of them may be asked for.
SPANS_READ = 5 * SPANS_AT_ONCE


@dataclass(frozen=True, slots=True)
class ChangedBucket:
    """A bucket to be derived again, from these traces; all that they are tied to are among them."""

    number: int
    traces: Traces


@dataclass(frozen=True, slots=True)
class Derived:
    """The result of deriving a bucket again: its tasks, and what was detected in them.

    `spans` has the number of spans of each trace.
    """

    bucket: int
    spans: dict[str, int]
    tasks: set[str]
    detection: Detection  # without its findings, which are written
    joined_names: dict[str, str]  # tasks of sessions that several services share
    money: Money | None  # by gate, what its loop had cost; None without prices
    evaluated: EvaluatedBucket | None  # None where the bucket has findings of another source


@dataclass(frozen=True, slots=True)
class _Read:
    """The spans of a bucket from which its turns are derived again."""

    bucket: ChangedBucket
    spans: pl.DataFrame  # with the columns of SPAN_TIES_SCHEMA


@dataclass(frozen=True, slots=True)
class Derivation:
    """The derivation of turns and findings from the spans of a store, and its earlier notes."""

    store_dir: Path
    policy: DetectionPolicy
    resolutions: Sequence[Resolution]
    evaluated: Mapping[int, EvaluatedBucket]
    spending: StoreLedger
    threads: int  # that share the making of turns
    spans: Mapping[int, pl.DataFrame]  # by bucket, all spans of some traces, as they are stored

    def of(self, buckets: Sequence[ChangedBucket]) -> Iterator[Derived]:
        """Derive the turns and findings of traces again from their spans, bucket by bucket.

        Small buckets are normalised together, because each call costs as much as some hundred
        spans. They share no task, so that their turns do not depend on each other.

        Raises:
            StoreError: if a file cannot be read or written.
        """
        ledger = Ledger(self.policy.budgets, None)
        # The next turns are made while findings are looked for in the last ones and written.
        parts = in_threads(self._with_turns, self._read(buckets), 1)
        if self.policy.budgets.limits:  # Tasks of several buckets may spend from one budget.
            first = list(islice(parts, 2))
            for together, turns in chain(first, parts):
                ledger = self.spending.replace(turns, self._stored(together))
            # A server's round has one part, whose turns are not made again.
            again = in_threads(self._with_turns, self._read(buckets), 1)
            parts = iter(first) if len(first) == 1 else again
        for together, turns in parts:
            detection = detect(turns, self.policy, ledger)
            yield from self._write(together, _turns_by_bucket(together, turns), detection)

    def _read(self, buckets: Sequence[ChangedBucket]) -> Iterator[list[_Read]]:
        """Yield the spans of buckets, of small ones together."""
        waiting: list[_Read] = []
        for changed, spans in self._spans_of(buckets):
            waiting.append(_Read(changed, spans))
            if sum(read.spans.height for read in waiting) >= SPANS_AT_ONCE:
                yield waiting
                waiting = []
        if waiting:
            yield waiting

    def _spans_of(
        self, buckets: Sequence[ChangedBucket]
    ) -> Iterator[tuple[ChangedBucket, pl.DataFrame]]:
        """Yield the spans of buckets; small files are read together, and no trace that is held."""
        unread = {each.number: _of(self._unread(each)) for each in buckets}
        files = {number: bucket_files(self.store_dir, "spans", number) for number in unread}
        having = files_in_buckets(files, unread)

        def rows_in(changed: ChangedBucket) -> int:
            return self._held(changed).height + sum(map(rows_of, having[changed.number]))

        for batch in batches(buckets, rows_in, SPANS_READ):
            read = read_buckets(
                self.store_dir, "spans", {b.number: unread[b.number] for b in batch}
            )
            yield from ((each, pl.concat([read[each.number], self._held(each)])) for each in batch)

    def _held(self, changed: ChangedBucket) -> pl.DataFrame:
        """Return the spans of a bucket that need not be read."""
        nothing = empty_of(STORED_SPAN_SCHEMA)
        return nothing if changed.traces is None else self.spans.get(changed.number, nothing)

    def _unread(self, changed: ChangedBucket) -> Traces:
        """Return the traces of a bucket whose spans are to be read."""
        if changed.traces is None:
            return None
        return changed.traces.difference(self._held(changed)["trace_id"].to_list())

    def _stored(self, buckets: Sequence[_Read]) -> pl.DataFrame:
        """Return of the turns that are derived again what a ledger reads, as they are stored."""
        return pl.concat(
            read_bucket(
                self.store_dir,
                "turns",
                each.bucket.number,
                [*SPENDING_COLUMNS],
                _of(each.bucket.traces),
            )
            for each in buckets
        )

    def _with_turns(self, buckets: list[_Read]) -> tuple[list[_Read], pl.DataFrame]:
        """Return some buckets and their turns.

        The remarks of normalising concern how spans are read, not whether they are stored;
        `analyze` reports them.
        """
        sameness = self.policy.sameness
        parts = tied_parts(pl.concat([read.spans for read in buckets]))
        how = (sameness, self.policy.dialects, self.threads)
        made = [turns_of(part.select(list(SPAN_SCHEMA)), *how)[0] for part in parts]
        return buckets, numbered(with_decisions(pl.concat(made), self.resolutions, sameness))

    def _write(
        self, buckets: Sequence[_Read], made: Sequence[pl.DataFrame], detection: Detection
    ) -> Iterator[Derived]:
        """Replace the stored rows of the traces of buckets by these turns and their findings."""
        of = {read.bucket.number: _of(read.bucket.traces) for read in buckets}
        stored = read_buckets(self.store_dir, "turns", of, ["task", "trace_id"])
        before, own = list[EvaluatedBucket](), list[Detection]()
        source = detection_source(self.policy)
        tasks, gone = list[set[str]](), list[Having | None]()
        spans = pl.concat([read.spans for read in buckets])
        detection = _with_versions(detection, spans)
        for read, turns in zip(buckets, made, strict=True):
            mine, number = {*turns["task"].to_list()}, read.bucket.number
            tasks.append(mine | {*stored[number]["task"].to_list()})
            # A whole bucket keeps nothing, so that findings that an earlier version left go, too.
            of_tasks = Having("task", pl.Series(list(tasks[-1]), dtype=pl.String))
            gone.append(None if read.bucket.traces is None else of_tasks)
            own.append(_of_tasks(detection, mine))
            before.append(evaluated_of(self.store_dir, number, source))
        order = ("task", "turn_first", "turn_last", "rule", "id")
        new = dict(zip(of, map(NewRows, gone, *_finding_rows(own, made)), strict=True))
        findings_more = replace_rows(self.store_dir, "findings", new, order)
        # The turns come last, because after a kill they say which tasks a bucket had.
        new = dict(zip(of, map(NewRows, gone, made, [t["start_ns"] for t in made]), strict=True))
        made_with = fingerprint_source(self.policy.sameness)
        turns_more = replace_rows(self.store_dir, "turns", new, BY_TURN, made_with)
        names = joined_names(spans, self.policy.sameness.sessions)
        for at, read in enumerate(buckets):
            bucket, had = read.bucket.number, before[at]
            after = had._replace(
                turns=had.turns + turns_more[bucket], findings=had.findings + findings_more[bucket]
            )
            noted = self.evaluated.get(bucket)  # The new spans are there already.
            is_known = after.turns == made[at].height or (
                noted is not None and noted._replace(spans=had.spans) == had
            )
            yield Derived(
                bucket=bucket,
                spans=dict(Counter(read.spans["trace_id"].to_list())),
                tasks=tasks[at],
                detection=replace(own[at], findings=()),
                joined_names=names,
                money=self._money(own[at], made[at]),
                evaluated=after if is_known else None,
            )

    def _money(self, detection: Detection, turns: pl.DataFrame) -> Money | None:
        """Return what the loops of gates had cost at their openings."""
        gates = {event.gate for event in detection.events if event.type == "gate_opened"}
        openings = detection.openings.items()
        loops = [replace(loop, id=gate) for gate, loop in openings if gate in gates]
        prices = self.policy.rule_set.counting.prices
        return loop_money(loops, turns, prices) if prices and loops else None


def _finding_rows(
    detections: Sequence[Detection], turns: Sequence[pl.DataFrame]
) -> tuple[Sequence[pl.DataFrame], Sequence[pl.Series]]:
    """Return the findings of each bucket as rows, and the starts of their first turns."""
    findings = finding_table([finding for each in detections for finding in each.findings])
    starts = pl.concat(turns).filter(~IS_USER).select("task", "start_ns", turn_first="turn")
    on = ["task", "turn_first"]
    started = findings.join(starts.unique(on), on=on, how="left", maintain_order="left")["start_ns"]
    ends = [0, *accumulate(len(each.findings) for each in detections)]
    places = [slice(*each) for each in pairwise(ends)]
    return [findings[each] for each in places], [started[each] for each in places]


def _turns_by_bucket(buckets: Sequence[_Read], turns: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the turns of each bucket: those of tasks with a turn in one of its traces."""
    place = "looptrace place"
    at = np.repeat(np.arange(len(buckets)), [each.spans.height for each in buckets])
    trace_ids = pl.concat([each.spans["trace_id"] for each in buckets])
    traces = pl.DataFrame([trace_ids, pl.Series(place, at)]).lazy().unique()
    tasks = turns.lazy().select("task", "trace_id").unique().join(traces, on="trace_id")
    tasks = tasks.select("task", place).unique()
    every = turns.lazy().join(tasks, on="task", maintain_order="left").collect()
    placed = every.partition_by(place, as_dict=True, include_key=False)
    return [placed.get((each,), turns.clear()) for each in range(len(buckets))]


def _of(traces: Traces) -> Having | None:
    """Return the condition that a row belongs to one of the traces of a bucket."""
    return None if traces is None else Having("trace_id", pl.Series(list(traces), dtype=pl.String))


def _of_tasks(detection: Detection, tasks: set[str]) -> Detection:
    return Detection(
        findings=tuple(finding for finding in detection.findings if finding.task in tasks),
        events=tuple(event for event in detection.events if event.task in tasks),
        states=tuple(state for state in detection.states if state.task in tasks),
        openings=detection.openings,
    )


def _with_versions(detection: Detection, spans: pl.DataFrame) -> Detection:
    traces = {event.trace_id for event in detection.events if event.type == "gate_opened"}
    if not traces:
        return detection
    spans = spans.filter(pl.col("trace_id").is_in(list(traces)))
    versions = versions_of(spans.sort("trace_id", "start_ns", "span_id"))
    return replace(detection, events=tuple(with_service_versions(detection.events, versions)))
