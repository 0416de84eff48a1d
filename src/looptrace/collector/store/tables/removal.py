"""What a store lets go: days, damaged files, and what a killed ingest left."""

import shutil
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from looptrace.collector.store.file_names import covered
from looptrace.collector.store.locks import StoreError, replacing
from looptrace.collector.store.tables.parquet import ANYWHERE, TABLES, day_folder, is_whole
from looptrace.collector.store.tables.writing import ASIDES

_DAMAGED = ".damaged"


def delete_days(store_dir: Path, days: Sequence[str]) -> None:
    """Delete the spans, turns and findings of days."""
    if not days:
        return
    try:
        with replacing(store_dir):
            for table, day in product(TABLES, map(day_folder, days)):
                if (folder := store_dir / table / day).exists():
                    shutil.rmtree(folder)
    except OSError as error:
        raise StoreError(
            f"{error.filename}: cannot be deleted ({error.strerror}); check permissions."
        ) from error


def set_aside(store_dir: Path, path: Path) -> bool:
    """Give a damaged file a name that nobody reads; return whether it was still damaged.

    Another thread may have found the damage first and replaced the file.
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


def damaged_files(store_dir: Path) -> list[Path]:
    """Return the files that were set aside."""
    patterns = (f"{table}/day=*/bucket=*/*{_DAMAGED}" for table in TABLES)
    return [path for pattern in patterns for path in sorted(store_dir.glob(pattern))]


def sweep(store_dir: Path) -> None:
    """Delete what a killed ingest left: unfinished files, and those that it merged into another."""
    for table in TABLES:
        asides = store_dir.glob(f"{table}/day=*/bucket=*/{ASIDES}")
        for path in (*asides, *covered((store_dir / table).glob(ANYWHERE))):
            path.unlink()
