"""What is known of a file without reading it again: its rows, its note, and the values of a column.

A writer looks in all files of a bucket for rows of few traces, again and again. So a file is read
once for each column, and again where it was replaced.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from looptrace.analyzer.schema.spans import LOGGED

# Notes in a file's metadata: what all of its rows were made with, and when the last one arrived, in
# nanoseconds since 1970.
MADE_WITH, ARRIVED = "looptrace.made_with", "looptrace.arrived_ns"
# More than a store of a year has; a file's facts take some 100 bytes.
_FILES_KNOWN = 100_000

_FILE = "looptrace file"  # The column with the file of a row.
# The columns by whose values rows are looked for.
_SOUGHT = ("task", "trace_id")

Stamp = tuple[int, int, int]
Hashes = npt.NDArray[np.uint64]
_NONE: Hashes = np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Having:
    """The condition that a row has one of these values in a column."""

    column: str
    values: pl.Series

    @property
    def expr(self) -> pl.Expr:
        """The condition as an expression."""
        return pl.col(self.column).is_in(self.values.implode())


def hashes_of(every: Sequence[pl.Series]) -> list[Hashes]:
    """Return the hashes of the values of each series, for `may_have`."""
    if not every:
        return []
    ends = np.cumsum([each.len() for each in every])
    return np.split(pl.concat(every).hash().to_numpy(), ends[:-1])


@dataclass(slots=True)
class _Facts:
    """What is known of a file as it was at one moment."""

    stamp: Stamp
    rows: int | None = None
    spans: int | None = None
    made_with: str | None = None
    arrived_ns: int | None = None
    hashes: dict[str, Hashes] = field(default_factory=dict)  # by column, sorted


def file_rows(path: Path) -> int:
    """Return the number of rows of a file, from its footer."""
    facts = _facts(path)
    if facts.rows is None:
        facts.rows = int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    return facts.rows


def file_spans(path: Path) -> int:
    """Return the number of spans of a file, without events of log records that wait for theirs."""
    facts = _facts(path)
    if facts.spans is None:
        spans = pl.scan_parquet(path, glob=False).filter(pl.col("status") != LOGGED)
        facts.spans = int(spans.select(pl.len()).collect().item())
    return facts.spans


def file_made_with(path: Path) -> str:
    """Return what all rows of a file were made with; empty where they differ or it is not noted."""
    facts = _facts(path)
    if facts.made_with is None:
        facts.made_with = pl.read_parquet_metadata(path).get(MADE_WITH, "")
    return facts.made_with


def file_arrived_ns(path: Path) -> int:
    """Return when the last row of a file arrived; files without a note were written then."""
    facts = _facts(path)
    if facts.arrived_ns is None:
        noted = pl.read_parquet_metadata(path).get(ARRIVED, "")
        facts.arrived_ns = int(noted) if noted.isdecimal() else facts.stamp[1]
    return facts.arrived_ns


def learn(paths: Iterable[Path], column: str) -> None:
    """Read the values of a column of several files at once, where they are not known.

    Raises:
        OSError, PolarsError: if a file is not what looptrace wrote.
    """
    unknown = {str(path): _facts(path) for path in paths}
    unknown = {path: facts for path, facts in unknown.items() if column not in facts.hashes}
    if not unknown:
        return
    scan = pl.scan_parquet(
        [*unknown], glob=False, hive_partitioning=False, include_file_paths=_FILE
    )
    found = scan.select(_FILE, pl.col(column).hash()).unique().sort(column).collect()
    parts = found.partition_by(_FILE, as_dict=True, maintain_order=True).items()
    hashes = {file: rows[column].to_numpy() for (file,), rows in parts}
    for path, facts in unknown.items():  # Each at once, because other threads read them.
        facts.hashes[column] = hashes.get(path, _NONE)


def may_have(path: Path, column: str, asked: Hashes) -> bool:
    """Return whether a file has rows with a value of these hashes in a column."""
    facts = _facts(path)
    if (known := facts.hashes.get(column)) is None:
        values = pl.read_parquet(path, columns=[column], glob=False, hive_partitioning=False)
        known = facts.hashes[column] = np.unique(hashes_of([values[column]])[0])
    if not known.size:
        return False
    nearest = np.minimum(np.searchsorted(known, asked), known.size - 1)
    return bool((known[nearest] == asked).any())


def note(written: Mapping[Path, tuple[pl.DataFrame, str, int]]) -> None:
    """Note the files of a table that this process has written, so that they need not be read.

    Each is noted with its rows, what they were made with, and when the last one arrived.
    """
    tables = [rows for rows, *_ in written.values()]
    sought = [name for name in _SOUGHT if tables and name in tables[0].columns]
    hashes = {name: hashes_of([rows[name] for rows in tables]) for name in sought}
    for at, (path, (rows, made_with, arrived_ns)) in enumerate(written.items()):
        forget(path)
        facts = _facts(path)
        facts.rows, facts.made_with, facts.arrived_ns = rows.height, made_with, arrived_ns
        if "status" in rows.columns:
            facts.spans = int((rows["status"] != LOGGED).sum())
        facts.hashes = {name: np.unique(of_files[at]) for name, of_files in hashes.items()}


def forget(path: Path) -> None:
    """Forget a file that this process has deleted."""
    _known(path).clear()


def _facts(path: Path) -> _Facts:
    stat = path.stat()
    stamp = stat.st_ino, stat.st_mtime_ns, stat.st_size
    known = _known(path)
    if not known or known[0].stamp != stamp:
        known[:] = [_Facts(stamp)]
    return known[0]


@lru_cache(maxsize=_FILES_KNOWN)
def _known(_path: Path) -> list[_Facts]:
    return []
