"""The files of a store's tables, as readers find them: for each day and bucket, in their order.

A file that is not what looptrace wrote raises `DamagedFileError`, which names it.
"""

import glob
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl

from looptrace.analyzer.schema.findings import FINDING_SCHEMA
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, SPAN_TIES_SCHEMA
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.collector.store.file_names import ANY_DATA, BUCKETS, covered, in_order
from looptrace.collector.store.locks import EVALUATE, DamagedFileError
from looptrace.collector.store.objects.snapshot import fetch, rows_absent
from looptrace.collector.store.tables.file_contents import (
    Hashes,
    Having,
    file_arrived_ns,
    file_made_with,
    file_rows,
    file_spans,
    hashes_of,
    learn,
    may_have,
)

T = TypeVar("T")

# The ties of a span's trace to others are stored with the span, so that the place of a trace is
# known without reading its content.
STORED_SPAN_SCHEMA = pl.Schema({**SPAN_SCHEMA, **SPAN_TIES_SCHEMA})

# The first schema that has a column of turns; for turns of earlier ones it is unknown.
TURN_COLUMNS_ADDED = {
    **dict.fromkeys(("phase_start_ns", "iteration", "metrics"), 3),
    **dict.fromkeys(("finish_reason", "compacted"), 5),
    **dict.fromkeys(("cached_tokens", "cache_write_tokens", "reasoning_tokens"), 6),
    **dict.fromkeys(("user_id", "service_tier"), 7),
    "payer": 8,
}
TIES_VERSION = 3  # The first schema with the ties of spans in columns of their own.

TABLES = {"spans": STORED_SPAN_SCHEMA, "turns": TURN_SCHEMA, "findings": FINDING_SCHEMA}

# The columns with the file of a row, and with its bucket.
FILE, BUCKET = "looptrace file", "looptrace bucket"
_ALL = pl.lit(value=True)
ANYWHERE = f"day=*/bucket=*/{ANY_DATA}"

# Polars panics over some damaged files; a panic is not an Exception.
BAD_PARQUET = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)


def file_patterns(store_dir: Path, table: str) -> list[str]:
    """Return the glob pattern of a table's files, or their names where some of them are covered.

    There is none where the table has no files; remote ones are fetched.
    """
    fetch(store_dir, table)
    found = list((store_dir / table).glob(ANYWHERE))
    if found and not covered(found):
        return [str(Path(glob.escape(str(store_dir)), table, ANYWHERE))]
    return [glob.escape(str(path)) for path in in_order(found)]


def read_bucket(
    store_dir: Path,
    table: str,
    bucket: int,
    columns: list[str] | None = None,
    which: Having | None = None,
    written_since_ns: int = 0,
) -> pl.DataFrame:
    """Read the rows of a bucket, or those of a condition, in the order of their days.

    All columns are read, or those that are named, which include the condition's. Files that were
    last written before a moment are left out.
    """
    schema = TABLES[table]
    wanted = pl.Schema({name: schema[name] for name in columns or schema})
    paths = bucket_files(store_dir, table, bucket)
    if written_since_ns:
        paths = [path for path in paths if path.stat().st_mtime_ns >= written_since_ns]
    if not paths:
        return empty_of(wanted)
    return read_files(files_having(paths, which), wanted, which).drop(FILE)


def read_buckets(
    store_dir: Path,
    table: str,
    which: Mapping[int, Having | None],
    columns: list[str] | None = None,
) -> dict[int, pl.DataFrame]:
    """Read the rows of several buckets at once, each as `read_bucket` does.

    Raises:
        StoreError: if a file is not what looptrace wrote.
    """
    schema = TABLES[table]
    wanted = pl.Schema({name: schema[name] for name in columns or schema})
    files = {bucket: bucket_files(store_dir, table, bucket) for bucket in which}
    rows = read_in_buckets(files_in_buckets(files, which), which, wanted).drop(FILE)
    parts = rows.partition_by(BUCKET, as_dict=True, include_key=False)
    return {bucket: parts.get((bucket,), empty_of(wanted)) for bucket in which}


