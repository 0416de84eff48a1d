"""A span's row read once: what it is, and the canonical fields that turns are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

import msgspec
import polars as pl

from looptrace import semconv
from looptrace.analyzer.normalize.dialects import CanonicalFields, with_events
from looptrace.analyzer.normalize.messages import Message, ToolCall, messages_of
from looptrace.analyzer.normalize.span_kinds import SpanKind, kind_of
from looptrace.analyzer.schema.turns import SILENCE
from looptrace.analyzer.text.errors import error_of, says_nothing
from looptrace.analyzer.text.payloads import arguments_of, canonical, parsed, result_of

_NONE = "[]"  # events or links
STATUS_OK, STATUS_ERROR = 1, 2
# A response cannot have used more; such a number is a fault of what wrote it.
TOKENS_MAX = 10**9
# Nor can a task have as many tests, files or lines.
COUNT_MAX = 10**9
PERCENT_MAX = 100.0
TIME_NS_MAX = 2**63 - 1

_COUNTS = ("tests_failed", "tests_total", "files_created", "dependencies_added", "code_written")
_PROGRESS = frozenset({*_COUNTS, "coverage"})
# Fields that are texts, taken as they stand.
_TEXTS = frozenset(
    {
        *("session", "task", "task_parent", "task_kind", "agent", "phase", "iteration", "status"),
        *("completed_work", "call_id"),
    }
)

# smolagents reports the end of a run as a call of this tool.
_NOT_A_CALL = {"final_answer"}
# Here the span of an agent has the agent's name, elsewhere often the framework's.
_NAMED_BY_SPAN = {"openinference", "traceloop", "langfuse"}
_NAME_EXTRAS = re.compile(r"^(execute_tool|invoke_agent) |(\.tool|\.agent|\.run|\._execute_core)$")
_TYPES_THAT_SAY_NOTHING = {"", "_OTHER", "TOOL_ERROR", "Exception", "Error", "tool_error"}
# How messages in JSON begin.
_CUT_OFF = re.compile(r'\s*(\[\s*\{\s*"|\{\s*"messages")')


class ProgressFigures(msgspec.Struct, frozen=True):
    """The progress that an agent's author recorded on a span."""

    tests_failed: int | None
    tests_total: int | None
    coverage: float | None
    markers: int | None  # files created, dependencies added, code written, in sum
    metrics: str | None = None  # of the author's own, as a JSON object of numbers

    @property
    def known(self) -> bool:
        """Whether the span says anything of progress."""
        return self != NO_FIGURES


NO_FIGURES = ProgressFigures(None, None, None, None)


@dataclass(frozen=True, slots=True)
class Intervention:
    """A person stepped in: an event of a span."""

    at_ns: int
    decision: str | None
    note: str | None


class SpanFields(msgspec.Struct, frozen=True, kw_only=True):
    """One span in canonical fields; None is unknown. `given` and `answer` are a model's."""

    trace_id: str
    span_id: str
    parent_span_id: str | None
    start_ns: int
    end_ns: int
    service: str | None
    links: tuple[str, ...]  # ids of the traces that the span links to
    kind: SpanKind | None
    session: str | None = None
    task: str | None = None
    task_parent: str | None = None
    task_kind: str | None = None
    agent: str | None
    phase: str | None = None
    phase_start_ns: int | None  # of the span above that declares it, where this one has a copy
    iteration: str | None = None
    status: str | None = None  # of an attempt at the task, as are the two that follow
    blockers: str | None
    completed_work: str | None = None
    figures: ProgressFigures
    interventions: tuple[Intervention, ...]
    name: str
    call_id: str | None = None
    arguments: str | None
    result: str | None
    failed: bool | None
    error_type: str | None
    error: str | None
    stacktrace: str | None  # of the failure, else the text that its message was taken from
    given: tuple[Message, ...] | None
    answer: tuple[Message, ...] | None
    input_tokens: int | None
    output_tokens: int | None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that a model's answer asks for."""
        answer = self.answer or ()
        if len(answer) == 1:
            return answer[0].calls
        return tuple(call for message in answer for call in message.calls)

    @property
    def text(self) -> str | None:
        """What a model said; "" where it only called, None where the trace does not say."""
        if self.answer is None:
            return None
        texts = [message.text for message in self.answer]
        if None in texts:
            return None
        return "\n".join(text for text in texts if text)

    @property
    def response(self) -> str | None:
        """A text that two responses share only if they say and ask for the same."""
        text, calls = self.text, self.calls
        if text is None or any(call.arguments is None for call in calls):
            return None
        if text or calls:
            return "\n".join([text, *(f"{c.name}({c.arguments})" for c in calls)])
        return SILENCE if all(message.silent for message in self.answer or ()) else None


