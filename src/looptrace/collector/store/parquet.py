"""The files of a store: one Parquet file for each table, day and bucket.

Files are written aside, synced and renamed, so that readers find only whole files.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

import polars as pl

from looptrace.analyzer.schema.findings import FINDING_SCHEMA
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, SPAN_TIES_SCHEMA
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.collector.store.locks import (
    DamagedFileError,
    StoreError,
    make_folder,
    replacing,
    sync_folder,
)
from looptrace.collector.store.objects.snapshot import fetch, rows_absent

# The ties of a span's trace to others are stored with the span, so that the place of a trace is
# known without reading its content.
STORED_SPAN_SCHEMA = pl.Schema({**SPAN_SCHEMA, **SPAN_TIES_SCHEMA})

# The columns that schemas before the third lack; they are unknown for such turns.
TURN_COLUMNS_ADDED = frozenset({"phase_start_ns", "iteration", "metrics"})

TABLES = {"spans": STORED_SPAN_SCHEMA, "turns": TURN_SCHEMA, "findings": FINDING_SCHEMA}

# Few enough that a small store has few files, and enough that one bucket of a large one fits into
# memory. It never changes, because it decides the place of a task.
BUCKETS = 16

DATA = "data.parquet"  # The name of every file with rows.
_ASIDE = f".{DATA}.tmp-"
_MADE_WITH = "looptrace.made_with"  # A note in a file's metadata.
_FIRST_DAY = "1970-01-01"
_FILE = "looptrace file"  # The column with the file of a row.
_ALL = pl.lit(value=True)
_NOT_NOTED: Mapping[Path, str] = MappingProxyType({})


# Polars panics over some damaged files; a panic is not an Exception.
_BAD_PARQUET = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)


def files_pattern(store_dir: Path, table: str) -> str:
    """Return the glob pattern of a table's files."""
    return str(Path(glob.escape(str(store_dir)), table, "day=*", "bucket=*", DATA))


def read_bucket(
    store_dir: Path,
    table: str,
    bucket: int,
    columns: list[str] | None = None,
    which: pl.Expr = _ALL,
) -> pl.DataFrame:
    """Read the rows of a bucket that fulfil a condition, in the order of their days.

    All columns are read, or those that are named, which include the condition's.

    Raises:
        StoreError: if a file is not what looptrace wrote.
    """
    schema = TABLES[table]
    wanted = pl.Schema({name: schema[name] for name in columns or schema})
    return _read(bucket_files(store_dir, table, bucket), wanted, which).drop(_FILE)


def read_where(
    store_dir: Path, table: str, which: pl.Expr, columns: list[str] | None = None
) -> pl.DataFrame:
    """Read the rows of a table that fulfil a condition, and only the needed parts of files.

    Few rows fulfil it, so that the files with some are found first.

    Raises:
        StoreError: if a file is not what looptrace wrote.
    """
    names = columns or list(TABLES[table])
    paths = table_files(store_dir, table)
    scan = partial(pl.scan_parquet, glob=False, hive_partitioning=False)
    try:
        if not columns:
            rows = scan(paths, include_file_paths=_FILE)
            files = rows.filter(which).select(pl.col(_FILE).unique()).collect()
            # Where no file has such a row, one file gives the columns.
            paths = [Path(path) for path in sorted(files[_FILE])] or paths[:1]
        return scan(paths).filter(which).select(names).collect()
    except _BAD_PARQUET:  # Reading bucket by bucket shows which file it is.
        parts = [read_bucket(store_dir, table, bucket) for bucket in range(BUCKETS)]
        return pl.concat(part.filter(which).select(names) for part in parts)


def rewrite(
    store_dir: Path,
    table: str,
    earlier: pl.Schema,
    complete: Callable[[pl.DataFrame], pl.DataFrame] = lambda rows: rows,
) -> None:
    """Rewrite the files of a table's earlier schema with the columns that `complete` adds.

    Raises:
        StoreError: if a file is not what looptrace wrote, or cannot be written.
    """
    for path in table_files(store_dir, table):
        rows = _read([path], earlier).drop(_FILE)
        if _schema(path) != TABLES[table]:
            _write_files(store_dir, {path: complete(rows)})


def write_bucket(
    store_dir: Path,
    table: str,
    bucket: int,
    rows: pl.DataFrame,
    start_ns: pl.Series,
    made_with: str = "",
) -> None:
    """Replace all rows of a bucket, as `replace_rows` does."""
    replace_rows(store_dir, table, bucket, _ALL, rows, start_ns, made_with=made_with)