def read_in_buckets(
    files: Mapping[int, Sequence[Path]], which: Mapping[int, Having | None], columns: pl.Schema
) -> pl.DataFrame:
    """Read files of buckets together, of each the rows of its condition, with FILE and BUCKET.

    Raises:
        DamagedFileError: if a file is not what looptrace wrote; it is named.
    """
    some = {bucket: each for bucket, each in which.items() if each is not None and files[bucket]}
    rest = [path for bucket, paths in files.items() if bucket not in some for path in paths]
    places = {str(path): bucket for bucket, paths in files.items() for path in paths}
    of_file = pl.col(FILE).replace_strict(places, return_dtype=pl.Int32).alias(BUCKET)
    parts = [read_files(rest, columns).with_columns(of_file)]
    if some:
        column = next(iter(some.values())).column
        values = [each.values for each in some.values()]
        buckets = np.repeat([*some], [each.len() for each in values])
        wanted = pl.DataFrame({column: pl.concat(values), BUCKET: buckets.astype(np.int32)})
        paths = [path for bucket in some for path in files[bucket]]
        rows = read_files(paths, columns, Having(column, wanted[column])).with_columns(of_file)
        # A killed writer may have left rows in a bucket that is not theirs.
        on = [column, BUCKET]
        parts.append(rows.join(wanted, on=on, how="semi", maintain_order="left"))
    return pl.concat(parts)


def files_having(paths: Sequence[Path], which: Having | None) -> list[Path]:
    """Return the files that may have rows of a condition; unreadable ones are among them."""
    return files_in_buckets({0: paths}, {0: which})[0]


def files_in_buckets(
    files: Mapping[int, Sequence[Path]], which: Mapping[int, Having | None]
) -> dict[int, list[Path]]:
    """Return of the files of each bucket those that may have rows of its condition.

    Unreadable ones are among them. All conditions are on one column.
    """
    some = {bucket: each for bucket, each in which.items() if each is not None}
    found = {bucket: list(files[bucket]) for bucket in which}
    hashes = hashes_of([each.values for each in some.values()])
    for (bucket, each), asked in zip(some.items(), hashes, strict=True):
        with suppress(*BAD_PARQUET):  # Its reader names it.
            learn(files[bucket], each.column)
        found[bucket] = [path for path in files[bucket] if _may_have(path, each.column, asked)]
    return found


def _may_have(path: Path, column: str, asked: Hashes) -> bool:
    try:
        return may_have(path, column, asked)
    except BAD_PARQUET:
        return True  # Its reader names it.


def read_where(
    store_dir: Path,
    table: str,
    which: pl.Expr,
    columns: list[str] | None = None,
    having: Sequence[Having] = (),
) -> pl.DataFrame:
    """Read the rows of a table that fulfil a condition, and only the needed parts of files.

    Few rows fulfil it, so that the files with some are found first. Where all such rows have one of
    some values, `having` says which, and other files are not opened.
    """
    names = columns or list(TABLES[table])
    paths = table_files(store_dir, table)
    scan = partial(pl.scan_parquet, glob=False, hive_partitioning=False)
    try:
        if having:
            found = {path for each in having for path in files_having(paths, each)}
            paths = [path for path in paths if path in found]
        elif paths and not columns:
            rows = scan(paths, include_file_paths=FILE)
            files = rows.filter(which).select(pl.col(FILE).unique()).collect()
            paths = [Path(path) for path in sorted(files[FILE])]
        if not paths:
            return TABLES[table].to_frame().select(names)
        return scan(paths).filter(which).select(names).collect()
    except BAD_PARQUET:  # Reading bucket by bucket shows which file it is.
        parts = [read_bucket(store_dir, table, bucket) for bucket in range(BUCKETS)]
        return pl.concat(part.filter(which).select(names) for part in parts)


def bucket_made_with(store_dir: Path, table: str, bucket: int) -> str | None:
    """Return what all rows of a bucket were made with; None where files differ or lack the note."""
    files = bucket_files(store_dir, table, bucket)
    noted = {made_with_of(path) for path in files if rows_of(path)}
    return noted.pop() or None if len(noted) == 1 else None


def made_with_of(path: Path) -> str:
    """Return what all rows of a file were made with, or nothing."""
    return _fact(file_made_with, path)


def arrived_ns_of(path: Path) -> int:
    """Return when the last row of a file arrived, in nanoseconds since 1970."""
    return _fact(file_arrived_ns, path)


def rows_of(path: Path) -> int:
    """Return the number of rows of a file."""
    return _fact(file_rows, path)


def _fact(read: Callable[[Path], T], path: Path) -> T:
    """Read a fact of a file; name the file if it is damaged."""
    try:
        return read(path)
    except BAD_PARQUET as error:
        raise _damaged(path, first_line(error)) from error


def scan_bucket(store_dir: Path, table: str, bucket: int) -> pl.LazyFrame:
    """Return the rows of a bucket as a lazy frame with all columns of its table."""
    paths, schema = bucket_files(store_dir, table, bucket), TABLES[table]
    return _scan(paths, schema).drop(FILE) if paths else schema.to_frame().lazy()


def count_bucket(store_dir: Path, table: str, bucket: int) -> int:
    """Return the number of rows of a bucket; an event that waits for its span is none."""
    paths = _present_files(store_dir, table, bucket)
    try:
        count = file_spans if table == "spans" else file_rows
        return sum(map(count, paths)) + rows_absent(store_dir, table, bucket, paths)
    except BAD_PARQUET:
        return read_bucket(store_dir, table, bucket, []).height  # This names the file.