class _Row(NamedTuple):
    """A row of the span table, as `SPAN_SCHEMA` has it."""

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    start_ns: int
    end_ns: int
    status: int
    status_message: str | None
    service: str | None
    scope: str | None
    attributes: str
    events: str
    links: str


def span_fields_of(spans: pl.DataFrame) -> Iterator[SpanFields]:
    """Read each span of the table, in its order."""
    # A selection that changes nothing takes longer than to read a span.
    chosen = spans if spans.columns == list(_Row._fields) else spans.select(_Row._fields)
    for row in map(_Row._make, chosen.rows()):
        attributes = msgspec.json.decode(row.attributes)
        events = msgspec.json.decode(row.events) if row.events != _NONE else []
        yield _read(row, attributes, events)


def _read(row: _Row, attributes: dict[str, Any], events: list[dict[str, Any]]) -> SpanFields:
    try:
        return _facts(row, with_events(attributes, events), events)
    except RecursionError:  # Content nested that deep is not read; the span still counts.
        return _facts(row, {k: v for k, v in attributes.items() if not _holds_more(v)}, events)


def _holds_more(value: object) -> bool:
    """Tell values that other values lie in, as such or as JSON."""
    return isinstance(value, dict | list) or str(value).lstrip().startswith(("{", "["))


def _facts(row: _Row, attributes: dict[str, Any], events: list[dict[str, Any]]) -> SpanFields:
    kind, dialect = kind_of(attributes)
    fields = CanonicalFields(attributes, dialect)
    texts = fields.texts(_TEXTS)
    name = _name(row.name, fields, kind)
    kind = None if name in _NOT_A_CALL else kind
    arguments, result, says_failed = _tool_fields(fields, kind)
    failed = _failed(row.status, fields.text("level"), says_failed, result)
    told = _error(row, fields, events, result) if failed else (None, None, None)
    given, answer = _model_fields(fields, kind, row.trace_id)
    agent = texts.pop("agent", None)
    if agent is None and kind == "agent" and dialect in _NAMED_BY_SPAN:
        agent = name
    return SpanFields(
        trace_id=row.trace_id,
        span_id=row.span_id,
        parent_span_id=row.parent_span_id,
        start_ns=row.start_ns,
        end_ns=row.end_ns,
        service=row.service,
        links=linked_traces(row.links),
        kind=kind,
        agent=agent,
        phase_start_ns=_time_ns(fields, "phase_start_ns"),
        blockers=_blockers(fields),
        figures=_figures(fields, attributes),
        interventions=_interventions(events),
        name=name,
        arguments=arguments,
        # LangSmith writes it of a failed call, and where outputs are hidden.
        result=None if result == "{}" and (failed or dialect == "langsmith") else result,
        failed=failed,
        error_type=told[0],
        error=told[1],
        stacktrace=told[2],
        given=given,
        answer=answer,
        input_tokens=_count(fields, "input_tokens", kind),
        output_tokens=_count(fields, "output_tokens", kind),
        **texts,
    )


def linked_traces(links: str) -> tuple[str, ...]:
    """Return the ids of the traces in a span's links."""
    if links == _NONE:
        return ()
    return tuple(link["trace_id"] for link in msgspec.json.decode(links))


def _name(span_name: str, fields: CanonicalFields, kind: SpanKind | None) -> str:
    named = fields.value(kind) if kind else None
    return str(named) if named else _NAME_EXTRAS.sub("", span_name)


def _tool_fields(
    fields: CanonicalFields, kind: SpanKind | None
) -> tuple[str | None, str | None, bool | None]:
    """Return arguments, result, and whether the result says that the call failed."""
    if kind != "tool":
        return None, None, None
    arguments = arguments_of(fields.value("arguments"))
    result, failed = result_of(fields.value("result"))
    # Strands' newer form has both in messages of the tool's own span.
    if arguments is None:
        asked = _messages(fields, "given", "tool") or ()
        arguments = next((c.arguments for m in asked for c in m.calls), None)
    if result is None:
        gave = _messages(fields, "answer", "tool") or ()
        for found in (r for m in gave for r in m.results):
            return arguments, found.text, found.failed
    return arguments, result, failed


def _blockers(fields: CanonicalFields) -> str | None:
    """Return what blocked an attempt, in an order that says nothing; None where it does not say."""
    if "blockers" not in fields or (value := parsed(fields.value("blockers"))) is None:
        return None
    names = value if isinstance(value, list) else [value]
    return canonical(sorted({canonical(name) for name in names}))