def replace_rows(
    store_dir: Path,
    table: str,
    bucket: int,
    gone: pl.Expr,
    rows: pl.DataFrame,
    start_ns: pl.Series,
    order: Sequence[str] = (),
    made_with: str = "",
) -> int:
    """Replace the rows of a bucket that fulfil a condition by others, on the days of their starts.

    Only the files of such days, and those with rows that go, are read and written, so that a store
    of many days costs no more than one of a few. Rows of a file are sorted by `order`. Files note
    what all their rows were `made_with`, for `bucket_made_with`. Equal files are not written.
    Returns by how many rows the bucket grew.

    Raises:
        StoreError: if a file is not what looptrace wrote, or cannot be written.
    """
    day = pl.from_epoch(start_ns, time_unit="ns").dt.date().cast(pl.String)
    by_day = rows.with_columns(day=day).partition_by("day", as_dict=True, include_key=False)
    came = {_file(store_dir, table, str(day), bucket): part for (day,), part in by_day.items()}
    files, empty = bucket_files(store_dir, table, bucket), TABLES[table].to_frame()
    touched = [path for path in files if path in came] + _with_rows(files, table, gone)
    parts = _read(sorted({*touched}), TABLES[table])
    stored = parts.partition_by(_FILE, as_dict=True, include_key=False)
    changed: dict[Path, pl.DataFrame] = {}
    notes: dict[Path, str] = {}
    for path in sorted({*came, *touched}):
        before = stored.get((str(path),), empty)
        kept = before.filter(~gone)
        after = pl.concat([kept, came.get(path, empty)])
        after = after.sort(order, maintain_order=True) if order else after
        noted = _made_with(path) if path in files else None
        notes[path] = made_with if kept.is_empty() or noted == made_with else ""
        if noted != notes[path] or not after.equals(before):
            changed[path] = after
    _write_files(store_dir, changed, notes)
    return sum(map(len, changed.values())) - sum(
        stored.get((str(path),), empty).height for path in changed
    )


def _with_rows(files: list[Path], table: str, which: pl.Expr) -> list[Path]:
    """Return the files that have rows which fulfil a condition; all where one cannot be read."""
    names = which.meta.root_names()
    if not names or not files:
        return files
    try:
        rows = _scan(files, pl.Schema({name: TABLES[table][name] for name in names}))
        found = rows.filter(which).select(pl.col(_FILE).unique()).collect()
    except _BAD_PARQUET:
        return files
    return list(map(Path, found[_FILE]))


def bucket_made_with(store_dir: Path, table: str, bucket: int) -> str | None:
    """Return what all rows of a bucket were made with; None where files differ or lack the note.

    Raises:
        StoreError: if a file is not what looptrace wrote.
    """
    noted = {_made_with(path) for path in bucket_files(store_dir, table, bucket) if _has_rows(path)}
    return noted.pop() or None if len(noted) == 1 else None


def scan_bucket(store_dir: Path, table: str, bucket: int) -> pl.LazyFrame:
    """Return the rows of a bucket as a lazy frame with all columns of its table."""
    paths, schema = bucket_files(store_dir, table, bucket), TABLES[table]
    return _scan(paths, schema).drop(_FILE) if paths else schema.to_frame().lazy()


def count_bucket(store_dir: Path, table: str, bucket: int) -> int:
    """Return the number of rows of a bucket, from the footers of its files.

    Raises:
        StoreError: if a file is not what looptrace wrote.
    """
    paths = _present_files(store_dir, table, bucket)
    try:
        return sum(map(file_rows, paths)) + rows_absent(store_dir, table, bucket, paths)
    except _BAD_PARQUET:
        return read_bucket(store_dir, table, bucket, []).height  # This names the file.


def prepare_files(store_dir: Path) -> None:
    """Write an empty file for each table, which gives it columns before there is a row.

    Raises:
        StoreError: if a file cannot be written.
    """
    empty = {_template(store_dir, table): schema.to_frame() for table, schema in TABLES.items()}
    _write_files(store_dir, empty)


def _made_with(path: Path) -> str:
    try:
        return pl.read_parquet_metadata(path).get(_MADE_WITH, "")
    except _BAD_PARQUET as error:
        raise _damaged(path, _first_line(error)) from error


