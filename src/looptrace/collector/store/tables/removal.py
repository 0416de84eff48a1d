"""What a store lets go: days that are too old, damaged files, and what a killed ingest left."""

from __future__ import annotations

import shutil
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

from looptrace.collector.store.locks import StoreError, replacing
from looptrace.collector.store.tables.file_names import covered
from looptrace.collector.store.tables.parquet import (
    ANYWHERE,
    FIRST_DAY,
    TABLES,
    day_folder,
    has_rows,
    is_whole,
    template,
)
from looptrace.collector.store.tables.writing import ASIDES, prepare_files

_DAMAGED = ".damaged"


def expire(store_dir: Path, days_max: int, bytes_max: int) -> list[str]:
    """Delete the days before the last `days_max` days, then the oldest until the rest fits.

    The last day stays. Returns the deleted days.

    Raises:
        StoreError: if a file cannot be deleted.
    """
    sizes: dict[str, int] = defaultdict(int)
    for table in TABLES:
        for path in (store_dir / table).glob(ANYWHERE):
            if path != template(store_dir, table) or has_rows(path):
                sizes[path.parent.parent.name] += path.stat().st_size
    oldest = day_folder(str(datetime.now(UTC).date() - timedelta(days=days_max)))
    gone: list[str] = []
    for day in sorted(sizes)[:-1]:
        if day >= oldest and sum(sizes.values()) <= bytes_max:
            break
        del sizes[day]
        gone.append(day)
    if day_folder(FIRST_DAY) in gone:
        prepare_files(store_dir)
    _delete(store_dir, gone)
    return [day.partition("=")[2] for day in gone]


def _delete(store_dir: Path, days: list[str]) -> None:
    if not days:
        return
    try:
        with replacing(store_dir):
            for table, day in product(TABLES, days):
                kept, folder = template(store_dir, table).parent, store_dir / table / day
                for gone in folder.glob("*") if folder == kept.parent else [folder]:
                    if gone != kept and gone.exists():
                        shutil.rmtree(gone)
    except OSError as error:
        raise StoreError(
            f"{error.filename}: cannot be deleted ({error.strerror}); check permissions."
        ) from error


def set_aside(store_dir: Path, path: Path) -> bool:
    """Give a damaged file a name that nobody reads; return whether it was still damaged.

    Another thread may have found the damage first and replaced the file.

    Raises:
        StoreError: if it cannot be renamed.
    """
    try:
        with replacing(store_dir):
            if is_whole(path, TABLES[path.relative_to(store_dir).parts[0]]):
                return False
            path.replace(path.with_name(f"{path.name}{_DAMAGED}"))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be set aside ({error.strerror}); check permissions."
        ) from error
    return True


def sweep(store_dir: Path) -> None:
    """Delete what a killed ingest left: unfinished files, and those that it merged into another."""
    for table in TABLES:
        asides = store_dir.glob(f"{table}/day=*/bucket=*/{ASIDES}")
        for path in (*asides, *covered((store_dir / table).glob(ANYWHERE))):
            path.unlink()
