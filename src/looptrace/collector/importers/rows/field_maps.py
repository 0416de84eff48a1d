"""Rows of spans from records whose fields a row of `forms.toml` names.

A path is the name of a field, or names with dots between for a field within objects, which may be
JSON in a text. A record of a model's request has the messages in both its body and its answer.
"""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from looptrace import semconv
from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.payloads import canonical, parsed
from looptrace.collector.importers.rows.call_numbers import CallNumbers
from looptrace.collector.importers.rows.messages import answer_of, messages_of, whole_input_tokens
from looptrace.collector.importers.rows.underscores import with_dots
from looptrace.collector.importers.spans import (
    NS_PER_MS,
    NS_PER_S,
    NS_PER_US,
    foreign_row,
    mapping,
    original_attributes,
    plain_attributes,
    session_attributes,
    text_of,
    time_ns,
)
from looptrace.collector.otlp.span_rows import BadSpanError

_UNIT_NS = {"ns": 1, "us": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S}
_MODEL, _TOOL, _AGENT, _CHAIN = "LLM", "TOOL", "AGENT", "CHAIN"
_HTTP_ERROR = 400
_NO_IDS = {"", "0" * 16, "0" * 32}
# Names of an event within its fields, as Jaeger's clients write them.
_EVENT_NAMES = ("event", "message")

