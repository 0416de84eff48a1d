"""Attributes of spans as columns: lists of names and values instead of the table's JSON text.

A reader that turns bytes into columns leaves attributes as lists. Otherwise it would write JSON
that an analysis has to read again. Stored spans have JSON text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
import polars as pl

# One attribute: its value as text, else as JSON. An attribute without a value has neither.
ATTRIBUTE = pl.Struct({"key": pl.String, "text": pl.String, "json": pl.String})
ATTRIBUTES = pl.List(ATTRIBUTE)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


def attributes_of(column: pl.Series) -> Iterator[dict[str, Any]]:
    """Yield the attributes of each span, from JSON text or from lists (`ATTRIBUTES`).

    If two attributes have one name, the last counts.
    """
    if column.dtype == pl.String:
        return map(_decode, column.to_list())
    return _from_lists(column)


def with_json(spans: pl.DataFrame) -> pl.DataFrame:
    """Return spans with their attributes as JSON text, as they are stored."""
    column = spans["attributes"]
    if column.dtype == pl.String:
        return spans
    texts = [_encode(attributes).decode() for attributes in _from_lists(column)]
    return spans.with_columns(pl.Series("attributes", texts, pl.String))


def concat_spans(tables: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return tables of spans as one table, with JSON text if any of them has it."""
    every = list(tables)
    given = [table for table in every if table.height] or every
    if any(table["attributes"].dtype == pl.String for table in given):
        given = list(map(with_json, given))
    return pl.concat(given)


def _from_lists(column: pl.Series) -> Iterator[dict[str, Any]]:
    counts = column.list.len()
    every = column.filter(counts > 0).explode().struct
    values = every.field("text").to_list()
    others = every.field("json")
    places = others.is_not_null().arg_true()
    decoded = _decode(f"[{','.join(others.gather(places))}]")
    for place, value in zip(places, decoded, strict=True):
        values[place] = value
    pairs = zip(every.field("key").to_list(), values, strict=True)
    return (dict(islice(pairs, count)) for count in counts.to_list())
