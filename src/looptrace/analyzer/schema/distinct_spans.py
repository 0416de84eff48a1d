"""One row for each span: its copies, and what log records say about it.

A log record that names a span is an event of that span. It comes as a row of its own (`LOGGED`),
before its span or after it, and is joined to the row of the span when both are there. A joined
event keeps a mark, so that a span that comes again without its log records is the same span.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import polars as pl

from looptrace.analyzer.schema.spans import (
    LOGGED,
    NO_ITEMS,
    SPAN_CHARS,
    SPAN_SCHEMA,
    SPAN_TIES_SCHEMA,
    Skipped,
    SpanRow,
)

# The most characters that log records may add to a span; the earliest are kept.
LOGGED_CHARS_MAX = 8 << 20

_KEY = ["trace_id", "span_id"]
_MARK = "logged"
_MARKED = f'"{_MARK}":true'
_IS_LOGGED = pl.col("status") == LOGGED
_NAMES = [name for name, kind in SPAN_TIES_SCHEMA.items() if kind == pl.String]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[dict[str, Any]]).decode


def is_logged(row: SpanRow) -> bool:
    """Return whether a row is the event of a log record, and no span."""
    return row[6] == LOGGED


def whole_spans(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that are spans, without events of log records whose span is not there."""
    return spans.filter(~_IS_LOGGED)


def alone_text(records: int) -> list[Skipped]:
    """Return what is to be said of so many events of log records without a span."""
    if not records:
        return []
    why = (
        f"their spans are not here: {records:,} GenAI events, so what they say of calls and "
        "messages is left out; read the spans of the same agents with them"
    )
    return [Skipped("log records", why)]


def with_logged(row: SpanRow, logged: Iterable[SpanRow]) -> SpanRow:
    """Return a span with the events of log records (`LOGGED`), in the order of their times."""
    *_, links = row
    return (*row[:11], _joined(row[11], [each[11] for each in logged]), links)


def logged_in(row: SpanRow) -> list[SpanRow]:
    """Return the events that log records have added to a span, as rows of their own."""
    return [
        (*row[:2], None, "", at_ns, at_ns, LOGGED, None, *row[8:10], "{}", event, NO_ITEMS)
        for at_ns, event in _logged_events(row[11])
    ]


def _logged_events(events: str) -> Iterator[tuple[int, str]]:
    """Yield the events in some JSON that log records have added, each with its time."""
    for event in _decode(events) if _MARKED in events else ():
        if event.pop(_MARK, False):
            yield event["time_ns"], _encode([event]).decode()


def _joined(events: str, logged: Collection[str]) -> str:
    """Return the JSON of a span's events with those of log records.

    A message that a span has as an event of its own is not added: its writer said it twice.
    """
    every = _decode(events)
    own = [event for event in every if not event.get(_MARK)]
    names = {event["name"] for event in own}
    more = {(event["time_ns"], _encode(event)) for event in every if event.pop(_MARK, False)}
    more |= {(event["time_ns"], _encode(event)) for text in logged for event in _decode(text)}
    chars_left = LOGGED_CHARS_MAX
    for _, text in sorted(more):
        event = msgspec.json.decode(text)
        chars_left -= len(text)
        if event["name"] not in names and chars_left >= 0:
            own.append({**event, _MARK: True})
    return _encode(own).decode()


def distinct_spans(spans: pl.DataFrame) -> tuple[pl.DataFrame, list[Skipped]]:
    """Keep one row per (trace_id, span_id), whatever order they came in.

    The same span sent twice is one span. If two different spans have one id, the one that ended
    last is kept. If both ended at once, the one that says more is kept. The other is reported. A
    process may send a span as it is, and again with what it inherits from open spans. Events of log
    records are joined to their spans; those without a span stay rows of their own.
    """
    if not spans.select(_KEY).is_duplicated().any():
        return spans, []
    spans = spans.unique(maintain_order=True)
    has_logged = _IS_LOGGED | pl.col("events").str.contains(_MARKED, literal=True)
    if not spans.select(has_logged.any()).item():
        return _one_of_each(spans)
    spans = _taken_apart(spans)
    logged = spans.filter(_IS_LOGGED)
    kept, skipped = _one_of_each(whole_spans(spans))
    return _put_together(kept, logged), skipped


def _one_of_each(spans: pl.DataFrame) -> tuple[pl.DataFrame, list[Skipped]]:
    clashing = spans.filter(pl.struct(_KEY).is_duplicated())
    if clashing.is_empty():
        return spans, []
    order = ["end_ns", SPAN_CHARS, *(name for name in SPAN_SCHEMA if name != "end_ns")]
    kept = spans.sort(order, descending=True, nulls_last=True).unique(
        _KEY, keep="first", maintain_order=True
    )
    counts = clashing.group_by(_KEY).len().sort("span_id", "trace_id")
    skipped = [
        Skipped(
            f"span {span_id} of trace {trace_id}",
            f"{count} different spans have this id; the one that ended last, else the one that "
            "says most, was kept",
        )
        for trace_id, span_id, count in counts.iter_rows()
    ]
    return kept, skipped


def _taken_apart(spans: pl.DataFrame) -> pl.DataFrame:
    """Return rows that share their ids as spans and events of log records, each row once."""
    is_shared = pl.struct(_KEY).is_duplicated()
    is_joined = is_shared & pl.col("events").str.contains(_MARKED, literal=True)
    spans = spans.with_columns(is_joined=is_joined & ~_IS_LOGGED)
    joined = spans.filter("is_joined").drop("is_joined")
    if joined.is_empty():
        return spans.drop("is_joined")
    columns = list(SPAN_SCHEMA)
    rows = [each for row in joined.select(columns).iter_rows() for each in logged_in(row)]
    logged = pl.DataFrame(rows, SPAN_SCHEMA, orient="row")
    bare = joined.with_columns(events=pl.Series(list(map(_without_logged, joined["events"]))))
    parts = [spans.filter(~pl.col("is_joined")).drop("is_joined"), bare, logged]
    return pl.concat(parts, how="diagonal").unique(columns, keep="first", maintain_order=True)


def _without_logged(events: str) -> str:
    own = [event for event in _decode(events) if not event.get(_MARK)]
    return _encode(own).decode() if own else NO_ITEMS


def _put_together(spans: pl.DataFrame, logged: pl.DataFrame) -> pl.DataFrame:
    """Return spans with the events of log records that name them, and the other records after."""
    texts: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for *key, text in logged.select(*_KEY, "events").iter_rows():
        texts[tuple(key)].append(text)
    keys: Sequence[tuple[str, ...]] = spans.select(_KEY).rows()
    events = [
        _joined(text, texts[key]) if key in texts else text
        for key, text in zip(keys, spans["events"], strict=True)
    ]
    spans = spans.with_columns(events=pl.Series(events, dtype=pl.String))
    named = [name for name in _NAMES if name in spans.columns]
    if named:  # A record may name the session, where its span does not.
        ties = logged.group_by(_KEY).agg(pl.col(named).min())
        spans = spans.join(ties, on=_KEY, how="left", suffix="_said", maintain_order="left")
        known = {name: pl.coalesce(name, f"{name}_said") for name in named}
        spans = spans.with_columns(**known).drop(f"{name}_said" for name in named)
    alone = logged.join(spans, on=_KEY, how="anti", maintain_order="left")
    return pl.concat([spans, alone.select(spans.columns)])
