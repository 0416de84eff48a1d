"""What ties a span's trace to others: its session, its tasks, and the traces it links to.

The ties are read once, when a span is stored, and kept in columns of their own. Only the attributes
that name them are decoded; the others are skipped in the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import repeat
from typing import Any, TypeAlias, TypedDict, cast

import msgspec
import numpy as np
import polars as pl

from looptrace.analyzer.fields.dialect_table import SHIPPED, TIES, DialectTable
from looptrace.analyzer.fields.field_reader import DETAILS_EVENT, FieldReader, reader_by
from looptrace.analyzer.fields.span_fields import span_fields_of
from looptrace.analyzer.schema.attribute_lists import ATTRIBUTES, attributes_of
from looptrace.analyzer.schema.spans import NO_ITEMS, SPAN_TIES_SCHEMA, linked_traces

_FIELDS = (*TIES, "connection")
# Session, task, task above it, connection.
_Names: TypeAlias = tuple[str | None, str | None, str | None, str | None]


@lru_cache(maxsize=16)
def _decoder(dialects: DialectTable) -> msgspec.json.Decoder[Any]:
    """Return a decoder of the attributes that names are read from."""
    keys = dict.fromkeys(dialects.attribute_keys(_FIELDS), Any)
    return msgspec.json.Decoder(TypedDict("_Attributes", keys, total=False))  # type: ignore[operator] # Its keys are the table's.


def with_ties(spans: pl.DataFrame, dialects: DialectTable = SHIPPED) -> pl.DataFrame:
    """Return spans (`SPAN_SCHEMA` or `SPAN_LISTS_SCHEMA`) with their ties (`SPAN_TIES_SCHEMA`).

    Those that have them stay as they are.
    """
    if not SPAN_TIES_SCHEMA.keys() - set(spans.columns):
        return spans
    has_lists = spans["attributes"].dtype == ATTRIBUTES
    reader = reader_by(dialects)
    named = _named_in_lists(spans, reader) if has_lists else _table_of(_texts(spans, reader))
    # A connection may be the session of a trace that begins with it (`Connections`).
    begins = pl.when(spans["parent_span_id"].is_null()).then("connection")
    named = named.select(pl.coalesce("session", begins), *TIES[1:])
    return spans.hstack(named).hstack([_links_of(spans)])


def tie_rows(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of a trace and what it is tied to (`tie`); every trace is tied to itself.

    The spans have the columns of SPAN_TIES_SCHEMA.
    """
    trace = pl.col("trace_id")
    named = [
        spans.lazy().select(trace, tie=pl.col(name).fill_null(trace)).unique()
        for name in ("session", "task", "task_parent")
    ]
    linked = spans.lazy().filter(pl.col("linked_traces").list.len() > 0)
    linked = linked.select(trace, tie="linked_traces").explode("tie")
    return pl.concat([*named, linked]).unique().collect()


def _links_of(spans: pl.DataFrame) -> pl.Series:
    name, kind = "linked_traces", SPAN_TIES_SCHEMA["linked_traces"]
    if (spans["links"] == NO_ITEMS).all():
        return pl.Series(name, [[]], kind).new_from_index(0, spans.height)
    return pl.Series(name, list(map(linked_traces, spans["links"])), kind)


def _table_of(names: Iterable[_Names]) -> pl.DataFrame:
    return pl.DataFrame(list(names), dict.fromkeys(_FIELDS, pl.String), orient="row")


def _texts(spans: pl.DataFrame, reader: FieldReader) -> Iterator[_Names]:
    """Yield the names of spans whose attributes are texts."""
    decoder = _decoder(reader.table)
    for row, (text, events) in enumerate(zip(spans["attributes"], spans["events"], strict=True)):
        try:
            yield _named(cast("dict[str, Any]", decoder.decode(text)), events, reader)
        except RecursionError:  # It is nested too deep; the whole span is read with care.
            (span,) = span_fields_of(spans[row], reader.table)
            yield span.session, span.task, span.task_parent, span.connection


def _named_in_lists(spans: pl.DataFrame, reader: FieldReader) -> pl.DataFrame:
    """Read the names once for all spans with the same attributes for them."""
    alike = _told_of_names(spans["attributes"], reader).group_by(pl.all().exclude("row")).agg("row")
    examples = spans["attributes"].gather(alike["row"].list.first())
    names = _table_of(
        _named(attributes, NO_ITEMS, reader) for attributes in attributes_of(examples)
    )
    named = names.with_columns(alike["row"]).explode("row").sort("row").drop("row")
    detailed = spans["events"].str.contains(DETAILS_EVENT, literal=True).arg_true()
    if detailed.is_empty():
        return named
    said = attributes_of(spans["attributes"].gather(detailed))
    events = spans["events"].gather(detailed)
    names = _table_of(map(_named, said, events, repeat(reader)))
    return pl.DataFrame([named[name].scatter(detailed, names[name]) for name in _FIELDS])


def _told_of_names(attributes: pl.Series, reader: FieldReader) -> pl.DataFrame:
    """Return each attribute that names are read from as a column, and the number of the `row`."""
    rows = pl.int_range(len(attributes), eager=True).alias("row")
    counts = attributes.list.len()
    every = attributes.filter(counts > 0).explode()
    places = every.struct.field("key").is_in(reader.table.attribute_keys(_FIELDS)).arg_true()
    told = (
        every.gather(places)
        .struct.unnest()
        .select("key", value=pl.concat_str(pl.all().exclude("key").fill_null(""), separator="\0"))
    )
    told = told.with_columns(row=pl.Series(np.repeat(rows, counts)).gather(places))
    table = rows.to_frame()
    for (key,), part in told.partition_by("key", as_dict=True).items():
        blank = pl.Series(key, [None], pl.String).new_from_index(0, len(rows))
        table = table.with_columns(blank.scatter(part["row"], part["value"]))
    return table


def _named(attributes: dict[str, Any], events: str, reader: FieldReader) -> _Names:
    if DETAILS_EVENT in events:
        attributes = reader.with_events(attributes, msgspec.json.decode(events))
    columns = reader.columns("", {key: (value,) for key, value in attributes.items()}, 1)
    session, task, task_parent, connection = (columns.names(name)[0] for name in _FIELDS)
    return session, task, task_parent, connection
