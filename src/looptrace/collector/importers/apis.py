"""Reads traces from tracing systems over HTTP: `SYSTEM+http://HOST?since=1h&service=NAME`.

Each answer becomes one line of JSON, which is read like a line of a file. A request that failed for
a moment is sent again; any other failure ends the source with the reason.
"""

import os
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

import msgspec

from looptrace.analyzer.text.times import utc_ms
from looptrace.collector.otlp.frames import FRAME_BYTES_MAX, DamagedError, too_long
from looptrace.collector.retry_after import seconds as retry_seconds
from looptrace.errors import InputError
from looptrace.rules.vocabulary import NS_PER_S

TOKEN_VARIABLE = "LOOPTRACE_SOURCE_TOKEN"  # noqa: S105 - It is the name of a variable.
SINCE_DEFAULT = "1h"
# The most traces or spans in one answer.
LIMIT = 1_000
LANGFUSE_LIMIT = 100  # Its API accepts no more.
TIMEOUT_S = 60.0
TRIES_MAX = 5
RETRY_FIRST_S = 1.0
RETRY_MAX_S = 60.0

_URL = re.compile(r"(?:(?P<system>[a-z]+)\+)?(?P<address>https?://.+)")
_SINCE = re.compile(r"(?P<count>[0-9]{1,6})(?P<unit>[smhdw])")
_UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LATER = (429, 502, 503, 504)
_REFUSED = (401, 403)
_NOTHING = "has no traces of that time; ask with a longer `since`, as in ?since=7d"
_NOT_FOUND = 404
_NS_PER_US = 1_000

decode = msgspec.json.Decoder().decode


class BadAddressError(InputError):
    """The address names no API; the text says why."""


@dataclass(frozen=True, slots=True)
class ApiAddress:
    """A query for the traces of a system, from a time on up to now."""

    system: str
    url: str  # without the query
    since_s: int
    service: str | None = None
    project: str | None = None


def parse_address(path: str) -> ApiAddress:
    """Read a URL.

    Raises:
        BadAddressError: if it names no system that can be asked, or a parameter is wrong.
    """
    matched = _URL.fullmatch(path)
    system = matched["system"] if matched else None
    if matched is None or system not in _SYSTEMS:
        names = " or ".join(f"{name}+http://…" for name in _SYSTEMS)
        raise BadAddressError(f"name the system that answers there: {names}")
    parts = urlsplit(matched["address"])
    asked = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    known = {"since", *_SYSTEMS[system][1]}
    if unknown := sorted(asked.keys() - known):
        raise BadAddressError(
            f"{system} has no parameter {unknown[0]!r} here; it has {', '.join(sorted(known))}"
        )
    since = _SINCE.fullmatch(asked.pop("since", SINCE_DEFAULT))
    if since is None:
        raise BadAddressError("since must be a number and a unit, such as 30m, 12h or 7d")
    since_s = int(since["count"]) * _UNIT_S[since["unit"]]
    url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    return ApiAddress(system, url, since_s, **asked)


