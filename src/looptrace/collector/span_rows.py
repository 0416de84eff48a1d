"""One row of the span table from the fields of a span, whatever encoding they came in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

# The columns of SPAN_SCHEMA, in its order.
Row: TypeAlias = tuple[
    str, str, str | None, str, int, int, int, str | None, str | None, str | None, str, str, str
]

SERVICE_NAME = "service.name"
UNSET, OK, ERROR = 0, 1, 2
NANOSECONDS_MAX = (1 << 63) - 1  # What the table's 64-bit integers hold: the year 2262.

_TRACE_ID = re.compile(r"(?!0+$)[0-9a-f]{32}")
_SPAN_ID = re.compile(r"(?!0+$)[0-9a-f]{16}")
_ZEROS = re.compile(r"0*")
_encode = msgspec.json.Encoder().encode


class BadSpan(ValueError):
    """A span that is no span; the text says why."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of the input that could not be read: where it lies, and why.

    `foreign` marks a part that is no OTLP at all: a run of those is reported as one.
    """

    where: str
    why: str
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class Decoded:
    """What came out of some input: rows of the span table, and what could not be read."""

    rows: list[Row] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def span_row(
    *,
    trace_id: str,
    span_id: str,
    parent_span_id: str,
    name: str,
    start_ns: int,
    end_ns: int,
    status: int,
    status_message: str,
    service: str | None,
    scope: str | None,
    attributes: Mapping[str, Any],
    events: Sequence[Mapping[str, Any]],
    links: Sequence[Mapping[str, Any]],
) -> Row:
    """Give the row of a span whose ids are hex; raises BadSpan where they or its times are not.

    A missing time is 0 and is taken from the other; a span never ends before it starts.
    """
    trace_id, span_id, parent_span_id = trace_id.lower(), span_id.lower(), parent_span_id.lower()
    if not _TRACE_ID.fullmatch(trace_id):
        raise BadSpan("traceId must be 32 hex digits, not all zero")
    if not _SPAN_ID.fullmatch(span_id):
        raise BadSpan("spanId must be 16 hex digits, not all zero")
    start_ns = start_ns or end_ns
    end_ns = max(start_ns, end_ns)
    if not 0 <= start_ns <= end_ns <= NANOSECONDS_MAX:
        raise BadSpan("its times must lie between 1970 and 2262, in nanoseconds")
    return (
        trace_id,
        span_id,
        None if _ZEROS.fullmatch(parent_span_id) else parent_span_id,
        name,
        start_ns,
        end_ns,
        status if status in (OK, ERROR) else UNSET,
        status_message or None,
        service,
        scope,
        _encode(attributes).decode(),
        _encode(events).decode(),
        _encode(links).decode(),
    )
