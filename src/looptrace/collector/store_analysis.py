"""Analysis of a store, bucket by bucket, by any engine that works on buckets.

If the store made the findings of a bucket with the same settings and code, only tasks with findings
are evaluated again; for other tasks only their counts are read.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import polars as pl

from looptrace.analyzer.detect.budgets.ledger import Ledger
from looptrace.analyzer.detect.loops import loops_in
from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.batch import (
    analysis_of,
    counts_of,
    joined,
    of_loops,
    summary_of,
)
from looptrace.analyzer.engine.detection_source import detection_source
from looptrace.analyzer.engine.outages import (
    CALL_COLUMNS,
    calls_to_explain,
    failures_of,
    with_outages,
)
from looptrace.analyzer.fields.dialect_table import DialectTable
from looptrace.analyzer.fingerprint.equivalence import Sameness
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.normalize.understanding import Understood
from looptrace.analyzer.report.wording import shown_of
from looptrace.analyzer.schema.compaction import compacted
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.analyzer.settings.sections import Settings
from looptrace.collector.store import reader
from looptrace.collector.store.buckets.evaluated import is_evaluated_by
from looptrace.collector.store.buckets.spending import stored_ledger
from looptrace.collector.store.objects.snapshot import snapshot_of
from looptrace.collector.store.tables.parquet import read_bucket, scan_bucket
from looptrace.engines import Engine

# A store may have millions of spans. This many are enough to name those that no dialect knows.
SPANS_LOOKED_AT_MIN = 10_000

R = TypeVar("R")

KeptTurns: TypeAlias = Literal["all", "shown", "none"]


@dataclass(frozen=True, slots=True)
class _BucketAnalysis:
    """The findings of a bucket; the turns are those of tasks with findings."""

    analysis: Analysis
    sessions: pl.Series
    failures: pl.DataFrame


def analyse_store(
    store_dir: Path, settings: Settings, engine: Engine = map, turns: KeptTurns = "all"
) -> Analysis:
    """Find the loops of a store by these settings, whatever rules its findings were made with.

    `engine` does the work on each bucket, like `map`; the work and the buckets can be pickled.
    The analysis has the turns of all tasks with findings, of those with loops that a report shows,
    or none; memory hardly grows with the store unless it has all.
    """
    spans = reader.count_spans(store_dir)
    columns = tuple(TURN_SCHEMA) if turns == "all" else CALL_COLUMNS
    ledger = stored_ledger(store_dir, settings.policy)
    work = partial(_analysis_of_bucket, settings, columns, ledger)
    found = list(engine(work, reader.buckets(store_dir)))
    sessions = pl.concat(bucket.sessions for bucket in found).n_unique()
    whole = joined([bucket.analysis for bucket in found], sessions, spans)
    failures = pl.concat(bucket.failures for bucket in found)
    whole = with_outages(whole, failures, settings.outages)
    if snapshot_of(store_dir) is None:  # Spans are most of what would be fetched.
        whole = replace(whole, understood=understood_in(store_dir, settings.policy.dialects))
    if turns == "all":
        return whole
    shown, _ = shown_of(loops_in(whole.own) if turns == "shown" else [])
    of_bucket = partial(
        _turns_of_tasks, settings.policy.sameness, {loop.lead.task for loop in shown}
    )
    kept = engine(of_bucket, reader.buckets(store_dir)) if shown else []
    return replace(whole, turns=pl.concat([TURN_SCHEMA.to_frame(), *kept]))


def _turns_of_tasks(
    sameness: Sameness, tasks: Collection[str], bucket: reader.Bucket
) -> pl.DataFrame:
    with reader.reading_bucket(bucket) as bucket:
        parts = reader.compared_parts(bucket, sameness, tasks)
        return pl.concat([TURN_SCHEMA.to_frame(), *parts])


def understood_in(store_dir: Path, dialects: DialectTable) -> Understood:
    """Return how much of a store's spans was understood, of as many as are looked at."""
    spans = reader.read_some_spans(store_dir, SPANS_LOOKED_AT_MIN)
    _, noted = turns_of(spans, dialects=dialects)
    return noted.understood


def work_on_buckets(
    store_dir: Path, settings: Settings, work: Callable[[pl.DataFrame], R], engine: Engine = map
) -> Iterator[R]:
    """Do some work for the turns of whole tasks, part by part, compared by these settings."""
    of_bucket = reader.BucketWork(settings.policy.sameness, work)
    return chain.from_iterable(engine(of_bucket, reader.buckets(store_dir)))


def _analysis_of_bucket(
    settings: Settings, columns: Sequence[str], ledger: Ledger, bucket: reader.Bucket
) -> _BucketAnalysis:
    """Find the loops of a bucket; only these columns of the turns are kept."""
    source = detection_source(settings.policy)
    with reader.reading_bucket(bucket) as bucket:
        if is_evaluated_by(bucket.store_dir, bucket.number, source):
            return _of_evaluated(bucket, settings, columns, ledger)
        parts, sessions = [], [pl.Series("session", dtype=pl.String)]
        failures = [failures_of(TURN_SCHEMA.to_frame())]
        for turns in reader.compared_parts(bucket, settings.policy.sameness):
            parts.append(_analysis_of_part(turns, settings, columns, ledger))
            sessions.append(compacted(turns.select("session").unique())["session"])
            failures.append(compacted(failures_of(turns)))
        analysis = _joined(parts, columns)
        return _BucketAnalysis(analysis, pl.concat(sessions).unique(), pl.concat(failures))


def _of_evaluated(
    bucket: reader.Bucket, settings: Settings, columns: Sequence[str], ledger: Ledger
) -> _BucketAnalysis:
    """Find the loops of a bucket for which the store says which tasks have some."""
    turns = scan_bucket(bucket.store_dir, "turns", bucket.number)
    counts = counts_of(turns)
    found = read_bucket(bucket.store_dir, "findings", bucket.number, ["task"])
    # A task whose oldest days were deleted may have other loops than before.
    cut = counts.filter(pl.col("turn_first") > 1)
    tasks = {*found["task"], *cut["task"]}
    parts = [
        _analysis_of_part(part, settings, columns, ledger)
        for part in reader.compared_parts(bucket, settings.policy.sameness, tasks)
    ]
    analysis = replace(
        _joined(parts, columns),
        summary=summary_of(counts, 0),
        tasks=tuple(counts["task"].unique().sort()),
    )
    return _BucketAnalysis(analysis, counts["session"].unique(), failures_of(turns).collect())


def _analysis_of_part(
    turns: pl.DataFrame, settings: Settings, columns: Sequence[str], ledger: Ledger
) -> Analysis:
    part = analysis_of(turns, 0, policy=settings.policy, ledger=ledger)
    whole = len(columns) == len(TURN_SCHEMA)
    kept = of_loops(turns, part.findings) if whole else calls_to_explain(turns, part.findings)
    return replace(part, turns=compacted(kept.select(columns)))


def _joined(parts: Sequence[Analysis], columns: Sequence[str]) -> Analysis:
    whole = joined(parts, 0, 0)
    return replace(whole, turns=whole.turns.select(columns))