def answers(address: ApiAddress, on_read: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the answers of the system, a line of JSON each. Raises DamagedError.

    `on_read` is called with the number of bytes read so far.
    """
    ask, _ = _SYSTEMS[address.system]
    bytes_read = 0
    for answer in ask(_Api(address), address):
        line = msgspec.json.encode(answer) + b"\n"
        bytes_read += len(line)
        on_read(bytes_read)
        yield line
    if not bytes_read:
        raise DamagedError(_NOTHING)


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect, which would receive the token."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Api:
    """An API that answers in JSON, and the time range of the query."""

    def __init__(self, address: ApiAddress) -> None:
        self._address = address
        self._opener: OpenerDirector = build_opener(_NoRedirects)
        self.end_ns = time.time_ns()
        self.start_ns = self.end_ns - address.since_s * NS_PER_S

    def get(self, path: str, **parameters: str | int | None) -> Any:
        """Return an answer. Raises DamagedError."""
        given = {name: value for name, value in parameters.items() if value is not None}
        url = f"{self._address.url}{path}" + (f"?{urlencode(given)}" if given else "")
        for number in range(1, TRIES_MAX + 1):
            try:
                return decode(self._read(url))
            except HTTPError as error:
                error.close()
                if error.code not in _LATER or number == TRIES_MAX:
                    raise DamagedError(self._why(error)) from error
                wait_s = retry_seconds(error.headers.get("Retry-After", ""), 2**number / 2)
            except (URLError, HTTPException, OSError) as error:
                if number == TRIES_MAX:
                    reason = getattr(error, "reason", None) or error
                    raise DamagedError(f"does not answer: {reason}; check the address") from error
                wait_s = RETRY_FIRST_S
            except msgspec.DecodeError as error:
                raise DamagedError(
                    f"does not answer in JSON at {path}; check the address"
                ) from error
            time.sleep(min(wait_s, RETRY_MAX_S))
        raise AssertionError("the last try returns or raises")

    def _read(self, url: str) -> bytes:
        headers = {"Accept": "application/json", **_authorization(self._address)}
        request = Request(url, headers=headers)  # noqa: S310 - It is http or https.
        with closing(self._opener.open(request, timeout=TIMEOUT_S)) as response:
            data: bytes = response.read(FRAME_BYTES_MAX + 1)
        if len(data) > FRAME_BYTES_MAX:
            raise DamagedError(too_long("answer"))
        return data

    def _why(self, error: HTTPError) -> str:
        if error.code in _REFUSED:
            return f"refuses (status {error.code}); set {TOKEN_VARIABLE}"
        if error.code == _NOT_FOUND:
            return f"has no {urlsplit(error.url).path}; is this {self._address.system}?"
        return f"answered with status {error.code}; ask for less, or later"

    def halves(
        self, ask: Callable[[int, int], Any], held: Callable[[Any], int], start_ns: int, end_ns: int
    ) -> Iterator[Any]:
        """Query a time range, and its halves where an answer is as long as the limit."""
        answer = ask(start_ns, end_ns)
        if held(answer) < LIMIT or end_ns - start_ns <= NS_PER_S:
            yield answer
            return
        middle_ns = (start_ns + end_ns) // 2
        yield from self.halves(ask, held, start_ns, middle_ns)
        yield from self.halves(ask, held, middle_ns, end_ns)


def _authorization(address: ApiAddress) -> dict[str, str]:
    """Return the header with the token; Langfuse has two keys, `PUBLIC:SECRET`."""
    token = os.environ.get(TOKEN_VARIABLE)
    if not token:
        return {}
    if address.system == "langfuse":
        return {"Authorization": f"Basic {b64encode(token.encode()).decode()}"}
    return {"Authorization": f"Bearer {token}"}


def _jaeger(api: _Api, address: ApiAddress) -> Iterator[Any]:
    services = [address.service] if address.service else api.get("/api/services")["data"]
    for service in services or ():

        def traces(start_ns: int, end_ns: int, service: str = service) -> Any:
            return api.get(
                "/api/traces",
                service=service,
                start=start_ns // _NS_PER_US,
                end=end_ns // _NS_PER_US,
                limit=LIMIT,
            )

        pages = api.halves(
            traces, lambda answer: len(answer["data"] or ()), api.start_ns, api.end_ns
        )
        yield from (page for page in pages if page["data"])


def _tempo(api: _Api, address: ApiAddress) -> Iterator[Any]:
    named = msgspec.json.encode(address.service).decode() if address.service else None
    query = f"{{ resource.service.name = {named} }}" if named else "{}"

    def found(start_ns: int, end_ns: int) -> Any:
        start, end = start_ns // NS_PER_S, -(-end_ns // NS_PER_S)
        return api.get("/api/search", q=query, start=start, end=end, limit=LIMIT)

    pages = api.halves(
        found, lambda answer: len(answer.get("traces") or ()), api.start_ns, api.end_ns
    )
    ids = {trace["traceID"]: None for page in pages for trace in page.get("traces") or ()}
    for trace_id in ids:
        yield api.get(f"/api/traces/{quote(str(trace_id), safe='')}")


def _phoenix(api: _Api, address: ApiAddress) -> Iterator[Any]:
    project = quote(address.project or "default", safe="")
    cursor: str | None = None
    while True:
        answer = api.get(
            f"/v1/projects/{project}/spans",
            limit=LIMIT,
            start_time=utc_ms(api.start_ns),
            end_time=utc_ms(api.end_ns),
            cursor=cursor,
        )
        if answer["data"]:
            yield answer
        cursor = answer.get("next_cursor")
        if not cursor:
            return


def _langfuse(api: _Api, _address: ApiAddress) -> Iterator[Any]:
    page = 1
    while True:
        listed = api.get(
            "/api/public/traces",
            page=page,
            limit=LANGFUSE_LIMIT,
            fromTimestamp=utc_ms(api.start_ns),
            toTimestamp=utc_ms(api.end_ns),
        )
        for trace in listed["data"]:
            yield api.get(f"/api/public/traces/{quote(str(trace['id']), safe='')}")
        if page >= listed["meta"]["totalPages"]:
            return
        page += 1


# The reader of each system, and its parameters beside the time.
_SYSTEMS: dict[str, tuple[Callable[[_Api, ApiAddress], Iterator[Any]], tuple[str, ...]]] = {
    "jaeger": (_jaeger, ("service",)),
    "langfuse": (_langfuse, ()),
    "phoenix": (_phoenix, ("project",)),
    "tempo": (_tempo, ("service",)),
}
