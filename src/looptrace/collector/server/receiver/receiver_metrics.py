"""The counts of the receiver, under names that no client can choose."""

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, unique
from http import HTTPStatus
from itertools import accumulate
from threading import Lock
from typing import Any, Literal

from looptrace.rules.vocabulary import NS_PER_S

_logger = logging.getLogger(__name__)

InstrumentKind = Literal["counter", "gauge", "histogram"]
Values = Mapping[tuple[str, ...], float]
# The key of a histogram's sum, beside its bounds.
SUM = "sum"


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


def counter(name: str, doc: str, read: Callable[[], Values | float], *labels: str) -> Instrument:
    """Return an instrument that grows; `read` gives its number, or one for each set of `labels`."""
    return Instrument(name, doc, _values_of(read), "counter", labels)


def gauge(name: str, doc: str, read: Callable[[], Values | float], *labels: str) -> Instrument:
    """Return an instrument that rises and falls; `read` is that of a `counter`."""
    return Instrument(name, doc, _values_of(read), "gauge", labels)


def histogram(name: str, doc: str, read: Callable[[], Values]) -> Instrument:
    """Return an instrument that counts up to bounds, as `Durations.read` does."""
    return Instrument(name, doc, read, "histogram", ("le",))


def _values_of(read: Callable[[], Values | float]) -> Callable[[], Values]:
    def values() -> Values:
        found = read()
        return found if isinstance(found, Mapping) else {(): float(found)}

    return values


def age_s(since_ns: int | None) -> float:
    """Return the seconds since a moment; 0 for None, or where the clock was set back."""
    return 0.0 if since_ns is None else max(0.0, (time.time_ns() - since_ns) / NS_PER_S)


def number(doc: str, kind: InstrumentKind = "counter") -> Any:
    """Return a field of a part's counts: 0 at first, described by `doc`."""
    return field(default=0, metadata={"doc": doc, "kind": kind})


# The codes of google.rpc.Code, which are those of gRPC, by the status of HTTP.
_CODES = {
    HTTPStatus.BAD_REQUEST: 3,
    HTTPStatus.FORBIDDEN: 7,
    HTTPStatus.METHOD_NOT_ALLOWED: 12,
    HTTPStatus.REQUEST_TIMEOUT: 4,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: 8,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: 3,
    HTTPStatus.SERVICE_UNAVAILABLE: 14,
}


@unique
class Reason(Enum):
    """Why a request is refused, in a sentence, with the status; a retry helps where it is 503."""

    METHOD = "The method is not POST.", HTTPStatus.METHOD_NOT_ALLOWED
    MEDIA_TYPE = "The content type is not that of OTLP.", HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    ENCODING = "The compression is unknown.", HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    BODY_TOO_LARGE = "More bytes were sent than allowed.", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    UNPACKED_TOO_LARGE = (
        "The body unpacks to more bytes than allowed.",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    )
    TOO_MANY_SPANS = (
        "There are more spans or records than allowed in one request.",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    )
    UNDECODABLE = (
        "The body is damaged or not OTLP, or all of its spans are bad.",
        HTTPStatus.BAD_REQUEST,
    )
    SERVICE = "The token is for other services than that of a span.", HTTPStatus.FORBIDDEN
    SLOW = "The body did not arrive in time.", HTTPStatus.REQUEST_TIMEOUT
    CLIENT_GONE = "The client went away.", HTTPStatus.BAD_REQUEST
    IN_FLIGHT = (
        "The requests that are not answered yet are too large together.",
        HTTPStatus.SERVICE_UNAVAILABLE,
    )
    CONNECTIONS = (
        "There are too many connections, each with an accepted request.",
        HTTPStatus.SERVICE_UNAVAILABLE,
    )
    SINK_FULL = "The log has no room for more spans.", HTTPStatus.SERVICE_UNAVAILABLE
    STORE_ERROR = "The disk refuses to write.", HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self, doc: str, http_status: HTTPStatus) -> None:
        self.doc = doc
        self.http_status = http_status
        self.code = _CODES[http_status]  # of gRPC

    @property
    def count(self) -> str:
        """The name of the count of these refusals."""
        return f"refused_{self.name.lower()}"


TAKEN = {
    "requests": "Requests accepted, in whole or in part.",
    "bytes": "Bytes of accepted requests, as sent.",
    "spans": "Accepted spans.",
    "spans_rejected": "Rejected spans of accepted requests.",
    "spans_cut": "Spans that lost attributes to a limit of the SDK.",
    "events": "Accepted events of spans, from log records.",
    "events_placeless": "GenAI events in log records that name no span.",
    "metrics_requests": "Requests of metrics, which are ignored.",
}
REFUSED = {reason.count: reason.doc for reason in Reason}
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
        return values | {(SUM,): sum_s}


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
        self.add(reason.count)

    def add_closed(self, name: str, why: str) -> None:
        """Count a connection that is closed, and log the first one."""
        if not self.read()[name]:
            _logger.warning("a connection was closed: %s; more are only counted", why)
        self.add(name)

    def read(self) -> dict[str, int]:
        """Return all counts as they are now."""
        with self._lock:
            return dict(self._counts)