Paths = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventPaths:
    """Where a record has the events of its span, and where an event has its parts."""

    list: str
    name: Paths = ()
    time: Paths = ()
    attributes: Paths = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMap:
    """A form of records: which fields tell it, and where the parts of a span stand in it.

    `kinds` has the values of the kind's field by what they mean. With `is_linked` a record belongs
    to the conversation that it continues.
    """

    name: str
    source: Paths
    needs: Paths
    lacks: Paths = ()
    scope: str = ""
    trace: Paths = ()
    span: Paths = ()
    parent: Paths = ()
    label: Paths = ()
    start: Paths = ()
    end: Paths = ()
    duration: Paths = ()
    unit: str = "ns"
    service: Paths = ()
    session: Paths = ()
    agent: Paths = ()
    kind: Paths = ()
    kinds: Mapping[str, Paths] = field(default_factory=dict)
    input: Paths = ()
    output: Paths = ()
    model: Paths = ()
    call_id: Paths = ()
    input_tokens: Paths = ()
    output_tokens: Paths = ()
    cached_tokens: Paths = ()
    error: Paths = ()
    failed: Mapping[str, Paths] = field(default_factory=dict)
    http_status: Paths = ()
    attributes: Paths = ()
    flat: bool = False
    underscores: bool = False
    own: Mapping[str, str] = field(default_factory=dict)
    events: EventPaths | None = None
    nesting: Paths = ()
    continues: Paths = ()
    is_linked: bool = False

    def is_record(self, names: Collection[str]) -> bool:
        """Return whether these field names are those of such a record."""
        fields = set(names)
        return fields.issuperset(self.needs) and fields.isdisjoint(self.lacks)

    def row_of(self, record: dict[str, Any]) -> SpanRow:
        """Return the row of a record. Raises one of RECORD_ERRORS."""
        return foreign_row(**self.span_of(record))

    def span_of(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a span, as `foreign_row` takes them."""
        span = first(record, self.span)
        if span is None and self.is_linked:
            span = digest(canonical(record), size_bytes=8)
        if span is None:
            raise KeyError(self.span[0] if self.span else self.needs[0])
        start_ns = time_ns(first(record, self.start))
        failed, error = self._failure(record)
        parent = first(record, self.parent)
        return {
            "trace": first(record, self.trace) or span,
            "span": span,
            "parent": None if str(parent).replace("-", "") in _NO_IDS else parent,
            "name": first(record, self.label),
            "start_ns": start_ns,
            "end_ns": self._end_ns(record, start_ns),
            "failed": failed,
            "error": error,
            "service": first(record, self.service),
            "scope": self.scope or None,
            "attributes": self._attributes(record),
            "events": _events(record, self.events) if self.events else (),
        }

    def _end_ns(self, record: dict[str, Any], start_ns: int) -> int:
        end = first(record, self.end)
        if end is not None:
            return max(start_ns, time_ns(end))
        lasted = first(record, self.duration)
        if lasted is None:
            return 0 if self.duration else start_ns
        return start_ns + round(float(lasted) * _UNIT_NS[self.unit])

    def _failure(self, record: dict[str, Any]) -> tuple[bool | None, object]:
        error = first(record, self.error)
        failed = error is not None or any(
            str(at(record, path)).lower() in values for path, values in self.failed.items()
        )
        status = first(record, self.http_status)
        if isinstance(status, int | str) and str(status).isdecimal():
            failed = failed or int(status) >= _HTTP_ERROR
        return True if failed else None, error

    def _attributes(self, record: dict[str, Any]) -> dict[str, Any]:
        named = with_dots if self.underscores else dict
        given: dict[str, Any] = original_attributes(named(record)) if self.flat else {}
        for path in self.attributes:
            given |= plain_attributes(named(_object(at(record, path))))
        # Some stores keep all numbers as floats.
        given = {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in given.items()
        }
        own = {name: text_of(at(record, path)) for name, path in self.own.items()}
        told = self._told(record) if self.kinds or self.input else {}
        session = session_attributes(first(record, self.session))
        known = {name: value for name, value in {**own, **told, **session}.items() if value}
        return given | known

    def _told(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return what a record tells of its step, in the names of GenAI."""
        kind, label = self._kind(record), first(record, self.label)
        given, answer = first(record, self.input), first(record, self.output)
        if kind == _AGENT:
            return {
                semconv.GEN_AI_OPERATION_NAME: "invoke_agent",
                semconv.GEN_AI_AGENT_NAME: first(record, self.agent) or label,
            }
        if kind == _TOOL:
            return {
                semconv.GEN_AI_OPERATION_NAME: "execute_tool",
                semconv.GEN_AI_TOOL_NAME: label,
                semconv.GEN_AI_TOOL_CALL_ID: first(record, self.call_id),
                semconv.GEN_AI_TOOL_CALL_ARGUMENTS: text_of(given),
                semconv.GEN_AI_TOOL_CALL_RESULT: text_of(answer),
            }
        if kind == _CHAIN:
            values = {"input.value": text_of(given), "output.value": text_of(answer)}
            return {"openinference.span.kind": kind, **values}
        return self._response(record, given, answer)

    def _response(self, record: dict[str, Any], given: Any, answer: Any) -> dict[str, Any]:
        numbers = CallNumbers()
        asked = [numbers.numbered(message) for message in messages_of(given)]
        said = [numbers.numbered(message) for message in answer_of(answer)]
        usage = mapping(mapping(answer).get("usage"))
        tokens = first(record, self.input_tokens)
        if tokens is not None and tokens == usage.get("input_tokens"):
            tokens = whole_input_tokens(usage)
        return {
            semconv.GEN_AI_OPERATION_NAME: "chat",
            semconv.GEN_AI_REQUEST_MODEL: first(record, self.model),
            semconv.GEN_AI_AGENT_NAME: first(record, self.agent),
            semconv.GEN_AI_INPUT_MESSAGES: text_of(asked) if asked else None,
            semconv.GEN_AI_OUTPUT_MESSAGES: text_of(said) if said else None,
            semconv.GEN_AI_USAGE_INPUT_TOKENS: tokens,
            semconv.GEN_AI_USAGE_OUTPUT_TOKENS: first(record, self.output_tokens),
            semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: first(record, self.cached_tokens),
        }

    def _kind(self, record: dict[str, Any]) -> str:
        if not self.kind:
            return _MODEL
        told = str(first(record, self.kind)).lower()
        return next((kind for kind, values in self.kinds.items() if told in values), _CHAIN)


@dataclass(frozen=True, slots=True)
class UnreadForm:
    """A form of records that cannot be read, and what to do instead."""

    name: str
    source: Paths
    needs: Paths
    why: str

    def is_record(self, names: Collection[str]) -> bool:
        """Return whether these field names are those of such a record."""
        return set(names).issuperset(self.needs)


def first(record: Mapping[str, Any], paths: Collection[str]) -> Any:
    """Return the first value of a record at paths that is not empty, else None."""
    values = (at(record, path) for path in paths)
    return next((value for value in values if value not in (None, "", [], {})), None)


def at(held: Any, path: str) -> Any:
    """Return the value at a path, None if there is none."""
    held = parsed(held)
    if isinstance(held, list) and path.partition(".")[0].isdecimal():
        held = {str(index): item for index, item in enumerate(held)}
    if not isinstance(held, Mapping):
        return None
    if path in held:
        return held[path]
    name, dot, rest = path.partition(".")
    return at(held[name], rest) if dot and name in held else None


def _object(value: Any) -> dict[str, Any]:
    """Return attributes as an object, also from a list of keys with values."""
    value = parsed(value)
    if isinstance(value, list):
        return {str(each["key"]): each.get("value") for each in map(mapping, value)}
    return value if isinstance(value, dict) else {}


def _events(record: dict[str, Any], paths: EventPaths) -> list[tuple[str, int, dict[str, Any]]]:
    events = []
    for event in map(_named, parsed(at(record, paths.list)) or ()):
        attributes = _object(first(event, paths.attributes))
        written = next((attributes.pop(name) for name in _EVENT_NAMES if name in attributes), "")
        name = first(event, paths.name) or written
        events.append((str(name), time_ns(first(event, paths.time)), attributes))
    return events


def _named(value: Any) -> dict[str, Any]:
    """Return an event as an object, also from JSON or from a tuple, whose places are names."""
    value = parsed(value)
    return {str(i): v for i, v in enumerate(value)} if isinstance(value, list) else mapping(value)


@cache
def field_maps() -> tuple[tuple[FieldMap, ...], tuple[UnreadForm, ...]]:
    """Return the forms of `forms.toml`, and those that cannot be read, in their order."""
    table = tomllib.loads(files(__package__).joinpath("forms.toml").read_text("utf-8"))
    maps = tuple(FieldMap(**_row(row)) for row in table["forms"])
    return maps, tuple(UnreadForm(**_row(row)) for row in table["unread"])


def _row(row: dict[str, Any]) -> dict[str, Any]:
    made = {name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}
    for name in ("kinds", "failed"):
        if name in row:
            made[name] = {key: tuple(values) for key, values in row[name].items()}
    if "events" in row:
        held: dict[str, Any] = row["events"]
        paths = {name: tuple(held.get(name, ())) for name in ("name", "time", "attributes")}
        made["events"] = EventPaths(held["list"], **paths)
    return made


def checked_messages(span: Mapping[str, Any], name: str) -> None:
    """Raise BadSpanError for a request without messages, which may be a record of another kind."""
    told = span["attributes"]
    if not told.keys() & {semconv.GEN_AI_INPUT_MESSAGES, semconv.GEN_AI_OUTPUT_MESSAGES}:
        raise BadSpanError(f"this {name} has no messages; export requests with their bodies")
