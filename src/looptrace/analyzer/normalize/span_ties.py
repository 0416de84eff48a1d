"""What ties a span's trace to others: its session, its tasks, and the traces it links to.

The ties are read once, when a span is stored, and kept in columns of their own. Only the attributes
that name them are decoded; the others are skipped in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias, TypedDict, cast

import msgspec
import polars as pl

from looptrace.analyzer.normalize.dialects import (
    DETAILS_EVENT,
    FieldColumns,
    attribute_keys,
    with_events,
)
from looptrace.analyzer.normalize.span_fields import span_fields_of
from looptrace.analyzer.normalize.span_kinds import DIALECTS, kind_of
from looptrace.analyzer.schema.attribute_lists import ATTRIBUTES, attributes_of
from looptrace.analyzer.schema.spans import NO_ITEMS, SPAN_TIES_SCHEMA, linked_traces

_FIELDS = ("session", "task", "task_parent")

_keys = attribute_keys(_FIELDS) | {dialect.marker for dialect in DIALECTS}
_Attributes = TypedDict("_Attributes", dict.fromkeys(_keys, Any), total=False)  # type: ignore[misc] # Its keys are the table's.
_decoder = msgspec.json.Decoder(_Attributes)
_Names: TypeAlias = tuple[str | None, str | None, str | None]  # session, task, task above it


def with_ties(spans: pl.DataFrame) -> pl.DataFrame:
    """Return spans (`SPAN_SCHEMA` or `SPAN_LISTS_SCHEMA`) with their ties (`SPAN_TIES_SCHEMA`)."""
    has_lists = spans["attributes"].dtype == ATTRIBUTES
    named = _named_in_lists(spans) if has_lists else _named_in_texts(spans)
    ties = [(*names, links) for names, links in zip(named, _links_of(spans), strict=True)]
    return spans.hstack(pl.DataFrame(ties, SPAN_TIES_SCHEMA, orient="row"))


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


def _links_of(spans: pl.DataFrame) -> Iterator[tuple[str, ...]]:
    return map(linked_traces, spans["links"].to_list())


def _named_in_texts(spans: pl.DataFrame) -> Iterator[_Names]:
    for row, (text, events) in enumerate(zip(spans["attributes"], spans["events"], strict=True)):
        try:
            yield _named(cast("dict[str, Any]", _decoder.decode(text)), events)
        except RecursionError:  # It is nested too deep; the whole span is read with care.
            (span,) = span_fields_of(spans[row])
            yield span.session, span.task, span.task_parent


def _named_in_lists(spans: pl.DataFrame) -> list[_Names]:
    """Read the names once for all spans with the same attributes for them."""
    parts = pl.concat_str(
        "key", pl.col("text").fill_null(""), pl.col("json").fill_null(""), separator="\0"
    )
    said = (
        spans.select("attributes")
        .with_row_index("row")
        .filter(pl.col("attributes").list.len() > 0)
        .explode("attributes")
        .unnest("attributes")
        .filter(pl.col("key").is_in(_keys))
        .group_by("row", maintain_order=True)
        .agg(said=parts.str.join("\0"))
        .group_by("said")
        .agg("row")
    )
    names = [_named({}, NO_ITEMS)] * spans.height
    alike = said["row"].to_list()
    examples = spans["attributes"].gather([rows[0] for rows in alike])
    for rows, attributes in zip(alike, attributes_of(examples), strict=True):
        found = _named(attributes, NO_ITEMS)
        for row in rows:
            names[row] = found
    detailed = spans["events"].str.contains(DETAILS_EVENT, literal=True).arg_true()
    for row, attributes in zip(
        detailed, attributes_of(spans["attributes"].gather(detailed)), strict=True
    ):
        names[row] = _named(attributes, spans["events"][row])
    return names


def _named(attributes: dict[str, Any], events: str) -> _Names:
    if DETAILS_EVENT in events:
        attributes = with_events(attributes, msgspec.json.decode(events))
    _, dialect = kind_of(attributes)
    columns = FieldColumns(dialect, [attributes])
    session, task, task_parent = (columns.texts(name)[0] for name in _FIELDS)
    return session, task, task_parent
