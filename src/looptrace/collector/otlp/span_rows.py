"""One row of the span table from the fields of a span in any encoding."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import starmap
from typing import TYPE_CHECKING, Any

import msgspec

from looptrace.analyzer.schema.spans import LOGGED, NO_ITEMS, SpanRow
from looptrace.analyzer.text.times import EPOCH
from looptrace.errors import InputError

if TYPE_CHECKING:
    from looptrace._core import Limits, Spans

SERVICE_NAME = "service.name"
UNSET, OK, ERROR = 0, 1, 2  # The codes of a status.
TIME_NS_MAX = (1 << 63) - 1  # The most that the table's 64-bit integers hold: the year 2262.
# The times of lines end before, so that what stands after the last of them has room.
LINE_NS_MAX = (datetime(2262, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) * 1_000

_TRACE_ID = re.compile(r"(?!0+$)[0-9a-f]{32}")
_SPAN_ID = re.compile(r"(?!0+$)[0-9a-f]{16}")
NO_ID = re.compile(r"0*")
_encode = msgspec.json.Encoder().encode


class BadSpanError(InputError):
    """The value is not a span; the text says why."""


def time_ns_of(text: object) -> int | None:
    """Return the nanoseconds since 1970 of an ISO 8601 time, in UTC if it has no zone.

    None for what is no time; 0 for one before 1970, as Go writes where it has none. Raises
    BadSpanError for one from 2262 on.
    """
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    at_ns = (time - EPOCH) // timedelta(microseconds=1) * 1_000
    if at_ns > LINE_NS_MAX:
        raise BadSpanError(f"expected a time before 2262, found {text!r:.60}")
    return max(0, at_ns)


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of the input that could not be read: its place, and the reason.

    `foreign` marks a part that is not OTLP at all: a run of those is reported as one. `is_span`
    marks a part that is one span, which costs nothing but itself.
    """

    where: str
    why: str
    foreign: bool = False
    is_span: bool = False


@dataclass(frozen=True, slots=True)
class DecodingBounds:
    """How much of one request is decoded; files are read whole."""

    spans_max: int = sys.maxsize
    span_bytes_max: int = sys.maxsize
    depth_max: int = sys.maxsize

    @property
    def limits(self) -> Limits:
        """The bounds as the core takes them."""
        return self.spans_max, self.span_bytes_max, self.depth_max


@dataclass(frozen=True, slots=True)
class DecodedSpans:
    """The result of decoding: rows of the span table, and the parts that could not be read.

    The core's spans are in `spans` instead. `empty` says what a source is that ended without a
    span and without a problem.
    """

    rows: list[SpanRow] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)  # attributes lost by each span that lost any
    placeless: list[int] = field(default_factory=list)  # 1 for each event that names no span
    spans: Spans | None = None  # before the rows; None for none
    empty: str = ""
    bounds: DecodingBounds = field(default_factory=DecodingBounds, compare=False)

    @property
    def is_any(self) -> bool:
        """Whether there are spans."""
        return bool(self.rows) or self.spans is not None

    @classmethod
    def of_core(cls, read: Spans) -> DecodedSpans:
        """Return what the core has read."""
        problems = [Problem(*problem) for problem in read.problems]
        return cls(problems=problems, cut=read.cut, spans=read if len(read) else None)

    def with_more(self, more: DecodedSpans) -> DecodedSpans:
        """Return this with the rows and the notes of another part of the same source."""
        return replace(
            self,
            rows=[*self.rows, *more.rows],
            problems=[*self.problems, *more.problems],
            cut=[*self.cut, *more.cut],
            placeless=[*self.placeless, *more.placeless],
        )

    def check_size(self, size: int) -> None:
        """Check the bytes of a span, or of what it shares with others. Raises BadSpanError."""
        if size > self.bounds.span_bytes_max:
            raise BadSpanError(
                f"it has {size:,} bytes, and a span may have {self.bounds.span_bytes_max:,}"
            )


def cut_text(spans: int, attributes: int) -> str:
    """Return the message that spans have lost attributes, what that may cost, and what to do."""
    return (
        f"attributes lost to a limit of the SDK: {attributes:,}, of {spans:,} of the spans, "
        "perhaps their session or their messages; set OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=4096 in the "
        "agent's process"
    )


def placeless_text(events: int) -> str:
    """Return the message that events of log records name no span, what that costs, what to do."""
    return (
        f"GenAI events in log records that name no span: {events:,}, so what they say of calls and "
        "messages is left out; write them where a span is current, with a tracer provider set"
    )


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
    attributes: dict[str, Any],
    events: Iterable[tuple[str, int, dict[str, Any]]],
    links: Iterable[tuple[str, str]],
) -> SpanRow:
    """Return the row of a span, its ids in hex; raise BadSpanError where they or its times are bad.

    Times are nanoseconds since 1970. A missing time is 0 and is taken from the other; a span never
    ends before it starts. Events are name, time and attributes; links are trace id and span id.
    """
    trace_id, span_id, parent_span_id = trace_id.lower(), span_id.lower(), parent_span_id.lower()
    if not _TRACE_ID.fullmatch(trace_id):
        raise BadSpanError("traceId must be 32 hex digits, not all of them 0")
    if not _SPAN_ID.fullmatch(span_id):
        raise BadSpanError("spanId must be 16 hex digits, not all of them 0")
    start_ns = start_ns or end_ns
    end_ns = max(start_ns, end_ns)
    if not 0 <= start_ns <= end_ns <= TIME_NS_MAX:
        raise BadSpanError("its times must be nanoseconds since 1970, before 2262")
    return (
        trace_id,
        span_id,
        None if NO_ID.fullmatch(parent_span_id) else parent_span_id,
        name,
        start_ns,
        end_ns,
        status if status in (OK, ERROR, LOGGED) else UNSET,
        status_message or None,
        service,
        scope,
        _encode(attributes).decode(),
        events_text(events),
        links_text(links),
    )


def events_text(events: Iterable[tuple[str, int, dict[str, Any]]]) -> str:
    """Return the JSON of events: name, time in nanoseconds since 1970, attributes."""
    return _encoded(list(starmap(_event, events)))


def links_text(links: Iterable[tuple[str, str]]) -> str:
    """Return the JSON of links: trace id and span id, in hex."""
    return _encoded(list(starmap(_link, links)))


def _encoded(values: list[dict[str, Any]]) -> str:
    return _encode(values).decode() if values else NO_ITEMS


def service_name(resource: Mapping[str, Any]) -> str | None:
    """Return the name of the service from a resource's attributes; None where it has none."""
    name = resource.get(SERVICE_NAME)
    return name if isinstance(name, str) else None


def _event(name: str, time_ns: int, attributes: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "time_ns": time_ns, "attributes": attributes}


def _link(trace_id: str, span_id: str) -> dict[str, str]:
    return {"trace_id": trace_id.lower(), "span_id": span_id.lower()}