def read_slices(
    slices: Sequence[tuple[Path, int, int | None]], columns: pl.Schema, which: pl.Expr = _ALL
) -> pl.DataFrame:
    """Read slices of files, a start and a number of rows each (None: all), under a condition."""
    try:
        parts = [
            _scan([path], columns).drop(FILE).slice(first, rows) for path, first, rows in slices
        ]
        found = pl.concat([columns.to_frame().lazy(), *parts]).filter(which)
        return found.select(columns.names()).collect()
    except BAD_PARQUET:
        for path, _, _ in slices:
            read_files([path], columns)  # This names the file.
        raise


def _scan(paths: Sequence[Path], columns: pl.Schema) -> pl.LazyFrame:
    """Scan files, with the columns that an earlier schema lacks, and one for each row's file."""
    files = list(paths)
    scan = pl.scan_parquet(files, glob=False, hive_partitioning=False, include_file_paths=FILE)
    absent = TURN_COLUMNS_ADDED.keys() & columns.keys() - {*schema_of(files[0])}
    unknown = (pl.lit(None, columns[name]).alias(name) for name in absent)
    return scan.with_columns(unknown).select(*columns, FILE)


def read_files(
    paths: Sequence[Path], columns: pl.Schema, which: Having | None = None
) -> pl.DataFrame:
    """Read files together, with a column for each row's file."""
    expected = pl.Schema({**columns, FILE: pl.String()})
    if not paths:
        return empty_of(expected)
    try:
        rows = _scan(paths, columns).filter(_ALL if which is None else which.expr).collect()
        why = "its columns are not those of looptrace"
    except BAD_PARQUET as error:
        rows, why = pl.DataFrame(), first_line(error)
    if rows.schema == expected:
        return rows
    if len(paths) > 1:
        return pl.concat(read_files([path], columns, which) for path in paths)
    raise _damaged(paths[0], why)


def empty_of(columns: pl.Schema) -> pl.DataFrame:
    """Return a frame without rows; a new one takes a millisecond, and each bucket asks for it."""
    return _no_rows(tuple(columns.items())).clone()


@lru_cache
def _no_rows(columns: tuple[tuple[str, pl.DataType], ...]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict(columns))


def is_whole(path: Path, columns: pl.Schema) -> bool:
    """Return whether a file can be read, and has these columns."""
    try:
        read_files([path], columns)
    except DamagedFileError:
        return False
    return True


def _damaged(path: Path, why: str) -> DamagedFileError:
    return DamagedFileError(path, f"{path}: cannot be read ({why}); {if_damaged(path)}.")


def if_damaged(path: Path | str) -> str:
    """Return what to do with a damaged file, by its table."""
    if "/spans/" in Path(path).as_posix():
        return "move it away and ingest the traces of its day again"
    return f"move it away, and to make it again, {EVALUATE}"


def schema_of(path: Path) -> pl.Schema:
    """Return the columns of a file."""
    return pl.scan_parquet(path, glob=False, hive_partitioning=False).collect_schema()


def bucket_files(store_dir: Path, table: str, bucket: int) -> list[Path]:
    """Return the files of a bucket in the order of their days; remote ones are fetched."""
    fetch(store_dir, table, bucket)
    return _present_files(store_dir, table, bucket)


def table_files(store_dir: Path, table: str) -> list[Path]:
    """Return the files of a table in the order of their days; remote ones are fetched."""
    fetch(store_dir, table)
    return in_order((store_dir / table).glob(ANYWHERE))


def _present_files(store_dir: Path, table: str, bucket: int) -> list[Path]:
    return in_order((store_dir / table).glob(f"day=*/{_bucket_folder(bucket)}/{ANY_DATA}"))


def buckets_with_files(store_dir: Path) -> list[int]:
    """Return the buckets that have files of any table; the files of a remote store are fetched."""
    found = {
        int(path.parent.name.partition("=")[2])
        for table in TABLES
        for path in table_files(store_dir, table)
    }
    return sorted(found)


def folder_of(store_dir: Path, table: str, day: str, bucket: int) -> Path:
    """Return the folder with the files of a bucket and day."""
    return store_dir / table / day_folder(day) / _bucket_folder(bucket)


def day_of(path: Path) -> str:
    """Return the day of a file."""
    return path.parent.parent.name.partition("=")[2]


def day_folder(day: str) -> str:
    """Return the name of the folder of a day."""
    return f"day={day}"


def _bucket_folder(bucket: int) -> str:
    return f"bucket={bucket:02}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error of Polars, which says what is wrong."""
    return str(error).partition("\n")[0]
