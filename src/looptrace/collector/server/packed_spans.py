"""Spans packed as a row of the ingest log."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from looptrace.analyzer.text.digests import digest


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
