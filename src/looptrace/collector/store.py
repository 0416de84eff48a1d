"""The store: spans, turns and findings as Parquet files that any engine can read.

A store is a folder with a marker file and, for each table, files by day and by bucket. A bucket
holds whole tasks, and whatever else their turns depend on, so that it is the unit of work. Files
are written aside and renamed and never deleted, so that readers need no lock.
"""

from __future__ import annotations

import glob
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import polars as pl

from looptrace.analyzer.batch import findings_of
from looptrace.analyzer.facts import facts_of
from looptrace.analyzer.family import groups
from looptrace.analyzer.findings import Finding
from looptrace.analyzer.normalise import turns_of
from looptrace.analyzer.spans import SPAN_SCHEMA, Skipped, distinct_spans
from looptrace.analyzer.turns import TURN_SCHEMA

if sys.platform != "win32":
    import fcntl

# The ids that tie a span's trace to others: its session, its task, the traces it links to. Kept
# with the span, they tell where a trace belongs without reading what it did.
STORED_SPAN_SCHEMA = pl.Schema({**SPAN_SCHEMA, "ties": pl.List(pl.String)})

# `Finding`, with its cost flattened.
FINDING_SCHEMA = pl.Schema(
    {
        "id": pl.String(),
        "rule": pl.String(),
        "task": pl.String(),
        "session": pl.String(),
        "trace_id": pl.String(),
        "agent": pl.String(),
        "turn_first": pl.UInt32(),
        "turn_last": pl.UInt32(),
        "attempts": pl.Int64(),
        "loop_count": pl.Int64(),
        "period": pl.Int64(),
        "signature": pl.String(),
        "reason": pl.String(),
        "action": pl.String(),
        "turns": pl.List(
            pl.Struct(
                {
                    "trace_id": pl.String(),
                    "span_id": pl.String(),
                    "turn": pl.UInt32(),
                    "role": pl.String(),
                }
            )
        ),
        "cost_seconds": pl.Float64(),
        "cost_input_tokens": pl.Int64(),
        "cost_output_tokens": pl.Int64(),
    }
)

TABLES = {"spans": STORED_SPAN_SCHEMA, "turns": TURN_SCHEMA, "findings": FINDING_SCHEMA}

_MARKER = "looptrace-store.json"
_LOCK = "looptrace-store.lock"
_UNFINISHED = "looptrace-store.unfinished"
_SCHEMA_VERSION = 1

# Few enough that a small store has few files, and enough that one bucket of a large one fits into
# memory. Never changed: it decides where a task lies.
_BUCKETS = 16
_BUCKET_HASH_BYTES = 8

DATA = "data.parquet"  # the name of every file with rows
_ASIDE = f".{DATA}.tmp-"
_FIRST_DAY = "1970-01-01"
_ROW_KEY = ["trace_id", "span_id"]


class StoreError(Exception):
    """The store cannot be used; the message is one line that says where, why and what to do."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """What one ingest did, and how many turns and findings the store holds after it.

    `spans_known` were there before. `skipped` are the spans that lost against another with the
    same id.
    """

    spans_new: int
    spans_known: int
    turns: int
    findings: int
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a store holds."""

    spans: int
    sessions: int


def is_store(path: Path) -> bool:
    """Tell whether a path is a store's folder."""
    return (path / _MARKER).is_file()


