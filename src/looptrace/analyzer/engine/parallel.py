"""Spans to an analysis part by part, also on several cores; tied traces are in one part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import polars as pl

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.batch import analyse, joined
from looptrace.analyzer.engine.outages import failures_of
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.engine.span_spool import SpanSpool, split_spans
from looptrace.analyzer.fields.dialect_table import DialectTable
from looptrace.analyzer.normalize.span_ties import groups, tie_rows, with_ties
from looptrace.analyzer.schema.compaction import compacted
from looptrace.analyzer.schema.distinct_spans import alone_text, distinct_spans, whole_spans
from looptrace.analyzer.schema.spans import Skipped
from looptrace.processes import Processes

# A process takes half a second to start, as long as the analysis of this many spans.
SPANS_MIN = 20_000
# Spans and bytes of a part; memory grows by about this much in each process.
PART_SPANS = 50_000
PART_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class _Part:
    """Tables, or their files, with the spans of whole groups of traces."""

    spans: tuple[pl.DataFrame | Path, ...]
    policy: DetectionPolicy


@dataclass(frozen=True, slots=True)
class _PartAnalysis:
    """The results of a part; the turns are those of tasks with findings."""

    analysis: Analysis
    failures: pl.DataFrame
    clashes: list[Skipped]
    alone: int  # events of log records without a span


def analyse_in(
    processes: Processes,
    spool: SpanSpool,
    skipped: Sequence[Skipped] = (),
    policy: DetectionPolicy = DEFAULT,
) -> tuple[Analysis, pl.DataFrame]:
    """Find the loops in spans as `analyse` does, part by part; also return the failures.

    The failures are the result of `failures_of` for all turns. With many spans, the analysis has
    only the turns of tasks with findings, so that memory does not grow with the input. Few spans
    are analysed in this process and in one part, because processes would take longer to start.

    Raises:
        UnavailableError: if there is no room for temporary files.
    """
    if spool.spans < SPANS_MIN or (processes.jobs == 1 and spool.is_in_memory):
        spans, clashes = distinct_spans(pl.concat(spool.tables()))
        analysis = analyse(spans, (*skipped, *clashes), policy)
        return analysis, failures_of(analysis.turns)
    parts = [
        _Part(tuple(spans), policy)
        for spans in shared_out(spool, processes, policy.dialects).values()
    ]
    found = list(processes.map(_analysis_of_part, parts))
    analyses = [part.analysis for part in found]
    counts = [analysis.summary for analysis in analyses]
    whole = joined(analyses, sum(c.sessions for c in counts), sum(c.spans for c in counts))
    clashes = [clash for part in found for clash in part.clashes]
    clashes += alone_text(sum(part.alone for part in found))
    noted = (sorted(each, key=lambda part: part.where) for each in (clashes, whole.skipped))
    turns = whole.turns.sort("task", "turn", maintain_order=True)
    whole = replace(whole, skipped=(*skipped, *(part for each in noted for part in each)))
    return replace(whole, turns=turns), pl.concat(part.failures for part in found)


def shared_out(
    spool: SpanSpool, processes: Processes, dialects: DialectTable
) -> Mapping[int, Sequence[pl.DataFrame | Path]]:
    """Return the spans of each part; no trace is tied to a trace of another part."""
    counted_and_tied = partial(_counted_and_tied, dialects=dialects)
    counts, ties = zip(*spool.each(counted_and_tied, processes.map), strict=True)
    of_trace = pl.concat(counts).group_by("trace_id").agg(pl.col("spans").sum())
    needed, jobs = _parts_needed(spool.spans, spool.bytes), processes.jobs
    parts = -(-needed // jobs) * jobs  # No process waits while another one has the last part.
    return spool.split(_parted(of_trace, pl.concat(ties), parts), processes.map)


def _counted_and_tied(
    spans: pl.DataFrame, dialects: DialectTable
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the number of `spans` of each trace, and the distinct ties."""
    return spans.group_by("trace_id").len("spans"), tie_rows(with_ties(spans, dialects)).unique()


def tied_parts(spans: pl.DataFrame) -> list[pl.DataFrame]:
    """Return spans in parts that are not tied to one another, as many as memory requires.

    The spans have the columns of SPAN_TIES_SCHEMA.
    """
    count = _parts_needed(spans.height, int(spans.estimated_size()))
    if count <= 1:
        return [spans]
    places = _parted(spans.group_by("trace_id").len("spans"), tie_rows(spans), count)
    return [part for _, part in split_spans(spans, places)]


def _parts_needed(spans: int, size_bytes: int) -> int:
    return max(-(-spans // PART_SPANS), -(-size_bytes // PART_BYTES))


def _parted(of_trace: pl.DataFrame, ties: pl.DataFrame, parts: int) -> pl.DataFrame:
    """Return the `place` of each trace (`trace_id`, `spans`): one of `parts` parts.

    Traces that are tied together have the same place.
    """
    group = groups(ties.unique().iter_rows())
    of_trace = of_trace.with_columns(group=pl.col("trace_id").replace_strict(group))
    sizes = of_trace.group_by("group").agg(pl.col("spans").sum()).sort("spans", "group")
    filled = [0] * parts
    place_of: dict[str, int] = {}
    for name, count in reversed(sizes.rows()):  # The largest first, each to the smallest part.
        number = filled.index(min(filled))
        filled[number] += count
        place_of[name] = number
    return of_trace.select("trace_id", place=pl.col("group").replace_strict(place_of))


def _analysis_of_part(part: _Part) -> _PartAnalysis:
    tables = (each if isinstance(each, pl.DataFrame) else pl.read_ipc(each) for each in part.spans)
    records, clashes = distinct_spans(pl.concat(tables))
    spans = whole_spans(records)
    analysis = analyse(spans, policy=part.policy)
    failures = compacted(failures_of(analysis.turns))
    analysis = joined([analysis], analysis.summary.sessions, spans.height)
    analysis = replace(analysis, turns=compacted(analysis.turns))
    return _PartAnalysis(analysis, failures, clashes, records.height - spans.height)
