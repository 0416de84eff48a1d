"""Span rows to canonical fields, read once: what each span is, and what its turns are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, TypeAlias

import polars as pl

from looptrace import semconv
from looptrace.analyzer.fields.call_numbers import number_calls
from looptrace.analyzer.fields.dialect_table import (
    PART,
    SHIPPED,
    STEP,
    DialectTable,
    Said,
    finish_reason_of,
)
from looptrace.analyzer.fields.field_reader import (
    FieldColumns,
    FieldReader,
    SpansAlike,
    parts_of,
    parts_of_rows,
    reader_by,
    spans_alike,
)
from looptrace.analyzer.fields.flat_messages import FlatMessages
from looptrace.analyzer.fields.messages import messages_of
from looptrace.analyzer.fields.progress_figures import figures_of
from looptrace.analyzer.fields.span_failures import errors_of, failed_by, levels_of
from looptrace.analyzer.fields.streamed_answers import answer_of
from looptrace.analyzer.fields.token_counts import token_counts
from looptrace.analyzer.schema.message import Message
from looptrace.analyzer.schema.span_fields import (
    Intervention,
    Shape,
    SpanFields,
    SpanKind,
)
from looptrace.analyzer.schema.spans import SpanRow, linked_traces
from looptrace.analyzer.text.payloads import arguments_of, canonical, parsed, result_of
from looptrace.analyzer.text.session_names import bounded_name

# Spans of no kind have whole states as their input; arguments of calls are shorter.
SPARE_CHARS_MAX = 20_000
TIME_NS_MAX = 2**63 - 1


# Dialects that write an empty object where content is hidden.
_HIDDEN_AS_EMPTY = frozenset({"langsmith", "google_adk"})
# smolagents reports the end of a run as a call to this tool.
_NOT_A_CALL = frozenset({"final_answer"})
# Messages in JSON begin like this.
_CUT_OFF = re.compile(r'\s*(\[\s*\{\s*"|\{\s*"(?:messages|parts|role)")')

_Kinds: TypeAlias = Sequence[SpanKind | None]  # of each span
_Texts: TypeAlias = Sequence[str | None]
_Flags: TypeAlias = Sequence[bool | None]
_Messages: TypeAlias = Sequence[tuple[Message, ...] | None]


def span_fields_of(spans: pl.DataFrame, dialects: DialectTable = SHIPPED) -> list[SpanFields]:
    """Read each span of the table, in the table's order.

    Spans with the same attributes are read together, field by field.
    """
    reader = reader_by(dialects)
    return list(chain.from_iterable(_read_part(*part, reader) for part in parts_of(spans)))


def span_fields_of_rows(
    rows: Sequence[SpanRow], dialects: DialectTable = SHIPPED
) -> list[SpanFields]:
    """Read each of these spans as `span_fields_of` does; for a few it takes half as long."""
    reader = reader_by(dialects)
    return list(chain.from_iterable(_read_part(*part, reader) for part in parts_of_rows(rows)))


def _read_part(
    columns: Mapping[str, Sequence[Any]],
    attributes: Iterable[dict[str, Any]],
    reader: FieldReader,
) -> list[SpanFields]:
    alike = spans_alike(columns, attributes, reader)
    pairs = [pair for spans in alike for pair in _read(spans, reader)]
    pairs.sort(key=itemgetter(0))
    return [fields for _, fields in pairs]


def _read(spans: SpansAlike, reader: FieldReader) -> Iterator[tuple[int, SpanFields]]:
    """Read spans with the same attributes; yields the fields of each with its place."""
    by_kind: dict[Said, list[int]] = {}
    for number, said in enumerate(_kinds_of(spans, reader)):
        by_kind.setdefault(said, []).append(number)
    for said, chosen in by_kind.items():
        members = spans.take(chosen)
        try:
            fields = _fields(members, said, reader)
        except RecursionError:
            alone = (members.take([number]) for number in range(len(chosen)))
            fields = [_read_carefully(span, said, reader) for span in alone]
        yield from zip(members.places, fields, strict=True)


def _kinds_of(spans: SpansAlike, reader: FieldReader) -> list[Said]:
    return reader.table.kinds_of(spans.attributes, spans.row["name"], spans.row["scope"])


def _read_carefully(span: SpansAlike, said: Said, reader: FieldReader) -> SpanFields:
    """Read a span alone; content that is nested too deep is not read, but the span still counts."""
    try:
        (fields,) = _fields(span, said, reader)
    except RecursionError:
        kept = {k: column for k, column in span.attributes.items() if not _holds_more(column[0])}
        span = span._replace(attributes=kept)
        (said,) = _kinds_of(span, reader)
        (fields,) = _fields(span, said, reader)
    return fields


def _holds_more(value: object) -> bool:
    """Return whether a value contains other values, as such or as JSON."""
    is_more = isinstance(value, dict | list | FlatMessages)
    return is_more or str(value).lstrip().startswith(("{", "["))


def _fields(spans: SpansAlike, said: Said, reader: FieldReader) -> list[SpanFields]:
    """Return the fields of spans of one kind and dialect that have the same attributes."""
    said_kind, dialect = said
    kind: SpanKind | None = "tool" if said_kind in (PART, STEP) else said_kind
    row, columns = spans.row, reader.columns(dialect, spans.attributes, len(spans.places))
    names = _names(row["name"], columns.values(kind or ""), reader.table)
    kinds: _Kinds = [None if name in _NOT_A_CALL else kind for name in names]
    arguments, results, say_failed = (
        _tool_fields(columns, kinds, dialect) if kind else _spare_fields(columns, len(names))
    )
    levels = levels_of(columns)
    failed = list(map(failed_by, row["status"], levels, say_failed, results, row["events"]))
    errors = errors_of(row, columns, failed, results)
    kinds = _shown(kinds, said_kind, arguments, results, failed)
    given, answers = _model_fields(columns, kinds, row["trace_id"])
    return list(
        map(
            SpanFields,
            *map(row.__getitem__, ("trace_id", "span_id", "parent_span_id")),
            *map(row.__getitem__, ("start_ns", "end_ns")),
            [service and bounded_name(service) for service in row["service"]],
            map(linked_traces, row["links"]),
            kinds,
            _shapes(spans, kinds, said),
            *map(columns.names, ("session", "connection", "task", "task_parent", "task_kind")),
            _agents(columns, kinds, names, named_by_span=dialect in reader.table.named_by_span),
            columns.names("phase"),
            map(_time_ns, columns.values("phase_start_ns")),
            columns.names("iteration"),
            columns.texts("status"),
            map(_blockers, columns.values("blockers")),
            columns.texts("completed_work"),
            figures_of(columns),
            map(_interventions, row["events"]),
            names,
            columns.texts("call_id"),
            arguments,
            _told_results(results, failed, dialect),
            failed,
            *zip(*errors, strict=True),
            given,
            answers,
            map(_finish_reason, columns.values("finish_reason"), kinds),
            map(_compacted, columns.values("compacted"), kinds),
            *zip(*token_counts(spans, columns, kinds, reader.table), strict=True),
            repeat(said_kind == PART),
        )
    )


def _shown(
    kinds: _Kinds, said: SpanKind | None, arguments: _Texts, results: _Texts, failed: _Flags
) -> _Kinds:
    """Return the kinds of parts that say something, and of steps that show a whole call."""
    if said not in (PART, STEP):
        return kinds
    told = zip(kinds, arguments, results, failed, strict=True)
    if said == PART:
        return [kind if asked or gave or lost else None for kind, asked, gave, lost in told]
    return [
        kind if asked is not None and (gave is not None or lost) else None
        for kind, asked, gave, lost in told
    ]


def _shapes(spans: SpansAlike, kinds: _Kinds, said: Said) -> Sequence[Shape | None]:
    """Return how the spans look that may be no turn: those without a kind, and steps."""
    kind, dialect = said
    may_be_none = [each is None or kind == STEP for each in kinds]
    if True not in may_be_none:
        return [None] * len(kinds)
    keys = tuple(sorted(key for key in spans.attributes if not key.startswith("@")))
    seen = zip(may_be_none, spans.row["scope"], spans.row["name"], strict=True)
    return [
        Shape(scope and bounded_name(scope), bounded_name(name), keys, bool(dialect))
        if is_shown
        else None
        for is_shown, scope, name in seen
    ]


def _names(span_names: Sequence[str], named: Sequence[Any], table: DialectTable) -> list[str]:
    return [
        bounded_name(_unquoted(str(name)) if name else table.name_in(span_name))
        for name, span_name in zip(named, span_names, strict=True)
    ]


def _unquoted(name: str) -> str:
    """Return a name without the quotation marks of JSON."""
    return str(parsed(name)) if name.startswith('"') else name


def _agents(
    columns: FieldColumns, kinds: _Kinds, names: Sequence[str], *, named_by_span: bool
) -> Sequence[str | None]:
    agents = columns.names("agent")
    if not named_by_span or "agent" not in kinds:
        return agents
    named = zip(agents, kinds, names, strict=True)
    return [name if agent is None and kind else agent for agent, kind, name in named]


def _tool_fields(
    columns: FieldColumns, kinds: _Kinds, dialect: str
) -> tuple[_Texts, _Texts, _Flags]:
    """Return arguments, results, and whether the results say that the calls failed."""
    if "tool" not in kinds:
        unknown = [None] * len(kinds)
        return unknown, unknown, unknown
    arguments = [arguments_of(_whole(value)) for value in columns.values("arguments")]
    gave = [result_of(_whole(value)) for value in columns.values("result")]
    results, say_failed = map(list, zip(*gave, strict=True))
    _read_messages(columns, arguments, results, say_failed)
    for place, kind in enumerate(kinds):
        if kind is None:
            arguments[place] = results[place] = say_failed[place] = None
    if dialect in _HIDDEN_AS_EMPTY and "{}" in results:
        arguments = _told_arguments(arguments, results)
    return arguments, results, say_failed


def _read_messages(
    columns: FieldColumns,
    arguments: list[str | None],
    results: list[str | None],
    say_failed: list[bool | None],
) -> None:
    """Fill in what Strands' newer form has in messages of the tool's own span."""
    if "given" in columns and None in arguments:
        for place, asked in enumerate(columns.values("given")):
            if arguments[place] is None:
                messages = _messages(asked, "tool") or ()
                arguments[place] = next((c.arguments for m in messages for c in m.calls), None)
    if "answer" in columns and None in results:
        for place, gave in enumerate(columns.values("answer")):
            messages = (_messages(gave, "tool") or ()) if results[place] is None else ()
            for result in (result for message in messages for result in message.results):
                results[place], say_failed[place] = result.text, result.failed
                break


def _told_arguments(arguments: _Texts, results: _Texts) -> list[str | None]:
    """Leave out arguments that are empty as the result is, because both are hidden."""
    pairs = zip(arguments, results, strict=True)
    return [None if asked == gave == "{}" else asked for asked, gave in pairs]


def _spare_fields(columns: FieldColumns, count: int) -> tuple[_Texts, _Texts, _Flags]:
    """Return the same of spans of no kind, which may be calls; what is long is left out.

    An attempt is no call, and has its results in fields of its own.
    """
    unknown: list[Any] = [None] * count
    if "arguments" not in columns or "status" in columns:
        return unknown, unknown, unknown
    given, gave = (map(_short, columns.values(name)) for name in ("arguments", "result"))
    results, say_failed = zip(*map(result_of, gave), strict=True)
    return list(map(arguments_of, given)), results, say_failed


def _short(value: Any) -> Any:
    return value if len(str(value)) <= SPARE_CHARS_MAX else None


def _whole(value: object) -> object:
    """Return a value, or the list of documents that stand in flat keys."""
    return value.values() if isinstance(value, FlatMessages) else value


def _told_results(results: _Texts, failed: _Flags, dialect: str) -> _Texts:
    """Leave out the empty result that producers write if a call failed or outputs are hidden."""
    if "{}" not in results:
        return results
    is_hidden = dialect in _HIDDEN_AS_EMPTY
    pairs = zip(results, failed, strict=True)
    return [None if text == "{}" and (lost or is_hidden) else text for text, lost in pairs]


def _blockers(value: object) -> str | None:
    """Return what blocked an attempt, in canonical order; None if the span does not say."""
    if value is None or (value := parsed(value)) is None:
        return None
    names = value if isinstance(value, list) else [value]
    return canonical(sorted({canonical(name) for name in names}))


def _model_fields(
    columns: FieldColumns, kinds: _Kinds, trace_ids: Sequence[str]
) -> tuple[_Messages, _Messages]:
    """Return what models and agents were given, and what they answered."""
    if "model" not in kinds and "agent" not in kinds:
        unknown = [None] * len(kinds)
        return unknown, unknown
    given = list(map(_messages, columns.values("given"), repeat("user"), trace_ids))
    answers = list(map(_messages, map(answer_of, columns.values("answer")), repeat("assistant")))
    if "answer_calls" in columns:
        for place, value in enumerate(columns.values("answer_calls")):
            has_calls = any(message.calls for message in answers[place] or ())
            if not has_calls and (asked := _messages(_calls_in(value), "assistant")):
                answers[place] = (answers[place] or ()) + asked
    for place, kind in enumerate(kinds):
        if kind is None:
            given[place] = answers[place] = None
    return number_calls(given, answers)


def _calls_in(value: object) -> object:
    """Return a list of calls that name no type as one of calls."""
    value = parsed(value)
    if not isinstance(value, list):
        return value
    return [{"type": "tool_call", **call} if isinstance(call, dict) else call for call in value]


def _messages(
    value: object, role: str, conversation: str | None = None
) -> tuple[Message, ...] | None:
    if value is None:
        return None
    found = tuple(messages_of(value, role, conversation))
    if isinstance(value, str) and found and found[0].text == value.strip():
        # The value is text, not JSON. It may be JSON that a limit on attribute lengths cut off.
        return (Message("", None, (), ()),) if _CUT_OFF.match(value) else found
    return found or None


def _time_ns(value: object) -> int | None:
    """Read a point in time; a value that no span can have is unknown."""
    return value if isinstance(value, int) and 0 <= value <= TIME_NS_MAX else None


def _interventions(events: Sequence[dict[str, Any]]) -> tuple[Intervention, ...]:
    if not events:
        return ()
    return tuple(
        Intervention(event["time_ns"], *(_said(event, name) for name in ("decision", "note")))
        for event in events
        if event["name"] == semconv.INTERVENTION_EVENT
    )


def _said(event: dict[str, Any], name: str) -> str | None:
    value = event["attributes"].get(f"looptrace.{name}")
    return None if value is None else str(value)


def _finish_reason(value: Any, kind: SpanKind | None) -> str | None:
    if value is None or kind != "model":
        return None
    value = parsed(value)
    words = value if isinstance(value, list) else [value]
    reason = finish_reason_of([word for word in words if isinstance(word, str)])
    return reason and bounded_name(reason)


def _compacted(value: Any, kind: SpanKind | None) -> bool | None:
    return True if kind == "model" and parsed(value) is True else None
