"""The replacement of rows in the files of a bucket, so that few rows cost little.

A row that stays as it is stays in its file. New rows go to the last file of their day until it has
`ROWS_MIN` rows, and then to another one. When a day has `FILES_ALIKE` files of like size, they are
merged. So each row is written a few times, however many rows a day has, and a day has few files;
this is how log-structured merge trees work (O'Neil et al., 1996).
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import polars as pl

from looptrace.collector.store.file_names import file_name, range_of
from looptrace.collector.store.tables.file_contents import Having
from looptrace.collector.store.tables.parquet import (
    BUCKET,
    FILE,
    TABLES,
    arrived_ns_of,
    bucket_files,
    day_of,
    files_in_buckets,
    folder_of,
    made_with_of,
    read_files,
    read_in_buckets,
    rows_of,
)
from looptrace.collector.store.tables.writing import TableContent, write_files

# A file gets new rows until it has so many. More would be written again for each few new rows,
# fewer would make more files.
ROWS_MIN = 2_048
# So many files of like size are merged: more would leave more files, fewer would merge more often.
FILES_ALIKE = 8
# Buckets are changed together up to so many rows, with those of the files that get some: a row of
# turns takes 2 to 4 KB, and several copies of it.
ROWS_AT_ONCE = 10_000

T = TypeVar("T")
Order = Sequence[str | pl.Expr]
_DAY = "looptrace day"  # The column with the day of a row.


class NewRows(NamedTuple):
    """Rows that replace those of a bucket that fulfil a condition (None: all), and their starts."""

    which: Having | None
    rows: pl.DataFrame
    start_ns: pl.Series


def replace_rows(
    store_dir: Path,
    table: str,
    changes: Mapping[int, NewRows],
    order: Order = (),
    made_with: str = "",
) -> Mapping[int, int]:
    """Replace rows of buckets by others; small buckets are read and written together.

    Each row lies on the day of its start. Rows of a file are sorted by `order`. Files note what all
    their rows were `made_with`, for `bucket_made_with`, and that the new rows arrived now. Returns
    by how many rows each bucket grew.

    Raises:
        StoreError: if a file is not what looptrace wrote, or cannot be written.
    """
    files = {bucket: bucket_files(store_dir, table, bucket) for bucket in changes}
    which = {bucket: each.which for bucket, each in changes.items()}
    having = files_in_buckets(files, which)
    before = read_in_buckets(having, which, TABLES[table])
    after = _placed(changes, table, order)
    lost, new = before.with_columns(pl.lit("").alias(_DAY)), after
    if not before.is_empty():
        touched = [path for paths in having.values() for path in paths]
        days = {str(path): day_of(path) for path in touched}
        on_day = pl.col(FILE).replace_strict(days, return_dtype=pl.String)
        alike = [str(path) for path in touched if made_with_of(path) == made_with]
        lost, new = _changed(before.with_columns(on_day.alias(_DAY)), after, alike)
    grown = Counter(new[BUCKET].to_list())
    grown.subtract(lost[BUCKET].to_list())
    arrived_ns = time.time_ns()
    parts: dict[int, dict[Path, TableContent]] = {bucket: {} for bucket in changes}
    by_day = new.partition_by(_DAY, BUCKET, as_dict=True, include_key=False)
    for (day, bucket), part in by_day.items():
        folder = folder_of(store_dir, table, day, bucket)
        parts[bucket][folder] = TableContent(part, made_with, arrived_ns)

    lost_in = lost.drop(_DAY).partition_by(BUCKET, FILE, as_dict=True, include_key=False)

    def rows_in(bucket: int) -> int:
        appended = (each for each in files[bucket] if each.parent in parts[bucket])
        small = (rows for rows in map(rows_of, appended) if rows < ROWS_MIN)
        return sum(each.rows.height for each in parts[bucket].values()) + sum(small)

    for some in batches(changes, rows_in, ROWS_AT_ONCE):
        gone = {file: rows for (bucket, file), rows in lost_in.items() if bucket in some}
        plan = _Plan([path for bucket in some for path in files[bucket]], gone, order)
        plan.add({folder: each for bucket in some for folder, each in parts.pop(bucket).items()})
        write_files(store_dir, plan.contents, plan.merged)
    return {bucket: grown[bucket] for bucket in changes}


def batches(items: Iterable[T], size_of: Callable[[T], int], size_max: int) -> Iterator[list[T]]:
    """Yield items that follow each other and have this size at most; a larger one is alone."""
    batch, size = list[T](), 0
    for item in items:
        size += (more := size_of(item))
        if batch and size > size_max:
            yield batch
            batch, size = [], more
        batch.append(item)
    if batch:
        yield batch


def _placed(changes: Mapping[int, NewRows], table: str, order: Order) -> pl.DataFrame:
    """Return the new rows in their order, each with its day and bucket."""
    starts = pl.concat(each.start_ns for each in changes.values())
    buckets = np.repeat([*changes], [each.rows.height for each in changes.values()])
    rows = pl.concat(each.rows for each in changes.values()).lazy()
    days = pl.from_epoch(starts, time_unit="ns").dt.date().cast(pl.String)
    bucket = pl.Series(BUCKET, buckets.astype(np.int32), pl.Int32)
    rows = rows.select(*TABLES[table], days.alias(_DAY), bucket)
    return (rows.sort(order, maintain_order=True) if order else rows).collect()


def _changed(
    before: pl.DataFrame, after: pl.DataFrame, alike: Sequence[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows that are lost, with the name of their file, and those that are new.

    A row stays if it is in one of the files that are `alike` in what they were made with.
    """
    columns = after.columns
    stays = _matched("semi", before.filter(pl.col(FILE).is_in(alike)), after, columns)
    stays = stays.unique(columns, keep="first")
    lost = _matched("anti", before, stays, [*columns, FILE])
    return lost, _matched("anti", after, stays, columns)


