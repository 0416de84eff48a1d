"""Spans packed as a row of the ingest log, and the tables of its rows."""

import io
import time
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from looptrace.analyzer.text.digests import digest
from looptrace.collector.store.sqlite_file import Schema

# Evaluated spans that are stored later, as rows of `requests`. The number is the archiver's.
_POSTPONED = """
    CREATE TABLE postponed (
        number INTEGER PRIMARY KEY,
        received_ns INTEGER NOT NULL,
        spans INTEGER NOT NULL,
        digest TEXT NOT NULL,
        body BLOB NOT NULL
    ) STRICT
"""
_TABLES = (
    """
    CREATE TABLE requests (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        received_ns INTEGER NOT NULL,
        spans INTEGER NOT NULL,
        digest TEXT NOT NULL,
        body BLOB NOT NULL -- an Arrow stream of the span table
    ) STRICT
    """,
    # Acknowledged rows that can no longer be read, for a person to look at.
    "CREATE TABLE damaged AS SELECT * FROM requests",
    _POSTPONED,
)
LOG = Schema(
    application_id=0x6C6F6F6C,  # "lool"
    version=2,
    tables=_TABLES,
    steps={1: (_POSTPONED,)},
    if_damaged="move it away, with its -wal and -shm; spans that were acknowledged and not stored "
    "yet are lost then",
    shrinks=True,
)


class PackedSpans(NamedTuple):
    """The columns of a row of the log."""

    received_ns: int
    spans: int
    digest: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Postponed:
    """Evaluated spans that are stored later, packed as a row of the log."""

    number: int
    row: PackedSpans

    def spans(self) -> pl.DataFrame:
        """Return the spans."""
        return pl.read_ipc_stream(io.BytesIO(self.row.body))


def packed(spans: pl.DataFrame) -> PackedSpans:
    """Return spans (`SPAN_SCHEMA`) as a row of the log."""
    stream = io.BytesIO()
    spans.write_ipc_stream(stream, compression="lz4")
    body = stream.getvalue()
    return PackedSpans(time.time_ns(), spans.height, digest(body), body)


def unpacked(check: str, body: bytes) -> pl.DataFrame | None:
    """Return the spans of a row; None if its bytes have changed."""
    return pl.read_ipc_stream(io.BytesIO(body)) if digest(body) == check else None
