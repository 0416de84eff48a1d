"""The rows of some services on a day of a store: how many there are, and their deletion."""

from pathlib import Path

import polars as pl

from looptrace.collector.store.file_names import BUCKETS
from looptrace.collector.store.tables.parquet import (
    FILE,
    TABLES,
    arrived_ns_of,
    bucket_files,
    day_of,
    made_with_of,
    read_files,
)
from looptrace.collector.store.tables.writing import TableContent, write_files

_SERVICE = pl.Schema({"service": pl.String()})
_TURN = ("trace_id", "span_id")


def count_rows(store_dir: Path, table: str, day: str, which: pl.Expr) -> int:
    """Return the number of rows of a day whose service fulfils a condition.

    Raises:
        StoreError: if a file is not what looptrace wrote.
    """
    return sum(
        read_files([path], _SERVICE).filter(which).height
        for bucket in range(BUCKETS)
        for path in _files(store_dir, table, bucket, day)
    )


def delete_rows(store_dir: Path, day: str, which: pl.Expr) -> None:
    """Delete the spans and turns of a day whose service fulfils a condition, and their findings.

    Spans go last: from those that a kill leaves, the rest is made again.

    Raises:
        StoreError: if a file is not what looptrace wrote, or cannot be written.
    """
    for bucket in range(BUCKETS):
        turns = read_files(_files(store_dir, "turns", bucket, day), TABLES["turns"]).filter(which)
        gone = turns.select(*_TURN).unique()
        for path in _files(store_dir, "findings", bucket, day):
            rows = read_files([path], TABLES["findings"]).drop(FILE)
            of = rows.select("id", "turns").explode("turns").unnest("turns").select("id", *_TURN)
            of = of.join(gone, on=_TURN, how="semi")
            _keep(store_dir, path, rows, rows.filter(~pl.col("id").is_in(of["id"].implode())))
        for table in ("turns", "spans"):
            for path in _files(store_dir, table, bucket, day):
                rows = read_files([path], TABLES[table]).drop(FILE)
                _keep(store_dir, path, rows, rows.filter(~which))


def _files(store_dir: Path, table: str, bucket: int, day: str) -> list[Path]:
    return [path for path in bucket_files(store_dir, table, bucket) if day_of(path) == day]


def _keep(store_dir: Path, path: Path, rows: pl.DataFrame, kept: pl.DataFrame) -> None:
    """Write the rows that are kept in the place of all rows of a file."""
    if kept.height == rows.height:
        return
    content = TableContent(kept, made_with_of(path), arrived_ns_of(path))
    if kept.height:
        write_files(store_dir, {path: content})
    else:
        write_files(store_dir, {}, [path])
