"""The replacement of rows in the files of a bucket, so that few rows cost little.

A row that stays as it is stays in its file. New rows go to the last file of their day until it has
`ROWS_MIN` rows, and then to another one. When a day has `FILES_ALIKE` files of like size, they are
merged. So each row is written a few times, however many rows a day has, and a day has few files;
this is how log-structured merge trees work (O'Neil et al., 1996).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import polars as pl

from looptrace.collector.store.tables.file_contents import Having
from looptrace.collector.store.tables.file_names import file_name, range_of
from looptrace.collector.store.tables.parquet import (
    FILE,
    TABLES,
    arrived_ns_of,
    bucket_files,
    day_of,
    files_having,
    folder_of,
    made_with_of,
    read_files,
    rows_of,
)
from looptrace.collector.store.tables.writing import TableContent, write_files

# A file gets new rows until it has so many. More would be written again for each few new rows,
# fewer would make more files.
ROWS_MIN = 2_048
# So many files of like size are merged: more would leave more files, fewer would merge more often.
FILES_ALIKE = 8

Order = Sequence[str | pl.Expr]
_DAY = "looptrace day"  # The column with the day of a row.


def replace_rows(
    store_dir: Path,
    table: str,
    bucket: int,
    which: Having | None,
    rows: pl.DataFrame,
    start_ns: pl.Series,
    order: Order = (),
    made_with: str = "",
) -> int:
    """Replace the rows of a bucket that fulfil a condition (None: all) by others.

    Each row lies on the day of its start. Rows of a file are sorted by `order`. Files note what all
    their rows were `made_with`, for `bucket_made_with`, and that the new rows arrived now. Returns
    by how many rows the bucket grew.

    Raises:
        StoreError: if a file is not what looptrace wrote, or cannot be written.
    """
    files, schema = bucket_files(store_dir, table, bucket), TABLES[table]
    touched = files_having(files, which)
    before = read_files(touched, schema, which)
    if before.is_empty() and rows.is_empty():
        return 0
    started = pl.from_epoch(start_ns, time_unit="ns").dt.date().cast(pl.String)
    after = rows.select(*schema).with_columns(started.alias(_DAY))
    lost, new = before, after
    if not before.is_empty():
        days = {str(path): day_of(path) for path in touched}
        on_day = pl.col(FILE).replace_strict(days, return_dtype=pl.String)
        alike = [str(path) for path in touched if made_with_of(path) == made_with]
        lost, new = _changed(before.with_columns(on_day.alias(_DAY)), after, alike)
    plan = _Plan(files, lost, order)
    for (day,), part in new.partition_by(_DAY, as_dict=True, include_key=False).items():
        content = TableContent(part, made_with, time.time_ns())
        plan.add(folder_of(store_dir, table, str(day), bucket), content)
    plan.drop_lost()
    write_files(store_dir, plan.contents, plan.merged)
    return new.height - lost.height


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
    return lost.drop(_DAY), _matched("anti", after, stays, columns)


class _Plan:
    """The new contents of some files of a bucket, first of those that get rows.

    `merged` are the files that are parts of another one then.
    """

    def __init__(self, files: Sequence[Path], lost: pl.DataFrame, order: Order) -> None:
        """Begin with these files; the rows that are `lost` have the name of their file."""
        self.contents: dict[Path, TableContent] = {}
        self.merged: list[Path] = []
        self._files = files
        self._lost = lost.partition_by(FILE, as_dict=True, include_key=False)
        self._order = order

    def add(self, folder: Path, content: TableContent) -> None:
        """Add rows to the last file of a folder, or to a new one, and merge files of like size."""
        present = [path for path in self._files if path.parent == folder]
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

    def drop_lost(self) -> None:
        """Drop the lost rows from the files that get none."""
        for (file,) in self._lost:
            path = Path(str(file))
            if path not in self.contents and path not in self.merged:
                self.contents[path] = self._content(path)

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
        self.merged += files
        self._put(files[0].with_name(file_name(first, last)), parts)

    def _put(self, path: Path, parts: Sequence[TableContent]) -> None:
        made_with = {part.made_with for part in parts if not part.rows.is_empty()}
        rows = pl.concat(part.rows for part in parts)
        rows = rows.sort(self._order, maintain_order=True) if self._order else rows
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
        rows = read_files([path], TABLES[path.parents[2].name]).drop(FILE)
        lost = self._lost.get((str(path),))
        if lost is not None:
            rows = _matched("anti", rows, lost, rows.columns)
        return TableContent(rows, made_with_of(path), arrived_ns_of(path))


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