def _model_fields(
    fields: CanonicalFields, kind: SpanKind | None, trace_id: str
) -> tuple[tuple[Message, ...] | None, tuple[Message, ...] | None]:
    if kind not in ("model", "agent"):
        return None, None
    given = _messages(fields, "given", "user", trace_id)
    answer = _messages(fields, "answer", "assistant")
    asked = _messages(fields, "answer_calls", "assistant")
    return given, answer if asked is None else (answer or ()) + asked


def _messages(
    fields: CanonicalFields, key: str, role: str, conversation: str | None = None
) -> tuple[Message, ...] | None:
    value = fields.value(key)
    if value is None:
        return None
    found = tuple(messages_of(value, role, conversation))
    if isinstance(value, str) and found and found[0].text == value.strip():
        # No JSON but text, which may be what a limit on the length of attributes left of it.
        return (Message("", None, (), ()),) if _CUT_OFF.match(value) else found
    return found or None


def _failed(
    status: int, level: str | None, says_failed: bool | None, result: str | None
) -> bool | None:
    """Tell failure by the span's status, then by the result; a later step reads its text."""
    if status == STATUS_ERROR or (level or "").lower() in ("error", "failure"):
        return True
    if says_failed is not None:
        return says_failed
    return False if status == STATUS_OK and result is None else None


def _error(
    row: _Row,
    fields: CanonicalFields,
    events: list[dict[str, Any]],
    result: str | None,
) -> tuple[str | None, str | None, str | None]:
    """Return type, message and stack trace of a failure: the first source that says something."""
    raised: dict[str, Any] = next((e["attributes"] for e in events if e["name"] == "exception"), {})
    sources = [
        raised.get(semconv.EXCEPTION_MESSAGE),
        row.status_message,
        fields.value("error"),
        result,
    ]
    types = [raised.get(semconv.EXCEPTION_TYPE), fields.value("error_type")]
    told = [str(t) for t in types if t and str(t) not in _TYPES_THAT_SAY_NOTHING]
    found_type = told[0].rsplit(".", 1)[-1] if told else None
    trace = str(raised.get(semconv.EXCEPTION_STACKTRACE) or "") or None
    for source in sources:
        if isinstance(source, str) and not says_nothing(source):
            text_type, message = error_of(source)
            return found_type or text_type, message, trace or source
    return found_type, None, trace


def _figures(fields: CanonicalFields, attributes: Mapping[str, Any]) -> ProgressFigures:
    """Read recorded progress; what is no number, or none that can be, is unknown."""
    metrics = _metrics(fields.others, attributes)
    if not metrics and not fields.has_any(_PROGRESS):
        return NO_FIGURES
    tests_failed, tests_total, *done = (_number(fields, name, COUNT_MAX) for name in _COUNTS)
    known = [int(number) for number in done if number is not None]
    return ProgressFigures(
        tests_failed=None if tests_failed is None else int(tests_failed),
        tests_total=None if tests_total is None else int(tests_total),
        coverage=_number(fields, "coverage", PERCENT_MAX),
        markers=sum(known) if known else None,
        metrics=canonical(metrics) if metrics else None,
    )


def _metrics(names: Iterable[str], attributes: Mapping[str, Any]) -> dict[str, float]:
    """Read the figures of the author's own; what is no number is none."""
    return {
        name.removeprefix(semconv.METRIC_PREFIX): float(value)
        for name in names
        if name.startswith(semconv.METRIC_PREFIX)
        and isinstance(value := attributes[name], int | float)
        and isfinite(value)
    }


def _number(fields: CanonicalFields, name: str, greatest: float) -> float | None:
    """Read a number between 0 and `greatest`; true counts as one, a list by its length."""
    value = parsed(fields.value(name))
    if isinstance(value, list):
        value = len(value)
    fits = isinstance(value, int | float) and 0 <= value <= greatest
    return float(value) if fits else None


def _time_ns(fields: CanonicalFields, name: str) -> int | None:
    """Read a point in time; what a span cannot say is unknown."""
    value = fields.value(name)
    return value if isinstance(value, int) and 0 <= value <= TIME_NS_MAX else None


def _interventions(events: list[dict[str, Any]]) -> tuple[Intervention, ...]:
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


def _count(fields: CanonicalFields, key: str, kind: SpanKind | None) -> int | None:
    if kind != "model":
        return None  # Agents' spans repeat the sum of their models'.
    value = parsed(fields.value(key))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value <= TOKENS_MAX else None