class _Plan:
    """The new contents of some files of a bucket, first of those that get rows.

    `merged` are the files that are parts of another one then.
    """

    def __init__(
        self, files: Sequence[Path], lost: Mapping[str, pl.DataFrame], order: Order
    ) -> None:
        """Begin with these files, of which some rows are `lost`."""
        self.contents: dict[Path, TableContent] = {}
        self.merged: list[Path] = []
        self._files: dict[Path, list[Path]] = defaultdict(list)  # by folder
        for path in files:
            self._files[path.parent].append(path)
        self._held: dict[Path, pl.DataFrame] = {}  # what was read together
        self._lost = {Path(file): rows for file, rows in lost.items()}
        self._order = order
        self._mixed: set[Path] = set()  # files whose rows are not in order yet

    def add(self, parts: Mapping[Path, TableContent]) -> None:
        """Add rows to folders, and drop the lost ones."""
        self._read(parts)
        for folder, content in parts.items():
            self._add(folder, content)
        for path in self._lost:  # Those that get no rows come last.
            if path not in self.contents and path not in self.merged:
                self.contents[path] = self._content(path)
        self._held.clear()
        self._sort()

    def _read(self, folders: Iterable[Path]) -> None:
        """Read together the small files of folders that get rows, and those with lost ones."""
        lasts = (self._files[folder][-1] for folder in folders if self._files[folder])
        paths = dict.fromkeys([*lasts, *self._lost])
        small = [path for path in paths if rows_of(path) < ROWS_MIN]
        if small:
            rows = read_files(small, TABLES[small[0].parents[2].name]).drop(FILE)
            self._held = dict(zip(small, _slices(rows, map(rows_of, small)), strict=True))

    def _add(self, folder: Path, content: TableContent) -> None:
        """Add rows to the last file of a folder, or to a new one, and merge files of like size."""
        present = list(self._files[folder])
        last = present[-1] if present else folder / file_name(0, 0)
        if present and rows_of(last) >= ROWS_MIN:
            number = range_of(last)[1] + 1
            last = folder / file_name(number, number)
            present.append(last)
            before = TableContent(content.rows.clear())
        else:
            before = self._content(last) if present else TableContent(content.rows.clear())
        self._put(last, [before, content])
        if alike := self._alike(present):
            self._merge(alike)

    def _sort(self) -> None:
        """Bring the rows of each file in order, all in one call."""
        tables = {path: self.contents[path].rows for path in self._mixed}
        if not (tables and self._order):
            return
        heights = [each.height for each in tables.values()]
        places = pl.Series(FILE, np.repeat(range(len(tables)), heights))
        rows = pl.concat(tables.values()).lazy().with_columns(places)
        rows = rows.sort(FILE, *self._order, maintain_order=True).drop(FILE)
        for path, part in zip(tables, _slices(rows.collect(), heights), strict=True):
            self.contents[path] = self.contents[path]._replace(rows=part)

    def _alike(self, present: Sequence[Path]) -> Sequence[Path]:
        """Return the last files of a folder, if there are enough of one size or less."""
        tiers = [_tier(self._rows(path)) for path in present]
        for tier in sorted({*tiers}):
            larger = [number for number, each in enumerate(tiers) if each > tier]
            alike = present[larger[-1] + 1 if larger else 0 :]
            if len(alike) >= FILES_ALIKE:
                return alike
        return []

    def _merge(self, files: Sequence[Path]) -> None:
        """Make one file of several that follow each other."""
        (first, _), (_, last) = range_of(files[0]), range_of(files[-1])
        parts = [self._content(path) for path in files]
        for path in files:
            self.contents.pop(path, None)
            self._mixed.discard(path)
        self.merged += files
        self._put(files[0].with_name(file_name(first, last)), parts)

    def _put(self, path: Path, parts: Sequence[TableContent]) -> None:
        made_with = {part.made_with for part in parts if not part.rows.is_empty()}
        rows = pl.concat(part.rows for part in parts)
        if sum(not part.rows.is_empty() for part in parts) > 1:  # Those of each part are in order.
            self._mixed.add(path)
        arrived_ns = max(part.arrived_ns for part in parts)
        self.contents[path] = TableContent(
            rows, made_with.pop() if len(made_with) == 1 else "", arrived_ns
        )

    def _rows(self, path: Path) -> int:
        return self.contents[path].rows.height if path in self.contents else rows_of(path)

    def _content(self, path: Path) -> TableContent:
        """Return what a file will have, or has now without the lost rows."""
        if path in self.contents:
            return self.contents[path]
        rows = self._held.get(path)
        if rows is None:
            rows = read_files([path], TABLES[path.parents[2].name]).drop(FILE)
        lost = self._lost.get(path)
        if lost is not None:
            rows = _matched("anti", rows, lost, rows.columns)
        return TableContent(rows, made_with_of(path), arrived_ns_of(path))


def _slices(rows: pl.DataFrame, heights: Iterable[int]) -> list[pl.DataFrame]:
    """Return the slices of these heights, which copy nothing."""
    return [rows[start:end] for start, end in pairwise(accumulate(heights, initial=0))]


def _tier(rows: int) -> int:
    """Return the size of a file: files of one tier become one of the next."""
    tier, rows_max = 0, ROWS_MIN * 2
    while rows > rows_max:
        tier, rows_max = tier + 1, rows_max * FILES_ALIKE
    return tier


def _matched(
    how: Literal["semi", "anti"], rows: pl.DataFrame, others: pl.DataFrame, on: Sequence[str]
) -> pl.DataFrame:
    """Return the rows that are among the others, or are not, in their order."""
    return rows.join(others, on=on, how=how, nulls_equal=True, maintain_order="left")
