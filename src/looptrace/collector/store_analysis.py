"""The loops of a store, found anew bucket by bucket, by whatever does the work on buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import polars as pl

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.batch import analysis_of, joined
from looptrace.analyzer.engine.outages import failures_of, with_outages
from looptrace.analyzer.settings.sections import Settings
from looptrace.collector.store import reader
from looptrace.processes import Engine

R = TypeVar("R")


def analyse_store(store_dir: Path, settings: Settings, engine: Engine = map) -> Analysis:
    """Find the loops of a store by these settings, whatever rules its findings were made with.

    `engine` does the work on each bucket, as `map` does; the work and the buckets can be pickled.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    counts = reader.counts(store_dir)
    judged = list(work_on_buckets(store_dir, settings, partial(_judged, settings), engine))
    parts, failed = [part for part, _ in judged], [failures for _, failures in judged]
    whole = joined(parts, counts.sessions, counts.spans)
    every = pl.concat(failed) if failed else failures_of(whole.turns)
    return with_outages(whole, every, settings.outages)


def work_on_buckets(
    store_dir: Path, settings: Settings, work: Callable[[pl.DataFrame], R], engine: Engine = map
) -> Iterator[R]:
    """Do this work for each bucket of a store, whose turns compare by the settings.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    of_bucket = reader.BucketWork(settings.policy.sameness, work)
    results = engine(of_bucket, reader.buckets(store_dir))
    return (result for result in results if result is not None)


def _judged(settings: Settings, turns: pl.DataFrame) -> tuple[Analysis, pl.DataFrame]:
    """Find the loops of a bucket, and the failures that outages are made of."""
    part = analysis_of(turns, 0, policy=settings.policy)
    return joined([part], part.summary.sessions, 0), failures_of(turns)
