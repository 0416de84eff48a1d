"""Spans to an analysis part by part, also on several cores: tied traces are of one part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.batch import analyse, joined
from looptrace.analyzer.engine.outages import failures_of
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.engine.span_spool import SpanSpool, write_spans
from looptrace.analyzer.normalize.span_ties import tie_rows, with_ties
from looptrace.analyzer.normalize.span_tree import groups
from looptrace.analyzer.schema.attribute_lists import concat_spans
from looptrace.analyzer.schema.spans import Skipped, distinct_spans
from looptrace.processes import Processes

# A process starts in half a second, which so many spans take as well.
SPANS_MIN = 20_000
# Spans and bytes of a part, about which memory grows in each process.
PART_SPANS = 50_000
PART_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class _Part:
    """Files with the spans of whole groups of traces."""

    files: tuple[Path, ...]
    policy: DetectionPolicy


@dataclass(frozen=True, slots=True)
class _PartAnalysis:
    """What was found in a part; the turns are those of tasks with findings."""

    analysis: Analysis
    failures: pl.DataFrame
    clashes: list[Skipped]


def analyse_in(
    processes: Processes,
    spool: SpanSpool,
    skipped: Sequence[Skipped] = (),
    policy: DetectionPolicy = DEFAULT,
) -> tuple[Analysis, pl.DataFrame]:
    """Find the loops in spans as `analyse` does, part by part; also returns the failures.

    These are what `failures_of` makes of all turns. Of many spans the analysis has the turns of
    tasks with findings alone, so that memory does not grow with the input. Few spans are analysed
    here and in one part, because processes would take longer to start.

    Raises:
        UnavailableError: if there is no room for temporary files.
    """
    if spool.spans < SPANS_MIN or (processes.jobs == 1 and spool.is_in_memory):
        spans, clashes = distinct_spans(concat_spans(spool.tables()))
        analysis = analyse(spans, (*skipped, *clashes), policy)
        return analysis, failures_of(analysis.turns)
    parts = [_Part(tuple(files), policy) for files in _shared_out(spool, processes.jobs)]
    found = list((processes.map if processes.jobs > 1 else map)(_analysis_of_part, parts))
    analyses = [part.analysis for part in found]
    counts = [analysis.summary for analysis in analyses]
    whole = joined(analyses, sum(c.sessions for c in counts), sum(c.spans for c in counts))
    clashes = [clash for part in found for clash in part.clashes]
    noted = (sorted(each, key=lambda part: part.where) for each in (clashes, whole.skipped))
    turns = whole.turns.sort("task", "turn", maintain_order=True)
    whole = replace(whole, skipped=(*skipped, *(part for each in noted for part in each)))
    return replace(whole, turns=turns), pl.concat(part.failures for part in found)


def _shared_out(spool: SpanSpool, jobs: int) -> Iterator[list[Path]]:
    """Yield the files of each part, whose traces are tied to none of another part."""
    part_of = _parts_of_traces(spool, jobs)
    files: dict[int, list[Path]] = defaultdict(list)
    for count, spans in enumerate(spool.taken()):
        parted = spans.join(part_of, on="trace_id", maintain_order="left")
        for (number,), part in parted.partition_by("part", as_dict=True).items():
            files[number].append(spool.folder / f"{number}-{count}.part")
            write_spans(part.drop("part"), files[number][-1])
    yield from files.values()


def _parts_of_traces(spool: SpanSpool, jobs: int) -> pl.DataFrame:
    """Return by `trace_id` the `part` that it is of; parts have about as many spans."""
    counts, ties = [], []
    for spans in spool.tables():
        counts.append(spans.group_by("trace_id").len("spans"))
        ties.append(tie_rows(with_ties(spans)))
    of_trace = pl.concat(counts).group_by("trace_id").agg(pl.col("spans").sum())
    return _parted(of_trace, pl.concat(ties), max(jobs, _parts_needed(spool.spans, spool.bytes)))


def tied_parts(spans: pl.DataFrame) -> list[pl.DataFrame]:
    """Return spans in parts that are tied to no other, as many as memory asks for.

    The spans have the columns of SPAN_TIES_SCHEMA.
    """
    count = _parts_needed(spans.height, int(spans.estimated_size()))
    if count <= 1:
        return [spans]
    part_of = _parted(spans.group_by("trace_id").len("spans"), tie_rows(spans), count)
    parted = spans.join(part_of, on="trace_id", maintain_order="left")
    return parted.partition_by("part", include_key=False)


def _parts_needed(spans: int, size_bytes: int) -> int:
    return max(-(-spans // PART_SPANS), -(-size_bytes // PART_BYTES))


def _parted(of_trace: pl.DataFrame, ties: pl.DataFrame, parts: int) -> pl.DataFrame:
    """Give each trace (`trace_id`, `spans`) with those that it is tied to one of so many parts."""
    group = groups(ties.unique().iter_rows())
    of_trace = of_trace.with_columns(group=pl.col("trace_id").replace_strict(group))
    sizes = of_trace.group_by("group").agg(pl.col("spans").sum()).sort("spans", "group")
    filled = [0] * parts
    part_of: dict[str, int] = {}
    for name, count in reversed(sizes.rows()):  # The largest first, each to where there is least.
        number = filled.index(min(filled))
        filled[number] += count
        part_of[name] = number
    return of_trace.select("trace_id", part=pl.col("group").replace_strict(part_of))


def _analysis_of_part(part: _Part) -> _PartAnalysis:
    spans, clashes = distinct_spans(concat_spans(map(pl.read_ipc, part.files)))
    analysis = analyse(spans, policy=part.policy)
    failures = failures_of(analysis.turns)
    analysis = joined([analysis], analysis.summary.sessions, spans.height)
    return _PartAnalysis(analysis, failures, clashes)
