"""The span table: what the collector passes to the analyzer.

The table has one row per span. Attributes, events and links stay JSON text, because their keys
differ between frameworks; `dialects` picks from them. (trace_id, span_id) identifies a span.
"""

from dataclasses import dataclass
from typing import TypeAlias, cast

import msgspec
import polars as pl

from looptrace.analyzer.schema.column import Column, schema_of

_TEXT, _INT = pl.String(), pl.Int64()

SPAN_COLUMNS = (
    Column("trace_id", _TEXT, "id", "the trace, as 32 lower-case hex digits"),
    Column("span_id", _TEXT, "id", "the span within its trace, as 16 lower-case hex digits"),
    Column("parent_span_id", _TEXT, "id", "the span that started it", "the span is a root"),
    Column("name", _TEXT, "text", "the name of the operation"),
    Column("start_ns", _INT, "ns since 1970, UTC", "start of the span"),
    Column("end_ns", _INT, "ns since 1970, UTC", "end of the span"),
    Column(
        "status", pl.Int8(), "code", "0 unset, 1 ok, 2 error, -1 no span but a log record's event"
    ),
    Column("status_message", _TEXT, "text", "message of the status", "the status has none"),
    Column("service", _TEXT, "name", "`service.name` of the resource", "the resource has none"),
    Column("scope", _TEXT, "name", "instrumentation scope", "the span has none"),
    Column("attributes", _TEXT, "JSON object", "attributes of the span"),
    Column(
        "events",
        _TEXT,
        "JSON array",
        "its events, each with `name`, `time_ns`, `attributes`, `logged` if it was a log record",
    ),
    Column("links", _TEXT, "JSON array", "its links, each with `trace_id` and `span_id`"),
)
# docs/schema.md explains each column.
SPAN_SCHEMA = schema_of(SPAN_COLUMNS)

# A span as a tuple: the columns of SPAN_SCHEMA, in its order.
SpanRow: TypeAlias = tuple[
    str, str, str | None, str, int, int, int, str | None, str | None, str | None, str, str, str
]

STATUS_OK, STATUS_ERROR = 1, 2
NO_ITEMS = "[]"  # The JSON of a span without events, or without links.
# The status of a row that is the event of a log record, which names the span that it belongs to.
LOGGED = -1

# The size of a span's texts, in characters.
SPAN_CHARS = pl.sum_horizontal(
    pl.col(name).str.len_chars() for name, kind in SPAN_SCHEMA.items() if kind == pl.String
)
# The size of a span besides these texts.
_CHARS_PER_SPAN = 1_000

# What a span's trace belongs to, as the span names it. It is stored beside the span.
_UNNAMED = "it names none"
SPAN_TIES_COLUMNS = (
    Column(
        "session", _TEXT, "id", "session that the span names, or connection of a root", _UNNAMED
    ),
    Column("task", _TEXT, "id", "task that the span names", _UNNAMED),
    Column("task_parent", _TEXT, "id", "task above it that the span names", _UNNAMED),
    Column("linked_traces", pl.List(pl.String()), "ids", "traces that its links lead to"),
)
SPAN_TIES_SCHEMA = schema_of(SPAN_TIES_COLUMNS)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part of the input that was not taken as it stood: its place, and why, in one line."""

    where: str
    why: str


def span_rows(spans: pl.DataFrame) -> list[SpanRow]:
    """Return the rows of a table of spans (`SPAN_SCHEMA`)."""
    return cast("list[SpanRow]", spans.rows())


def chars_held(span: SpanRow) -> int:
    """Return about how many characters a span in memory takes: its texts, and some for the rest."""
    _, _, _, name, _, _, _, message, service, scope, attributes, events, links = span
    named = len(name) + len(message or "") + len(service or "") + len(scope or "")
    return _CHARS_PER_SPAN + named + len(attributes) + len(events) + len(links)


def linked_traces(links: str) -> tuple[str, ...]:
    """Return the ids of the traces in a span's links."""
    if links == NO_ITEMS:
        return ()
    return tuple(link["trace_id"] for link in msgspec.json.decode(links))
