"""Spans that have the same attributes, together and by columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import polars as pl

from looptrace.analyzer.normalize.dialects import with_events, with_flat_messages
from looptrace.analyzer.schema.attribute_lists import ATTRIBUTES, attributes_of
from looptrace.analyzer.schema.spans import NO_ITEMS

# A larger number brings no gain, and decoded spans take memory.
SPANS_READ_TOGETHER = 512

_ROW = (
    *("trace_id", "span_id", "parent_span_id", "name", "start_ns", "end_ns"),
    *("status", "status_message", "service", "events", "links"),
)


class SpansAlike(NamedTuple):
    """Spans with the same attributes, by columns, and their places in the table."""

    places: Sequence[int]
    row: Mapping[str, Sequence[Any]]  # by column of the span table; events are decoded
    attributes: Mapping[str, Sequence[Any]]

    def take(self, chosen: Sequence[int]) -> SpansAlike:
        """Return some of the spans, in their order."""
        if len(chosen) == len(self.places):
            return self
        return SpansAlike(
            [self.places[i] for i in chosen],
            {name: [column[i] for i in chosen] for name, column in self.row.items()},
            {name: [column[i] for i in chosen] for name, column in self.attributes.items()},
        )


def parts_of(spans: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, pl.Series]]:
    """Yield parts of a span table, each with its attributes, of as many spans as are read at once.

    If the attributes are lists, the tables have only a blank for them.
    """
    attributes = spans["attributes"]
    if attributes.dtype == ATTRIBUTES:
        spans = spans.with_columns(attributes=pl.lit(""))  # Rows of lists are slow to make.
    for start in range(0, spans.height, SPANS_READ_TOGETHER):
        part = spans.slice(start, SPANS_READ_TOGETHER)
        yield part, attributes.slice(start, SPANS_READ_TOGETHER)


def spans_alike(spans: pl.DataFrame, attributes: pl.Series) -> Iterator[SpansAlike]:
    """Yield the spans of a part in groups that have the same attributes.

    What events say belongs to the attributes, and so do messages in flat keys.
    """
    columns = dict(zip(spans.columns, zip(*spans.rows(), strict=True), strict=True))
    row: dict[str, Sequence[Any]] = {name: columns[name] for name in _ROW}
    row["events"] = [
        msgspec.json.decode(text) if text != NO_ITEMS else [] for text in row["events"]
    ]
    every = SpansAlike(range(spans.height), row, {})
    alike: dict[tuple[str, ...], list[tuple[int, dict[str, Any]]]] = {}
    for place, given in enumerate(attributes_of(attributes)):
        found = with_events(given, row["events"][place])
        members = alike.get(tuple(found))
        if members is None:  # Spans are grouped without their flat keys of messages.
            found = with_flat_messages(found)
            members = alike.setdefault(tuple(found), [])
        members.append((place, found))
    for names, members in alike.items():
        values = zip(*(found.values() for _, found in members), strict=True)
        chosen = every.take([place for place, _ in members])
        yield chosen._replace(attributes=dict(zip(names, values, strict=True)))
