"""The records of an export, a trace or a span each, anywhere in a document.

An export is one record, an array of records, or an object that holds such an array under a general
name such as `data` or `spans`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Protocol

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.otlp.json import DATA_ERRORS, MEND, words
from looptrace.collector.otlp.span_rows import DecodedSpans, Problem

# Names under which exports and APIs hold their records.
ENVELOPES = (
    *("data", "result", "results", "traces", "spans", "observations", "runs", "calls", "events"),
    *("items", "rows", "objects", "trace"),
)
# The most arrays and envelopes around a record; Zipkin's API has two.
LEVELS_MAX = 4

# Reading a value of another form raises one of these, beside the errors of a span.
RECORD_ERRORS = (*DATA_ERRORS, AttributeError, KeyError, TypeError, ValueError, OverflowError)

IsRecord = Callable[[Collection[str]], bool]
Part = tuple[str, Callable[[], SpanRow | None]]


class Reader(Protocol):
    """The reader of the records of one source, with the state from earlier ones."""

    def read(self, record: dict[str, Any], where: str) -> DecodedSpans:
        """Return the rows that a record completes. Raises one of RECORD_ERRORS."""

    def rest(self) -> list[SpanRow]:
        """Return the rows that the end of the source completes."""


class RecordReader:
    """The reader of a form whose records do not depend on each other."""

    def __init__(self, parts: Callable[[dict[str, Any]], Iterable[Part]]) -> None:
        self._parts = parts

    def read(self, record: dict[str, Any], where: str) -> DecodedSpans:
        """Return the rows of a record; a bad part costs only itself.

        Raises one of RECORD_ERRORS.
        """
        out = DecodedSpans()
        for place, read in self._parts(record):
            try:
                row = read()
            except RECORD_ERRORS as error:
                if not place:  # It is the record itself.
                    raise
                why = f"{place} was left out: {wrong(error)}; {MEND}"
                out.problems.append(Problem(where, why, is_span=True))
                continue
            if row is not None:
                out.rows.append(row)
        return out

    def rest(self) -> list[SpanRow]:
        """Return nothing, because no row waits for another record."""
        return []


def spans_of(read: Callable[[dict[str, Any]], SpanRow | None]) -> Callable[[], RecordReader]:
    """Return a factory of readers for records that are one span each, or none."""
    return lambda: RecordReader(lambda record: [("", lambda: read(record))])


def records_in(value: Any, where: str, is_record: IsRecord) -> Iterator[tuple[str, Any]]:
    """Yield the records within a value, each with its place.

    A value that is not a record and holds none is yielded as it is.
    """
    yield from _records(value, where, is_record, LEVELS_MAX)


def _records(value: Any, where: str, is_record: IsRecord, levels: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list) and levels:
        for index, item in enumerate(value):
            yield from _records(item, f"{where}[{index}]", is_record, levels - 1)
        return
    if isinstance(value, dict) and levels and not is_record(value):
        held = envelope(value)
        if held is not None:
            yield from _records(value[held], f"{where}.{held}", is_record, levels - 1)
            return
    yield where, value


def envelope(fields: dict[str, Any]) -> str | None:
    """Return the name of the field that holds the records of an object, or None."""
    return next((name for name in ENVELOPES if isinstance(fields.get(name), dict | list)), None)


def wrong(error: Exception) -> str:
    """Return the reason why a record could not be read, in plain words."""
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]!r}"
    if isinstance(error, AttributeError | TypeError):
        return "a field has a wrong type"
    return words(error)