def _write_files(
    store_dir: Path, files: Mapping[Path, pl.DataFrame], made_with: Mapping[Path, str] = _NOT_NOTED
) -> None:
    asides = {path: path.with_name(f"{_ASIDE}{os.getpid()}") for path in files}
    try:
        for path, rows in files.items():
            make_folder(path.parent)
            with asides[path].open("wb") as file:
                rows.write_parquet(
                    file, compression="zstd", metadata={_MADE_WITH: made_with.get(path, "")}
                )
                file.flush()
                os.fsync(file.fileno())
        with replacing(store_dir):
            for path, aside in asides.items():
                aside.replace(path)
            for folder in {path.parent for path in files}:
                sync_folder(folder)
    except (OSError, pl.exceptions.PolarsError) as error:
        for aside in asides.values():
            aside.unlink(missing_ok=True)
        raise StoreError(
            f"{path}: cannot be written ({_first_line(error)}); "
            "check space and permissions, then try again."
        ) from error


def read_slices(
    slices: Sequence[tuple[Path, int, int | None]], columns: pl.Schema, which: pl.Expr = _ALL
) -> pl.DataFrame:
    """Read slices of files, a start and a number of rows each (None: all), under a condition.

    Raises:
        StoreError: if a file is not what looptrace wrote.
    """
    try:
        parts = [
            _scan([path], columns).drop(_FILE).slice(first, rows) for path, first, rows in slices
        ]
        found = pl.concat([columns.to_frame().lazy(), *parts]).filter(which)
        return found.select(columns.names()).collect()
    except _BAD_PARQUET:
        for path, _, _ in slices:
            _read([path], columns)  # This names the file.
        raise


def _scan(paths: list[Path], columns: pl.Schema) -> pl.LazyFrame:
    """Scan files, with the columns that an earlier schema lacks, and one for each row's file."""
    scan = pl.scan_parquet(paths, glob=False, hive_partitioning=False, include_file_paths=_FILE)
    absent = TURN_COLUMNS_ADDED.intersection(columns) - {*_schema(paths[0])}
    unknown = (pl.lit(None, columns[name]).alias(name) for name in absent)
    return scan.with_columns(unknown).select(*columns, _FILE)


def _read(paths: list[Path], columns: pl.Schema, which: pl.Expr = _ALL) -> pl.DataFrame:
    """Read files together, with a column for each row's file; name a bad one."""
    expected = pl.Schema({**columns, _FILE: pl.String()})
    if not paths:
        return expected.to_frame()
    try:
        rows = _scan(paths, columns).filter(which).collect()
        why = "its columns are not those of looptrace"
    except _BAD_PARQUET as error:
        rows, why = pl.DataFrame(), _first_line(error)
    if rows.schema == expected:
        return rows
    if len(paths) > 1:
        return pl.concat(_read([path], columns, which) for path in paths)
    raise _damaged(paths[0], why)


def _is_whole(path: Path, columns: pl.Schema) -> bool:
    try:
        _read([path], columns)
    except DamagedFileError:
        return False
    return True


def _damaged(path: Path, why: str) -> DamagedFileError:
    return DamagedFileError(
        path,
        f"{path}: cannot be read ({why}); move it away and ingest the traces of its day again.",
    )


def _schema(path: Path) -> pl.Schema:
    return pl.scan_parquet(path, glob=False, hive_partitioning=False).collect_schema()


def bucket_files(store_dir: Path, table: str, bucket: int) -> list[Path]:
    """Return the files of a bucket in the order of their days; remote ones are fetched."""
    fetch(store_dir, table, bucket)
    return _present_files(store_dir, table, bucket)


def table_files(store_dir: Path, table: str) -> list[Path]:
    """Return the files of a table; remote ones are fetched."""
    fetch(store_dir, table)
    return sorted((store_dir / table).glob(f"day=*/bucket=*/{DATA}"))


def _present_files(store_dir: Path, table: str, bucket: int) -> list[Path]:
    return sorted((store_dir / table).glob(f"day=*/{_bucket_folder(bucket)}/{DATA}"))


def _file(store_dir: Path, table: str, day: str, bucket: int) -> Path:
    return store_dir / table / _day_folder(day) / _bucket_folder(bucket) / DATA


def _template(store_dir: Path, table: str) -> Path:
    """Return the file that gives a table its columns; it may also have rows."""
    return _file(store_dir, table, _FIRST_DAY, 0)


def _has_rows(path: Path) -> bool:
    """Return whether a file has rows; an unreadable file counts as one with rows."""
    try:
        return file_rows(path) > 0
    except _BAD_PARQUET:
        return True


def file_rows(path: Path) -> int:
    """Return the number of rows of a file, from its footer."""
    return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())


def _day_folder(day: str) -> str:
    return f"day={day}"


def _bucket_folder(bucket: int) -> str:
    return f"bucket={bucket:02}"


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