def require_store(store_dir: Path) -> None:
    """Check that a folder is a store that this version can read.

    Raises:
        StoreError: if it is none, or one of a newer version.
    """
    marker = store_dir / _MARKER
    if not marker.is_file():
        raise StoreError(f"{store_dir}: is not a store; make one with `looptrace ingest`.")
    try:
        found = json.loads(marker.read_bytes())
        version, buckets = int(found["schema"]), int(found["buckets"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"{marker}: cannot be read ({error}); make a new store from the traces."
        ) from error
    if version != _SCHEMA_VERSION or buckets != _BUCKETS:
        raise StoreError(
            f"{store_dir}: was written by another version of looptrace (schema {version}, "
            f"{buckets} buckets; known is schema {_SCHEMA_VERSION}, {_BUCKETS} buckets); "
            "update looptrace."
        )


def files_pattern(store_dir: Path, table: str, bucket: int | None = None) -> str:
    """Return the glob pattern of a table's files, of all buckets or of one."""
    folder = f"bucket={'*' if bucket is None else _number(bucket)}"
    return str(Path(glob.escape(str(store_dir)), table, "day=*", folder, DATA))


def counts(store_dir: Path) -> Counts:
    """Count the spans of a store, and the sessions of its turns.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    require_store(store_dir)
    sessions: set[str] = set()
    for bucket in range(_BUCKETS):
        sessions.update(_read(store_dir, "turns", bucket, ["session"])["session"])
    return Counts(_rows(store_dir, "spans"), len(sessions))


def read_turns(store_dir: Path) -> Iterator[pl.DataFrame]:
    """Read the turns (`TURN_SCHEMA`) bucket by bucket, sorted by task and turn.

    A task is never split between two tables. Empty buckets are left out.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    require_store(store_dir)
    for bucket in range(_BUCKETS):
        turns = _read(store_dir, "turns", bucket)
        if not turns.is_empty():
            # A person's message has the number of the turn before it, and comes after it.
            of_person = pl.col("kind") == "user"
            yield turns.sort("task", "turn", of_person, "order_ns", maintain_order=True)


def ingest(spans: pl.DataFrame, store_dir: Path) -> Ingested:
    """Add spans (`SPAN_SCHEMA`) to a store, which is made where there is none.

    What the store holds afterwards depends only on the set of all spans ever ingested. One bucket
    is in memory at a time, beside the given spans. Whatever an ingest that was killed left
    behind is repaired.

    Raises:
        StoreError: if the folder is something else than a store, a file cannot be read or
            written, or another ingest is at work.
    """
    spans, skipped = distinct_spans(spans)
    with _locked(store_dir):
        unfinished = store_dir / _UNFINISHED
        stale = set(range(_BUCKETS)) if unfinished.exists() else set()
        unfinished.touch()
        known = _known(store_dir, spans)
        touched, replaced = _place(store_dir, spans.with_columns(ties=_ties(spans)))
        for bucket in sorted(stale | touched):
            _derive(store_dir, bucket)
        unfinished.unlink()
        return Ingested(
            spans_new=spans.height - known,
            spans_known=known,
            turns=_rows(store_dir, "turns"),
            findings=_rows(store_dir, "findings"),
            skipped=(*skipped, *replaced),
        )


@contextmanager
def _locked(store_dir: Path) -> Iterator[None]:
    """Make the store where there is none, and keep other ingests out meanwhile."""
    try:
        store_dir.mkdir(parents=True, exist_ok=True)
        foreign = {entry.name for entry in store_dir.iterdir()} - {_LOCK, *TABLES}
    except OSError as error:
        raise StoreError(
            f"{store_dir}: cannot be a store ({error}); give another folder."
        ) from error
    if foreign and not is_store(store_dir):
        raise StoreError(f"{store_dir}: is a folder of something else; give a new or empty one.")
    lock = _take_lock(store_dir / _LOCK)
    try:
        _prepare(store_dir)
        yield
    finally:
        os.close(lock)
        if sys.platform == "win32":
            (store_dir / _LOCK).unlink()


def _take_lock(path: Path) -> int:
    """Open and lock a file; the lock is gone with the process, also if it is killed."""
    try:
        if sys.platform == "win32":
            return os.open(path, os.O_CREAT | os.O_EXCL)
        lock = os.open(path, os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise
        return lock
    except OSError as error:
        raise StoreError(
            f"{path}: another ingest is at work on this store ({error.strerror}); "
            "wait until it ends."
        ) from error


def _prepare(store_dir: Path) -> None:
    """Sweep what a killed ingest left, and make a new store's marker, last."""
    for table in TABLES:
        for aside in store_dir.glob(f"{table}/day=*/bucket=*/{_ASIDE}*"):
            aside.unlink()
    if is_store(store_dir):
        require_store(store_dir)
        return
    # An empty file gives each table its columns before it has a row.
    for table, schema in TABLES.items():
        _write_file(_file(store_dir, table, _FIRST_DAY, 0), schema.to_frame())
    marker = json.dumps({"schema": _SCHEMA_VERSION, "buckets": _BUCKETS})
    (store_dir / _MARKER).write_text(f"{marker}\n", encoding="utf-8")


def _place(store_dir: Path, spans: pl.DataFrame) -> tuple[set[int], list[Skipped]]:
    """Bring every span, given or stored, to the bucket where its trace belongs.

    What comes anew can tie stored traces together, or untie them by replacing a span, so stored
    traces can move. They are added to the one bucket before they are taken from the other, so
    that a kill loses none; it may leave them in both, which the next call puts right.
    """
    touched: set[int] = set()
    replaced: list[Skipped] = []
    while True:
        stored = _stored_ties(store_dir)
        buckets = _buckets_of(pl.concat([stored.drop("bucket"), _tie_rows(spans)]))
        strays = stored.join(buckets, on="trace_id").filter(pl.col("bucket") != pl.col("target"))
        strays = strays.select("bucket", "trace_id").unique()
        if spans.is_empty() and strays.is_empty():
            return touched, replaced
        left = set(strays["bucket"])
        spans = pl.concat([spans, *(_split(store_dir, bucket, strays)[0] for bucket in left)])
        arriving = spans.join(buckets, on="trace_id").partition_by(
            "target", as_dict=True, include_key=False
        )
        for (bucket,), part in arriving.items():
            replaced += _add(store_dir, bucket, part)
            touched.add(bucket)
        for bucket in left:
            _write_spans(store_dir, bucket, _split(store_dir, bucket, strays)[1])
        touched |= left
        spans = spans.clear()


def _add(store_dir: Path, bucket: int, spans: pl.DataFrame) -> list[Skipped]:
    """Merge spans into a bucket; returned are those that lost against another of the same id."""
    both = pl.concat([_read(store_dir, "spans", bucket), spans])
    # The same span may have been stored by a version that saw other ties.
    both = both.unique(list(SPAN_SCHEMA), keep="last", maintain_order=True)
    kept, replaced = distinct_spans(both)
    _write_spans(store_dir, bucket, kept)
    return replaced


def _split(store_dir: Path, bucket: int, strays: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read a bucket's spans: those of traces that belong elsewhere, and the others."""
    spans = _read(store_dir, "spans", bucket)
    traces = strays.filter(pl.col("bucket") == bucket)["trace_id"]
    leaves = spans["trace_id"].is_in(traces.implode())
    return spans.filter(leaves), spans.filter(~leaves)


def _known(store_dir: Path, spans: pl.DataFrame) -> int:
    """Count the given spans whose ids the store has."""
    ids = spans.select(_ROW_KEY)
    stored = (_read(store_dir, "spans", bucket, _ROW_KEY) for bucket in range(_BUCKETS))
    return pl.concat([rows.join(ids, on=_ROW_KEY, how="semi") for rows in stored]).unique().height


def _ties(spans: pl.DataFrame) -> pl.Series:
    found = [
        sorted({tie for tie in (span.session, span.task, *span.links) if tie})
        for span in facts_of(spans)
    ]
    return pl.Series(found, dtype=STORED_SPAN_SCHEMA["ties"])


def _tie_rows(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of a trace and what it is tied to; every trace is tied to itself."""
    rows = spans.select("trace_id", "ties").explode("ties", empty_as_null=True)
    return rows.with_columns(pl.col("ties").fill_null(pl.col("trace_id"))).unique()


def _stored_ties(store_dir: Path) -> pl.DataFrame:
    """Return the pairs of all stored traces, with the bucket in which they stand."""
    return pl.concat(
        _tie_rows(_read(store_dir, "spans", bucket, ["trace_id", "ties"])).with_columns(
            bucket=pl.lit(bucket)
        )
        for bucket in range(_BUCKETS)
    )


def _buckets_of(ties: pl.DataFrame) -> pl.DataFrame:
    """Return the bucket (`target`) of every trace: the same for all that are tied together."""
    group = groups(ties.iter_rows())
    traces = ties["trace_id"].unique()
    targets = [_bucket_of(group[trace]) for trace in traces]
    return pl.DataFrame([traces, pl.Series("target", targets, dtype=pl.Int32)])


def _bucket_of(group: str) -> int:
    """Hash a group's name in a way that is the same in every version and on every machine."""
    digest = blake2b(group.encode(), digest_size=_BUCKET_HASH_BYTES).digest()
    return int.from_bytes(digest, "big") % _BUCKETS


def _derive(store_dir: Path, bucket: int) -> None:
    """Make a bucket's turns and findings from its spans.

    What normalising remarks on concerns how spans are read, not whether they are stored, so that
    it is left to whoever analyses them.
    """
    turns, _ = turns_of(_read(store_dir, "spans", bucket).select(list(SPAN_SCHEMA)))
    _write(store_dir, "turns", bucket, turns, turns["start_ns"])
    findings = _finding_table(findings_of(turns))
    starts = turns.filter(pl.col("kind") != "user").select("task", "start_ns", turn_first="turn")
    started = findings.join(starts, on=["task", "turn_first"], how="left", maintain_order="left")
    _write(store_dir, "findings", bucket, findings, started["start_ns"])


def _finding_table(findings: Sequence[Finding]) -> pl.DataFrame:
    return pl.DataFrame([_flat(asdict(finding)) for finding in findings], schema=FINDING_SCHEMA)


def _flat(finding: dict[str, Any]) -> dict[str, Any]:
    return finding | {f"cost_{name}": value for name, value in finding.pop("cost").items()}


def _write_spans(store_dir: Path, bucket: int, spans: pl.DataFrame) -> None:
    spans = spans.sort("trace_id", "start_ns", "span_id")
    _write(store_dir, "spans", bucket, spans, spans["start_ns"])


def _write(
    store_dir: Path, table: str, bucket: int, rows: pl.DataFrame, start_ns: pl.Series
) -> None:
    """Make these rows the bucket's, each on the day of its start; equal files are left alone."""
    day = pl.from_epoch(start_ns, time_unit="ns").dt.date().cast(pl.String)
    by_day = rows.with_columns(day=day).partition_by("day", as_dict=True, include_key=False)
    wanted = {_file(store_dir, table, str(day), bucket): part for (day,), part in by_day.items()}
    for path in sorted({*wanted, *_files(store_dir, table, bucket)}):
        part = wanted.get(path, TABLES[table].to_frame())
        if not path.exists() or not _read_file(path, table).equals(part):
            _write_file(path, part)


def _write_file(path: Path, rows: pl.DataFrame) -> None:
    """Replace a file at once: nobody ever sees a part of it, also after a crash."""
    aside = path.with_name(f"{_ASIDE}{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open("wb") as file:
            rows.write_parquet(file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        aside.unlink(missing_ok=True)
        raise StoreError(
            f"{path}: cannot be written ({_first_line(error)}); "
            "check space and permissions, then run the ingest again."
        ) from error


def _read(
    store_dir: Path, table: str, bucket: int, columns: list[str] | None = None
) -> pl.DataFrame:
    """Read the rows of a bucket, all columns or some, in the order of their days."""
    files = _files(store_dir, table, bucket)
    empty = TABLES[table].to_frame().select(columns or pl.all())
    return pl.concat([empty, *(_read_file(path, table, columns) for path in files)])


def _read_file(path: Path, table: str, columns: list[str] | None = None) -> pl.DataFrame:
    expected = TABLES[table].to_frame().select(columns or pl.all()).schema
    try:
        rows = pl.read_parquet(path, columns=columns, glob=False, hive_partitioning=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _unreadable(path, _first_line(error)) from error
    if rows.schema != expected:
        raise _unreadable(path, "its columns are not those of looptrace")
    return rows


def _unreadable(path: Path, why: str) -> StoreError:
    return StoreError(
        f"{path}: cannot be read ({why}); move it away and ingest the traces of its day again."
    )


def _rows(store_dir: Path, table: str) -> int:
    column = list(TABLES[table])[:1]
    return sum(_read(store_dir, table, bucket, column).height for bucket in range(_BUCKETS))


def _files(store_dir: Path, table: str, bucket: int) -> list[Path]:
    return [Path(found) for found in sorted(glob.glob(files_pattern(store_dir, table, bucket)))]


def _file(store_dir: Path, table: str, day: str, bucket: int) -> Path:
    return store_dir / table / f"day={day}" / f"bucket={_number(bucket)}" / DATA


def _number(bucket: int) -> str:
    return f"{bucket:02}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
