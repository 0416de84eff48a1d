"""The writing of whole files: aside, synced and renamed, so that readers find no half of one."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from looptrace.collector.store.locks import StoreError, make_folder, replacing, sync_folder
from looptrace.collector.store.tables.file_contents import ARRIVED, MADE_WITH, forget, note
from looptrace.collector.store.tables.parquet import (
    FILE,
    TABLES,
    arrived_ns_of,
    first_line,
    read_files,
    schema_of,
    table_files,
)

_ASIDE = "tmp-"
ASIDES = f".data*.{_ASIDE}*"  # The pattern of unfinished files.


class TableContent(NamedTuple):
    """The rows of a file, what all were made with, or nothing, and when the last arrived."""

    rows: pl.DataFrame
    made_with: str = ""
    arrived_ns: int = 0  # since 1970

    @property
    def metadata(self) -> dict[str, str]:
        """The notes in the metadata of the file."""
        return {MADE_WITH: self.made_with, ARRIVED: str(self.arrived_ns)}


def write_files(
    store_dir: Path, contents: Mapping[Path, TableContent], merged: Sequence[Path] = ()
) -> None:
    """Write files, and delete those that were merged into them.

    They are renamed in their order, so that a kill between two of them does not lose a row that
    goes from a later one to an earlier one. Merged files that a kill leaves are covered by the
    name of the file that has their rows, and `sweep` deletes them.

    Raises:
        StoreError: if a file cannot be written.
    """
    asides = {path: path.with_name(f".{path.name}.{_ASIDE}{os.getpid()}") for path in contents}
    path = store_dir
    try:
        for path in contents:
            make_folder(path.parent)
        path = store_dir if len(contents) > 1 else path
        pl.collect_all([_writing(each, asides[path]) for path, each in contents.items()])
        for aside in asides.values():
            _sync(aside)
        with replacing(store_dir):
            for path, aside in asides.items():
                aside.replace(path)
            note(contents)
            for folder in {path.parent for path in contents}:
                sync_folder(folder)
            for path in merged:
                path.unlink(missing_ok=True)
                forget(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        for aside in asides.values():
            aside.unlink(missing_ok=True)
        raise StoreError(
            f"{path}: cannot be written ({first_line(error)}); "
            "check space and permissions, then try again."
        ) from error


def _writing(content: TableContent, aside: Path) -> pl.LazyFrame:
    return content.rows.lazy().sink_parquet(
        aside, compression="zstd", metadata=content.metadata, lazy=True
    )


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


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
        rows = read_files([path], earlier).drop(FILE)
        if schema_of(path) != TABLES[table]:
            content = TableContent(complete(rows), arrived_ns=arrived_ns_of(path))
            write_files(store_dir, {path: content})
