"""A store to an analysis, one bucket after the other or several at once; the same comes of both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.batch import analysis_of, joined
from looptrace.analyzer.engine.outages import OutageSettings, failures_of, with_outages
from looptrace.analyzer.engine.parallel import SPANS_MIN
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.fingerprint.signatures import compared_by
from looptrace.collector.store import reader
from looptrace.collector.store.parquet import BUCKETS
from looptrace.processes import Workers


@dataclass(frozen=True, slots=True)
class StoreBucket:
    """A bucket of a store, which holds whole tasks, and what judges it."""

    store_dir: Path
    bucket: int
    policy: DetectionPolicy


@dataclass(frozen=True, slots=True)
class BucketAnalysis:
    """What was found in a bucket, with the turns of looping tasks, and its failures."""

    analysis: Analysis
    failures: pl.DataFrame


def judge_bucket(part: StoreBucket) -> BucketAnalysis:
    """Judge the turns of a bucket anew, as the policy compares them.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    turns = compared_by(
        reader.read_turns_of_bucket(part.store_dir, part.bucket), part.policy.sameness
    )
    analysis = analysis_of(turns, 0, policy=part.policy)
    looping = {finding.task for finding in analysis.findings}
    kept = turns.filter(pl.col("task").is_in(looping))
    return BucketAnalysis(replace(analysis, turns=kept), failures_of(turns))


def analyse_store(
    store_dir: Path, policy: DetectionPolicy, outages: OutageSettings, workers: Workers
) -> Analysis:
    """Find the loops in a store; workers share its buckets, unless it is small and they are near.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
        UnavailableError: if a worker was killed.
    """
    counts = reader.counts(store_dir)
    parts = [StoreBucket(store_dir, bucket, policy) for bucket in range(BUCKETS)]
    is_alone = workers.jobs == 1 or (workers.are_local and counts.spans < SPANS_MIN)
    judged = list(map(judge_bucket, parts) if is_alone else workers.map(judge_bucket, parts))
    whole = joined([each.analysis for each in judged], counts.sessions, counts.spans)
    return with_outages(whole, pl.concat(each.failures for each in judged), outages)
