"""Exports as a Parquet file: a row is a record, as Phoenix and LangSmith write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO

import polars as pl

from looptrace.collector.importers.documents import decoded_record
from looptrace.collector.importers.forms import form_of
from looptrace.collector.importers.records import records_in
from looptrace.collector.otlp.frames import FRAME_BYTES_MAX, DamagedError, too_long
from looptrace.collector.otlp.span_rows import DecodedSpans, Problem

_NO_EXPORT = "a Parquet file, but not an export that looptrace reads (docs/inputs.md)"
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
    form = form_of(table.columns)
    if form is None:
        shown = ", ".join(table.columns[:_SHOWN_MAX])
        yield DecodedSpans(problems=[Problem(name, f"{_NO_EXPORT}: it has {shown}")])
        return
    reader = form.reader()
    for number, row in enumerate(table.iter_rows(named=True), 1):
        record = {column: value for column, value in row.items() if value is not None}
        where = f"{name} row {number}"
        for place, each in records_in(record, where, form.is_record, form.nesting):
            yield decoded_record(place, each, form, reader)
    yield DecodedSpans(reader.rest())


def _whole(chunks: Iterable[bytes]) -> bytes:
    """Join chunks. Raises DamagedError where they are too long for memory."""
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > FRAME_BYTES_MAX:
            raise DamagedError(too_long("file"))
    return bytes(data)
