"""The messages of OTLP/JSON down to the span, and their values as plain Python.

The repeated fields of a message stay undecoded (`Raw`), so that a bad span costs only itself.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from looptrace.collector.otlp.span_rows import BadSpanError

# The most characters of the input in a message about it.
SHOWN_CHARACTERS_MAX = 60

_STATUS_NAMES = {"STATUS_CODE_UNSET": 0, "STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}


class AnyValue(Struct, rename="camel", gc=False):
    """A value; at most one field is set."""

    string_value: str | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    bool_value: bool | None = None
    array_value: ArrayValue | None = None
    kvlist_value: KeyValueList | None = None
    bytes_value: str | None = None  # base64


class KeyValue(Struct, gc=False):
    """One attribute."""

    key: str = ""
    value: AnyValue | None = None


class ArrayValue(Struct, gc=False):
    """A list of values."""

    values: list[AnyValue | None] | None = None


class KeyValueList(Struct, gc=False):
    """A map of values."""

    values: list[KeyValue] | None = None


class Event(Struct, rename="camel", gc=False):
    """Something that happened at one moment of a span."""

    name: str | None = None
    time_unix_nano: int | str | None = None
    attributes: list[KeyValue] | None = None


class Link(Struct, rename="camel", gc=False):
    """Another span that a span belongs with."""

    trace_id: str | None = None
    span_id: str | None = None


class SpanStatus(Struct, gc=False):
    """The status of a span; the code is the number of the enum, or leniently its name."""

    code: int | str | None = None
    message: str | None = None


class Span(Struct, rename="camel", gc=False):
    """A span as it is sent: ids in hex, times in nanoseconds since 1970."""

    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    name: str | None = None
    start_time_unix_nano: int | str | None = None
    end_time_unix_nano: int | str | None = None
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: int | str | None = None
    events: list[Event] | None = None
    links: list[Link] | None = None
    status: SpanStatus | None = None


class Scope(Struct):
    """The instrumentation that made the spans."""

    name: str | None = None


class ScopeSpans(Struct):
    """The spans of one instrumentation, not decoded yet."""

    scope: Raw = Raw(b"null")
    spans: list[Raw] | None = None


class Resource(Struct):
    """The source of the spans, such as a process."""

    attributes: list[KeyValue] | None = None


class ResourceSpans(Struct, rename="camel"):
    """The spans of one resource, not decoded yet."""

    resource: Raw = Raw(b"null")
    scope_spans: list[Raw] | None = None


class TracesRequest(Struct, rename="camel"):
    """An export request; some exports write all its fields with underscores."""

    resource_spans: list[Raw] | UnsetType | None = UNSET
    underscored: Raw | UnsetType = msgspec.field(default=UNSET, name="resource_spans")


def status_code(code: int | str | None) -> int:
    """Return the number of a status, 0 for an unknown name."""
    return _STATUS_NAMES.get(code, 0) if isinstance(code, str) else code or 0


def plain_map(attributes: list[KeyValue] | None) -> dict[str, Any]:
    """Return attributes as a plain dict; the last of two with one key wins."""
    return {attribute.key: plain(attribute.value) for attribute in attributes or ()}


def plain(value: AnyValue | None) -> Any:
    """Return an any-value as a Python value; the empty one is None."""
    if value is None:
        return None
    if value.string_value is not None:
        return value.string_value
    if value.int_value is not None:
        return integer(value.int_value)
    if value.double_value is not None:
        return _double(value.double_value)
    if value.bool_value is not None:
        return value.bool_value
    if value.array_value is not None:
        return [plain(item) for item in value.array_value.values or ()]
    if value.kvlist_value is not None:
        return plain_map(value.kvlist_value.values)
    return value.bytes_value


def integer(value: int | str | None) -> int:
    """Return a whole number, 0 where there is none.

    Raises:
        BadSpanError: if it is not a number.
    """
    try:
        return int(value or 0)
    except ValueError as error:
        raise BadSpanError(f"expected a whole number, found {_shown(value)}") from error


def _double(value: float | str) -> float:
    try:
        return float(value)  # Also "NaN" and "Infinity", as the protocol writes them.
    except (ValueError, OverflowError) as error:
        raise BadSpanError(f"expected a number, found {_shown(value)}") from error


def _shown(value: object) -> str:
    return f"{value!r:.{SHOWN_CHARACTERS_MAX}}"
