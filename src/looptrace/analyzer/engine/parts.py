"""Spans to an analysis part by part; tied traces are in one part."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import polars as pl

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.batch import analyse, joined, of_loops
from looptrace.analyzer.engine.outages import failures_of
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.engine.span_spool import SpanSpool, split_spans
from looptrace.analyzer.fields.dialect_table import DialectTable
from looptrace.analyzer.normalize.span_ties import groups, tie_rows, with_ties
from looptrace.analyzer.schema.compaction import compacted
from looptrace.analyzer.schema.distinct_spans import alone_text, distinct_spans, whole_spans
from looptrace.analyzer.schema.spans import Skipped
from looptrace.engines import in_threads

# Spans and bytes of a part; memory grows by a multiple of this.
PART_SPANS = 8_000
PART_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class _PartAnalysis:
    """The results of a part; the turns are those of tasks with findings."""

    analysis: Analysis
    failures: pl.DataFrame
    clashes: list[Skipped]
    alone: int  # events of log records without a span


def analyse_spooled(
    spool: SpanSpool,
    skipped: Sequence[Skipped] = (),
    policy: DetectionPolicy = DEFAULT,
    threads: int = 1,
) -> tuple[Analysis, pl.DataFrame]:
    """Find the loops in spans as `analyse` does, part by part; also return the failures.

    The failures are the result of `failures_of` for all turns. With more than one part, the
    analysis has only the turns of tasks with findings, so that memory does not grow with the input;
    with budgets of several tasks there is one part.
    The spool is consumed.

    Raises:
        UnavailableError: if there is no room for temporary files.
    """
    is_one = spool.is_in_memory and _parts_needed(spool.spans, spool.bytes) <= 1
    if is_one or policy.budgets.limits:  # Tasks of several parts may spend from one budget.
        spans, clashes = distinct_spans(pl.concat(spool.tables()))
        analysis = analyse(spans, (*skipped, *clashes), policy, threads)
        return analysis, failures_of(analysis.turns)
    parts = shared_out(spool, policy.dialects)
    of_part = partial(_analysis_of_part, policy=policy)
    found = list(in_threads(of_part, parts, threads))
    analyses = [part.analysis for part in found]
    counts = [analysis.summary for analysis in analyses]
    whole = joined(analyses, sum(c.sessions for c in counts), sum(c.spans for c in counts))
    clashes = [clash for part in found for clash in part.clashes]
    clashes += alone_text(sum(part.alone for part in found))
    noted = (sorted(each, key=lambda part: part.where) for each in (clashes, whole.skipped))
    turns = whole.turns.sort("task", "turn", maintain_order=True)
    whole = replace(whole, skipped=(*skipped, *(part for each in noted for part in each)))
    return replace(whole, turns=turns), pl.concat(part.failures for part in found)


def shared_out(spool: SpanSpool, dialects: DialectTable) -> Iterator[pl.DataFrame]:
    """Yield the spans of each part; no trace is tied to a trace of another part."""
    counts, ties = [], []
    for spans in spool.tables():
        counts.append(_counted(spans))
        ties.append(tie_rows(with_ties(spans, dialects)))
    count = _parts_needed(spool.spans, spool.bytes)
    found = spool.split(_parted(pl.concat(counts), pl.concat(ties), count))
    waiting = [tables for _, tables in sorted(found.items(), reverse=True)]
    del found
    while waiting:  # What a part has had is let go.
        tables = waiting.pop()
        yield pl.concat(pl.read_ipc(t) if isinstance(t, Path) else t for t in tables)


def tied_parts(spans: pl.DataFrame) -> list[pl.DataFrame]:
    """Return spans in parts that are not tied to one another, as many as memory requires.

    The spans have the columns of SPAN_TIES_SCHEMA.
    """
    count = _parts_needed(spans.height, int(spans.estimated_size()))
    if count <= 1:
        return [spans]
    places = _parted(_counted(spans), tie_rows(spans), count)
    return [part for _, part in split_spans(spans, places)]


def _parts_needed(spans: int, size_bytes: int) -> int:
    return max(-(-spans // PART_SPANS), -(-size_bytes // PART_BYTES))


def _counted(spans: pl.DataFrame) -> pl.DataFrame:
    return spans.group_by("trace_id", maintain_order=True).len("spans")


def _parted(of_trace: pl.DataFrame, ties: pl.DataFrame, parts: int) -> pl.DataFrame:
    """Return the `place` of each trace (`trace_id`, `spans`): one of about so many parts.

    Traces that are tied together have the same place. Those that come one after the other are in
    one part, so that each part needs few of the tables that were read.
    """
    group = groups(ties.unique().iter_rows())
    of_trace = of_trace.with_columns(group=pl.col("trace_id").replace_strict(group))
    sizes = of_trace.group_by("group", maintain_order=True).agg(pl.col("spans").sum())
    before = pl.col("spans").cum_sum().shift(1, fill_value=0)
    place = before * parts // pl.col("spans").sum().clip(1)
    sizes = sizes.select("group", place=place.cast(pl.Int32))
    return of_trace.select("trace_id", "group").unique().join(sizes, on="group").drop("group")


def _analysis_of_part(given: pl.DataFrame, policy: DetectionPolicy) -> _PartAnalysis:
    records, clashes = distinct_spans(given)
    spans = whole_spans(records)
    analysis = analyse(spans, (), policy)
    failures = compacted(failures_of(analysis.turns))
    turns = compacted(of_loops(analysis.turns, analysis.findings))
    analysis = replace(analysis, turns=turns)
    return _PartAnalysis(analysis, failures, clashes, records.height - spans.height)
