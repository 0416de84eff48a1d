"""By what the findings of each bucket were made, so that they are not made again.

Whoever changed a file since, be it by deleting old days, changed how many rows there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from looptrace.collector.store.layout import JUDGED_FILE, UNFINISHED_FILE, write_note
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.parquet import count_bucket


class Judged(NamedTuple):
    """What the findings of a bucket depend on, and how many rows its tables have."""

    source: str  # `detection_source`
    turns: int
    findings: int


def judged_of(store_dir: Path, bucket: int, source: str) -> Judged:
    """Return what is to be noted of a bucket whose findings come from this source.

    Raises:
        StoreError: if a file is not what looptrace wrote.
    """
    counts = (count_bucket(store_dir, table, bucket) for table in ("turns", "findings"))
    return Judged(source, *counts)


def read_judged(store_dir: Path) -> dict[int, Judged]:
    """Return by bucket what is noted.

    Raises:
        StoreError: if the note is not what looptrace wrote.
    """
    path = store_dir / JUDGED_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[int, Judged])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(f"{path}: cannot be read ({error}); delete it.") from error


def write_judged(store_dir: Path, judged: Mapping[int, Judged]) -> None:
    """Note this of buckets, and nothing of the others.

    Raises:
        StoreError: if it cannot be written.
    """
    sorted_notes = dict(sorted(judged.items()))
    write_note(store_dir / JUDGED_FILE, msgspec.json.encode(sorted_notes).decode())


def is_judged_by(store_dir: Path, bucket: int, source: str) -> bool:
    """Return whether a bucket has the findings of this source, of all its turns and no others.

    Whoever asks is `reading` the store.

    Raises:
        StoreError: if a file is not what looptrace wrote.
    """
    if not source or (store_dir / UNFINISHED_FILE).exists():
        return False
    noted = read_judged(store_dir).get(bucket)
    return noted == judged_of(store_dir, bucket, source)
