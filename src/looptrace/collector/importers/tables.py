"""Exports as a table, Parquet or CSV: a row is a record, as Phoenix and LangSmith write them."""

import csv
from ast import literal_eval
from codecs import iterdecode
from collections.abc import Iterable, Iterator
from io import BytesIO, StringIO
from typing import Any

import polars as pl

from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.importers.documents import decoded_end, decoded_record
from looptrace.collector.importers.forms import RecordForm, form_of
from looptrace.collector.importers.records import records_in
from looptrace.collector.otlp.frames import FRAME_BYTES_MAX, DamagedError, too_long
from looptrace.collector.otlp.span_rows import DecodedSpans, Problem

_NO_EXPORT = "a table, but not an export that looptrace reads (docs/inputs.md)"
_SHOWN_MAX = 8  # The most columns in a message.
# Polars panics over some damaged files; a panic is not an Exception.
_BAD_PARQUET = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)


def decode_table(name: str, chunks: Iterable[bytes]) -> Iterator[DecodedSpans]:
    """Yield the spans of a Parquet file, and what is wrong with it."""
    try:
        table = pl.read_parquet(BytesIO(_whole(chunks)))
    except (DamagedError, *_BAD_PARQUET) as error:
        why = str(error).partition("\n")[0]
        yield DecodedSpans(problems=[Problem(name, f"cannot be read: {why}; export it again")])
        return
    if form := form_of(table.columns):
        yield from _decoded_rows(name, table.iter_rows(named=True), form)
    else:
        yield _unknown(name, table.columns)


def begins_csv(head: bytes) -> bool:
    """Return whether a text begins with a line of column names of a known form."""
    return form_of(_columns(head.partition(b"\n")[0])) is not None


def decode_csv(name: str, chunks: Iterable[bytes]) -> Iterator[DecodedSpans]:
    """Yield the spans of a CSV file, and what is wrong with it."""
    try:
        text = "".join(iterdecode([_whole(chunks)], "utf-8-sig", errors="replace"))
    except DamagedError as error:
        yield DecodedSpans(problems=[Problem(name, f"cannot be read: {error}; export it again")])
        return
    csv.field_size_limit(FRAME_BYTES_MAX)
    rows = csv.DictReader(StringIO(text, newline=""))
    if form := form_of(rows.fieldnames or ()):
        yield from _decoded_rows(
            name, ({k: _cell(v) for k, v in row.items()} for row in rows), form
        )


def _columns(line: bytes) -> list[str]:
    return next(csv.reader([line.decode("utf-8-sig", errors="replace").strip()]), [])


def _cell(text: str | None) -> Any:
    """Return the value of a cell, an object or a list where Python wrote it; JSON stays text."""
    if not text:
        return None
    if text[0] not in "[{" or parsed(text) is not text:
        return text
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _decoded_rows(
    name: str, rows: Iterable[dict[str, Any]], form: RecordForm
) -> Iterator[DecodedSpans]:
    reader = form.reader()
    for number, row in enumerate(rows, 1):
        record = {column: value for column, value in row.items() if value is not None}
        where = f"{name} row {number}"
        for place, each in records_in(record, where, form.is_record, form.nesting):
            yield decoded_record(place, each, form, reader)
    yield decoded_end(name, form.name, reader)


def _unknown(name: str, columns: list[str]) -> DecodedSpans:
    shown = ", ".join(columns[:_SHOWN_MAX])
    return DecodedSpans(problems=[Problem(name, f"{_NO_EXPORT}: it has {shown}")])


def _whole(chunks: Iterable[bytes]) -> bytes:
    """Join chunks. Raises DamagedError where they are too long for memory."""
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > FRAME_BYTES_MAX:
            raise DamagedError(too_long("file"))
    return bytes(data)
