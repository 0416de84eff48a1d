"""The counts of the receiver, under names that no client can choose."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, unique
from http import HTTPStatus
from itertools import accumulate
from threading import Lock
from typing import Any, Literal

_logger = logging.getLogger(__name__)

InstrumentKind = Literal["counter", "gauge", "histogram"]
Values = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Instrument:
    """A number that is read on request: a counter only grows, a gauge rises and falls.

    `read` gives a value for each set of values of `labels`, in their order.
    """

    name: str  # with dots, as `looptrace.receiver.spans`
    doc: str
    read: Callable[[], Values]
    kind: InstrumentKind = "counter"
    labels: tuple[str, ...] = ()


def number(doc: str, kind: InstrumentKind = "counter") -> Any:
    """Return a field of a part's counts: 0 at first, described by `doc`."""
    return field(default=0, metadata={"doc": doc, "kind": kind})


@dataclass(frozen=True, slots=True)
class Refusal:
    """A kind of refusal: its name in counts, the codes of HTTP and gRPC, and its cause."""

    name: str
    http_status: HTTPStatus
    code: int  # of google.rpc.Code, which is that of gRPC
    doc: str


_INVALID_ARGUMENT, _DEADLINE_EXCEEDED, _RESOURCE_EXHAUSTED = 3, 4, 8
_PERMISSION_DENIED, _UNIMPLEMENTED, _UNAVAILABLE = 7, 12, 14


@unique
class Reason(Enum):
    """Why a request is refused; a retry helps where the status is 503."""

    METHOD = Refusal(
        "method", HTTPStatus.METHOD_NOT_ALLOWED, _UNIMPLEMENTED, "The method is not POST."
    )
    MEDIA_TYPE = Refusal(
        "media_type",
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        _INVALID_ARGUMENT,
        "The content type is not that of OTLP.",
    )
    ENCODING = Refusal(
        "encoding",
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        _INVALID_ARGUMENT,
        "The compression is unknown.",
    )
    BODY_TOO_LARGE = Refusal(
        "body_too_large",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        _RESOURCE_EXHAUSTED,
        "More bytes were sent than allowed.",
    )
    UNPACKED_TOO_LARGE = Refusal(
        "unpacked_too_large",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        _RESOURCE_EXHAUSTED,
        "The body unpacks to more bytes than allowed.",
    )
    TOO_MANY_SPANS = Refusal(
        "too_many_spans",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        _RESOURCE_EXHAUSTED,
        "There are more spans or records than allowed in one request.",
    )
    UNDECODABLE = Refusal(
        "undecodable",
        HTTPStatus.BAD_REQUEST,
        _INVALID_ARGUMENT,
        "The body is damaged or not OTLP, or all of its spans are bad.",
    )
    SERVICE = Refusal(
        "service",
        HTTPStatus.FORBIDDEN,
        _PERMISSION_DENIED,
        "The token is for other services than that of a span.",
    )
    SLOW = Refusal(
        "slow", HTTPStatus.REQUEST_TIMEOUT, _DEADLINE_EXCEEDED, "The body did not arrive in time."
    )
    CLIENT_GONE = Refusal(
        "client_gone", HTTPStatus.BAD_REQUEST, _INVALID_ARGUMENT, "The client went away."
    )
    IN_FLIGHT = Refusal(
        "in_flight",
        HTTPStatus.SERVICE_UNAVAILABLE,
        _UNAVAILABLE,
        "The requests that are not answered yet are too large together.",
    )
    CONNECTIONS = Refusal(
        "connections",
        HTTPStatus.SERVICE_UNAVAILABLE,
        _UNAVAILABLE,
        "There are too many connections, each with an accepted request.",
    )
    SINK_FULL = Refusal(
        "sink_full",
        HTTPStatus.SERVICE_UNAVAILABLE,
        _UNAVAILABLE,
        "The log has no room for more spans.",
    )
    STORE_ERROR = Refusal(
        "store_error", HTTPStatus.SERVICE_UNAVAILABLE, _UNAVAILABLE, "The disk refuses to write."
    )


TAKEN = {
    "requests": "Requests that were accepted, completely or in part.",
    "bytes": "Bytes of accepted requests, as sent.",
    "spans": "Spans that were accepted.",
    "spans_rejected": "Spans that were rejected from accepted requests.",
    "spans_cut": "Spans that lost attributes to a limit of the SDK.",
    "events": "Events of spans that were accepted in log records.",
    "events_placeless": "GenAI events in log records that name no span.",
    "metrics_requests": "Requests of metrics, which are ignored.",
}
REFUSED = {f"refused_{reason.value.name}": reason.value.doc for reason in Reason}
CLOSED = {
    "closed_no_room": "The oldest without an accepted request, where there were too many.",
    "closed_slow": "No complete headers came in time, or no end of a refused body.",
}
# The bounds of the histogram of acknowledgements: from at once to longer than an exporter waits.
ACKNOWLEDGED_BOUNDS_S = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.5, 1.0, 2.5, 10.0)
# All names, with a sentence each.
NAMES: Mapping[str, str] = TAKEN | REFUSED | CLOSED


class Durations:
    """Durations in seconds, counted up to each of some bounds, as a histogram of Prometheus."""

    def __init__(self, bounds_s: Sequence[float]) -> None:
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        self._sum_s = 0.0
        self._lock = Lock()

    def add(self, duration_s: float) -> None:
        """Count a duration."""
        with self._lock:
            self._counts[bisect_left(self._bounds_s, duration_s)] += 1
            self._sum_s += duration_s

    def read(self) -> Values:
        """Return how many are as long as each bound at most, how many there are, and their sum."""
        with self._lock:
            up_to, sum_s = [*accumulate(self._counts)], self._sum_s
        names = [*(f"{bound:g}" for bound in self._bounds_s), "+Inf"]
        values: dict[tuple[str, ...], float] = {
            (name,): float(count) for name, count in zip(names, up_to, strict=True)
        }
        return values | {("sum",): sum_s}


class ReceiverCounts:
    """Counts since the start, by the names of NAMES, and how long acknowledgements took.

    `connections` are the open ones of HTTP.
    """

    def __init__(self) -> None:
        self.connections: set[Any] = set()
        self.acknowledged = Durations(ACKNOWLEDGED_BOUNDS_S)
        self._counts = dict.fromkeys(NAMES, 0)
        self._lock = Lock()

    def add(self, name: str, by: int = 1) -> None:
        """Count; a name that is not in NAMES is a KeyError."""
        with self._lock:
            self._counts[name] += by

    def add_refused(self, reason: Reason) -> None:
        """Count a request that is refused."""
        self.add(f"refused_{reason.value.name}")

    def add_closed(self, name: str, why: str) -> None:
        """Count a connection that is closed, and log the first one."""
        if not self.read()[name]:
            _logger.warning("a connection was closed: %s; more are only counted", why)
        self.add(name)

    def read(self) -> dict[str, int]:
        """Return all counts as they are now."""
        with self._lock:
            return dict(self._counts)
