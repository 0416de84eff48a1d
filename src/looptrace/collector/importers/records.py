"""The records of an export, a trace or a span each, anywhere in a document.

An export is one record, an array of records, or an object that holds such an array under a general
name such as `data` or `spans`. A record may hold others in turn, such as the `child_runs` of
LangSmith. A list of what seems to be records and is not read is reported with its place.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.rows.answer_tables import is_table, rows_of
from looptrace.collector.otlp.json import DATA_ERRORS, MEND, words
from looptrace.collector.otlp.span_rows import DecodedSpans, Problem

# Names under which exports and APIs hold their records.
ENVELOPES = (
    *("data", "result", "results", "traces", "spans", "observations", "runs", "calls", "events"),
    *("items", "rows", "objects", "trace", "hits", "_source", "Traces"),
)
# Names that hold records only in some answers.
_OTHER_ENVELOPES = (
    *("tables", "frames", "series", "list", "edges", "span", "node", "Tables", "entries"),
    "content",
)
# The most arrays and envelopes around a record; answers of GraphQL have ten.
LEVELS_MAX = 12
# So many records of a list are tried for a known form.
TRIED_MAX = 20
# What an export request without spans holds.
_SIGNALS = frozenset({"resourceLogs", "resource_logs", "resourceMetrics", "resource_metrics"})
# The most records within each other.
DEPTH_MAX = 100

# Fields whose lists are the content of a record, or are not read on purpose (docs/inputs.md).
_CONTENT = frozenset(
    {
        *("annotations", "assessments", "attachments", "attributes", "blobs", "comments"),
        *("completion", "content", "context", "corrections", "cost", "costdetails", "datasets"),
        *("error", "events", "exception", "expected", "extra", "feedback", "feedbackstats"),
        *("history", "info", "input", "inputattachments", "inputs", "links", "logs", "manifest"),
        *("messages", "metadata", "metrics", "model", "output", "outputattachments", "outputs"),
        *("parent", "processes", "prompt", "prompts", "references", "request", "resource"),
        *("resourceattributes", "response", "scope", "scores", "serialized", "spanattributes"),
        *("spanparents", "status", "summary", "tags", "toolcalls", "tools", "usage"),
        *("usagedetails", "warnings", "$aiinputstate", "$aioutputstate"),
    }
)
# What tells a record: an id, a name or kind, and a time. Two of them are enough.
_MARKS = (
    re.compile(r"(?i)(.*_)?(id|uuid)|[a-z]+(Id|ID)"),
    re.compile(r"(?i)(run|span|op|operation|display)?_?(name|type|kind)"),
    re.compile(r"(?i)(start|end|time|creat)(?!.*count).*|.*(time|stamp|_at)"),
)
_CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")

# Reading a value of another form raises one of these, beside the errors of a span.
RECORD_ERRORS = (*DATA_ERRORS, AttributeError, LookupError, TypeError, ValueError, OverflowError)

IsRecord = Callable[[Collection[str]], bool]


@dataclass(frozen=True, slots=True)
class Nesting:
    """How records within a record say whose they are: the fields of the trace, the id, the parent.

    `lists` are the lists within a record that its reader reads itself.
    """

    trace: str = ""
    id: str = ""
    parent: str = ""
    lists: tuple[str, ...] = ()


NO_NESTING = Nesting()


@dataclass(frozen=True, slots=True)
class UnreadList:
    """A list of what seems to be records, which no reader reads."""

    count: int


Part = tuple[str, Callable[[], SpanRow | None]]


class Reader(Protocol):
    """The reader of the records of one source, with the state from earlier ones."""

    def read(self, record: dict[str, Any], where: str) -> DecodedSpans:
        """Return the rows that a record completes. Raises one of RECORD_ERRORS."""

    def rest(self) -> list[SpanRow]:
        """Return the rows that the end of the source completes."""


class RecordReader:
    """The reader of a form whose records do not depend on each other."""

    def __init__(self, read: Callable[[dict[str, Any], str], DecodedSpans]) -> None:
        self.read = read

    def rest(self) -> list[SpanRow]:
        """Return nothing, because no row waits for another record."""
        return []


def rows_by(read: Callable[[dict[str, Any]], list[SpanRow]]) -> Callable[[], RecordReader]:
    """Return a factory of readers for records of any number of spans."""
    return partial(RecordReader, lambda record, _where: DecodedSpans(read(record)))


def spans_of(read: Callable[[dict[str, Any]], SpanRow | None]) -> Callable[[], RecordReader]:
    """Return a factory of readers for records that are one span each, or none."""
    return rows_by(lambda record: [row for row in (read(record),) if row is not None])


def parts_of(parts: Callable[[dict[str, Any]], Iterable[Part]]) -> Callable[[], RecordReader]:
    """Return a factory of readers for records with parts, of which a bad one costs only itself."""

    def read_parts(record: dict[str, Any], where: str) -> DecodedSpans:
        out = DecodedSpans()
        for place, read in parts(record):
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

    return partial(RecordReader, read_parts)


def records_in(
    value: Any, where: str, is_record: IsRecord, nesting: Nesting | None, levels: int = LEVELS_MAX
) -> Iterator[tuple[str, Any]]:
    """Yield the records within a value, each with its place, and those within them.

    A value that is not a record and holds none is yielded as it is, and an `UnreadList` for each
    list of other records; without a `nesting`, only what is not within a record.
    """
    if isinstance(value, list) and levels:
        for index, item in enumerate(value):
            yield from records_in(item, f"{where}[{index}]", is_record, nesting, levels - 1)
        return
    if isinstance(value, dict) and levels and not is_record(value):
        if is_table(value) and (rows := rows_of(value)) is not None:
            yield from records_in(rows, where, is_record, nesting, levels - 1)
            return
        held = envelopes(value, _containers(value))
        if not any(_holds_record(value[name], is_record, levels - 1) for name in held):
            held = [name for name in held if name in ENVELOPES]
        for name in held:
            yield from records_in(value[name], f"{where}.{name}", is_record, nesting, levels - 1)
        if held:
            others = {name: each for name, each in value.items() if name not in held}
            if nesting is not None:
                yield from _within(others, where, is_record, nesting, DEPTH_MAX)
            return
    yield where, value
    if nesting is not None and isinstance(value, dict) and is_record(value):
        yield from _within(value, where, is_record, nesting, DEPTH_MAX)


def _within(
    record: dict[str, Any], where: str, is_record: IsRecord, nesting: Nesting, depth: int
) -> Iterator[tuple[str, Any]]:
    """Yield the records in the lists of a record, and what of them is not read."""
    for name, value in record.items():
        place = f"{where}.{name}"
        if snake_case(name).replace("_", "") in _CONTENT or not isinstance(value, dict | list):
            continue
        if isinstance(value, dict):
            if depth:
                yield from _within(value, place, is_record, nesting, depth - 1)
            continue
        members = [(i, each) for i, each in enumerate(value) if isinstance(each, dict)]
        is_read = name in nesting.lists
        if not is_read:
            members = [(i, _adopted(each, record, nesting)) for i, each in members]
            if not depth or not any(is_record(each) for _, each in members):
                if any(_seems_record(each) for _, each in members):
                    yield place, UnreadList(len(members))
                continue
        for index, member in members:
            if not is_read:
                yield f"{place}[{index}]", member
            yield from _within(member, f"{place}[{index}]", is_record, nesting, depth - 1)


def _seems_record(fields: dict[str, Any]) -> bool:
    """Return whether the names of fields are such as a record of a trace has."""
    return sum(any(map(mark.fullmatch, map(str, fields))) for mark in _MARKS) > 1


def _adopted(child: dict[str, Any], parent: dict[str, Any], nesting: Nesting) -> dict[str, Any]:
    """Return a record with the trace and the id of the one around it, where it names none."""
    own = {snake_case(name): name for name, value in child.items() if value not in (None, "")}
    of_parent = {snake_case(name): value for name, value in parent.items()}
    trace = of_parent.get(nesting.trace) or of_parent.get(nesting.id)
    shown = {nesting.trace: trace, nesting.parent: of_parent.get(nesting.id)}
    missing = {name: value for name, value in shown.items() if name and value and name not in own}
    kept = {name: value for name, value in child.items() if snake_case(name) not in missing}
    return kept | missing


def snake_case(name: str) -> str:
    """Return the name of a field with underscores, as Python writes it."""
    return _CAPITAL.sub(r"_\1", name).lower()


def envelopes(names: Collection[str], containers: Sequence[str]) -> Sequence[str]:
    """Return the names of the fields that hold the records of an object, which may be none.

    It is a general name, else the only object or list, as GraphQL answers under names of the query,
    or all fields, as Grafana answers several queries. `containers` are objects and lists.
    """
    known = (*ENVELOPES, *_OTHER_ENVELOPES)
    general = next((name for name in known if name in containers), None)
    if general is not None:
        return (general,)
    is_only = len(containers) in (1, len(names)) and _SIGNALS.isdisjoint(names)
    return containers if is_only else ()


def _containers(value: dict[str, Any]) -> list[str]:
    return [name for name, each in value.items() if isinstance(each, dict | list)]


def _holds_record(value: Any, is_record: IsRecord, levels: int) -> bool:
    if isinstance(value, list):
        return levels > 0 and any(
            _holds_record(each, is_record, levels - 1) for each in value[:TRIED_MAX]
        )
    if not isinstance(value, dict) or not levels:
        return False
    held = envelopes(value, _containers(value))
    is_held = is_record(value) or is_table(value)
    return is_held or any(_holds_record(value[name], is_record, levels - 1) for name in held)


def wrong(error: Exception) -> str:
    """Return the reason why a record could not be read, in plain words."""
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]!r}"
    if isinstance(error, AttributeError | TypeError):
        return "a field has a wrong type"
    return words(error)
