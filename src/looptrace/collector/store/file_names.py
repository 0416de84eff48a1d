"""The names of the files that hold the rows of a bucket on one day.

The first file is `data.parquet`. Later ones are numbered, and a file that several were merged into
has the range of their numbers: `data-000002-000009.parquet`. A file whose range lies within that of
another one is covered: it was merged, and a killed writer did not delete it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

P = TypeVar("P", Path, str)

# Few enough that a small store has few files, and enough that one bucket of a large one fits into
# memory. It never changes, because it decides the place of a task.
BUCKETS = 16

DATA = "data.parquet"
ANY_DATA = "data*.parquet"  # The pattern of all files.
NAME_PATTERN = r"data(?:-(?P<first>\d{6,})-(?P<last>\d{6,}))?\.parquet"
_NAME = re.compile(rf"(?P<folder>.*/)?{NAME_PATTERN}")

Range = tuple[int, int]


def file_name(first: int, last: int) -> str:
    """Return the name of the file with this range of numbers."""
    return f"data-{first:06}-{last:06}.parquet" if last else DATA


def range_of(path: Path | str) -> Range:
    """Return the range of numbers of a file."""
    return _placed(path)[1]


def in_order(paths: Iterable[P]) -> list[P]:
    """Return files in the order of their folders and numbers, without those that are covered."""
    by_folder: dict[str, list[tuple[Range, P]]] = defaultdict(list)
    for path in paths:
        folder, numbers = _placed(path)
        by_folder[folder].append((numbers, path))
    kept = []
    for _, files in sorted(by_folder.items()):
        last = -1
        # Of two files that begin alike, the longer range covers the other.
        for (_, end), path in sorted(files, key=lambda each: (each[0][0], -each[0][1])):
            if end > last:
                kept.append(path)
                last = end
    return kept


def covered(paths: Iterable[P]) -> set[P]:
    """Return the files that were merged into another one of these."""
    every = list(paths)
    return set(every).difference(in_order(every))


def _placed(path: Path | str) -> tuple[str, Range]:
    found = _NAME.fullmatch(path if isinstance(path, str) else path.as_posix())
    if found is None:
        raise ValueError(f"{path}: is not a file of a table")
    return found["folder"] or "", (int(found["first"] or 0), int(found["last"] or 0))
