"""Spans to an analysis on several cores: traces that are tied together stay in one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.batch import analyse, joined
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.normalize.span_ties import tie_rows, with_ties
from looptrace.analyzer.normalize.span_tree import groups
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, Skipped
from looptrace.processes import Processes

# A process starts in half a second, which so many spans take as well.
SPANS_MIN = 20_000
# Spans of a part, about which memory grows in each process.
PART_SPANS = 50_000


@dataclass(frozen=True, slots=True)
class _Part:
    """Spans of whole groups of traces in a file, and where their turns are written to."""

    spans: Path
    turns: Path
    policy: DetectionPolicy


def analyse_in(
    processes: Processes,
    spans: pl.DataFrame,
    skipped: Sequence[Skipped] = (),
    policy: DetectionPolicy = DEFAULT,
) -> Analysis:
    """Find the loops in spans (`SPAN_SCHEMA`) as `analyse` does, on several cores.

    Few spans are analysed here, because processes would take longer to start.
    """
    if processes.jobs == 1 or spans.height < SPANS_MIN:
        return analyse(spans, skipped, policy)
    with TemporaryDirectory(prefix="looptrace-") as folder:
        parts = list(_parts(spans, Path(folder), processes.jobs, policy))
        analyses = list(processes.map(_analysis_of_part, parts))
        turns = pl.concat(pl.read_ipc(part.turns) for part in parts)
    whole = joined(analyses, sum(a.summary.sessions for a in analyses), spans.height)
    return replace(
        whole,
        skipped=(*skipped, *sorted(whole.skipped, key=lambda part: part.where)),
        turns=turns.sort("task", "turn", maintain_order=True),
    )


def _parts(
    spans: pl.DataFrame, folder: Path, jobs: int, policy: DetectionPolicy
) -> Iterator[_Part]:
    """Write spans to files, each of which has whole groups of traces and about as many spans."""
    group = groups(tie_rows(with_ties(spans)).iter_rows())
    of_trace = spans.group_by("trace_id").len("spans")
    of_trace = of_trace.with_columns(group=pl.col("trace_id").replace_strict(group))
    sizes = of_trace.group_by("group").agg(pl.col("spans").sum()).sort("spans", "group")
    filled = [0] * max(jobs, -(-spans.height // PART_SPANS))
    part_of: dict[str, int] = {}
    for name, count in reversed(sizes.rows()):  # The largest first, each to where there is least.
        number = filled.index(min(filled))
        filled[number] += count
        part_of[name] = number
    of_trace = of_trace.with_columns(part=pl.col("group").replace_strict(part_of))
    parted = spans.join(of_trace.select("trace_id", "part"), on="trace_id", maintain_order="left")
    for (number,), part in parted.partition_by("part", as_dict=True).items():
        path = folder / f"{number}.spans"
        part.select(list(SPAN_SCHEMA)).write_ipc(path)
        yield _Part(path, folder / f"{number}.turns", policy)


def _analysis_of_part(part: _Part) -> Analysis:
    """Analyse one part; its turns are written to the file that it names."""
    analysis = analyse(pl.read_ipc(part.spans), policy=part.policy)
    analysis.turns.write_ipc(part.turns)
    return replace(analysis, turns=analysis.turns.clear())
