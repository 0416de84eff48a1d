"""The settings and code that the findings of each bucket come from, so that they are reused.

A file that was changed since, for example by deleting old days, has another number of rows.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from looptrace.collector.store.layout import EVALUATED_FILE, UNFINISHED_FILE, put_note, read_note
from looptrace.collector.store.tables.parquet import count_bucket


class EvaluatedBucket(NamedTuple):
    """The source of the findings of a bucket, and the number of rows of its tables."""

    source: str  # `detection_source`
    turns: int
    findings: int
    spans: int = -1  # Earlier versions did not note them.


def evaluated_of(store_dir: Path, bucket: int, source: str) -> EvaluatedBucket:
    """Return the note for a bucket whose findings come from this source."""
    counts = (count_bucket(store_dir, table, bucket) for table in ("turns", "findings", "spans"))
    return EvaluatedBucket(source, *counts)


def read_evaluated(store_dir: Path) -> dict[int, EvaluatedBucket]:
    """Return the notes by bucket."""
    return read_note(store_dir / EVALUATED_FILE, dict[int, EvaluatedBucket]) or {}


def buckets_short(
    store_dir: Path, evaluated: Mapping[int, EvaluatedBucket]
) -> tuple[list[int], list[int]]:
    """Return the buckets that lack turns or findings, and those that lack spans."""
    derived, spans = list[int](), list[int]()
    for bucket, noted in evaluated.items():
        left = evaluated_of(store_dir, bucket, noted.source)
        if left.spans < noted.spans:
            spans.append(bucket)
        elif left.turns < noted.turns or left.findings < noted.findings:
            derived.append(bucket)
    return derived, spans


def write_evaluated(store_dir: Path, evaluated: Mapping[int, EvaluatedBucket]) -> None:
    """Write these notes, and remove those of all other buckets."""
    sorted_notes = dict(sorted(evaluated.items()))
    put_note(store_dir / EVALUATED_FILE, sorted_notes)


def is_evaluated_by(store_dir: Path, bucket: int, source: str) -> bool:
    """Return whether a bucket has the findings of this source, for exactly its turns.

    The caller is `reading` the store.
    """
    if not source or (store_dir / UNFINISHED_FILE).exists():
        return False
    noted = read_evaluated(store_dir).get(bucket)
    return noted == evaluated_of(store_dir, bucket, source)
