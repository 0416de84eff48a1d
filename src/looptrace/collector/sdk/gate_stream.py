"""Gates that come back from a server: a stream of server-sent events, followed on a thread.

The server writes each gate event as one event with an id and, as data, a JSON object with the
fields of `GateNotice`. A connection that ends is opened again from the last id, after a growing
wait.
"""

from __future__ import annotations

import json  # the base installation, in an agent's process, lacks msgspec
import logging
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from itertools import takewhile
from math import inf
from random import SystemRandom
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from looptrace.analyzer.gates.notice import GateNotice
from looptrace.collector.api_paths import OWN_STREAM_PATH, RESOLVE_PATH, STREAM_HEADER, STREAM_PATH
from looptrace.collector.client_tls import connection_to
from looptrace.collector.sdk.followed import Followed
from looptrace.collector.sdk.server_watch import ServerWatch, TokenError, reason_of
from looptrace.collector.worker import Worker, after_fork

_logger = logging.getLogger(__name__)

# A server sends something at least this often, if only a comment.
SILENCE_S_MAX = 60.0
RETRY_FIRST_S, RETRY_S_MAX = 0.5, 30.0
# New names are sent to a server this often at most, and it has so long to accept them.
CHANGE_EVERY_S, CHANGE_S_MAX = 0.1, 5.0
# The server has so long to hear that a process ends.
GOODBYE_S_MAX = 1.0
# One event has one directive and one reason in it.
LINE_BYTES_MAX = 64 * 1024

# The waits of many processes must differ. The random module's own generator belongs to the agent,
# which may have seeded it.
_chance = SystemRandom()

_STREAM_HEADERS = {"Accept": "text/event-stream"}
_JSON_HEADERS = {"Content-Type": "application/json"}
_TYPES: dict[Any, type] = {str: str, int: int, str | None: str}


@dataclass(frozen=True, slots=True)
class Server:
    """The address of a server with gates.

    Raises:
        ValueError: if the address is not an http or https address.
    """

    url: str  # scheme, host and port; of a path only the part before `/v1`
    token: str | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{self.url!r} is not an address such as http://localhost:4318")

    def request(
        self,
        method: str,
        path: str,
        *,
        body: str | bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = SILENCE_S_MAX,
    ) -> Response:
        """Send a request and return its connection and response.

        `timeout_s` bounds each wait for the server.

        Raises:
            TokenError: if the server refuses the token.
            OSError: if the server cannot be reached.
            HTTPException: if its answer is not HTTP.
        """
        parts = urlsplit(self.url)
        connection = connection_to(parts, timeout_s)
        sent = dict(headers or {})
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        connection.request(method, parts.path.rstrip("/") + path, body, sent)
        response = connection.getresponse()
        if response.status == HTTPStatus.UNAUTHORIZED:
            connection.close()
            raise TokenError(self.url, has_token=bool(self.token))
        return connection, response

    def open_gates(self, task: str, service: str | None, timeout_s: float) -> list[GateNotice]:
        """Return the notices of the gates that are open now, of a task or a session of a service.

        A stream of the task begins with them, up to its first comment.

        Raises:
            OSError: if the server cannot be reached, or does not answer within `timeout_s` seconds.
            HTTPException: if its answer is not HTTP.
            ValueError: if an event cannot be read.
        """
        asked = {"task": task} | ({"service": service} if service else {})
        path = f"{STREAM_PATH}?{urlencode(asked)}"
        deadline_s = time.monotonic() + timeout_s
        connection, response = self.request("GET", path, timeout_s=timeout_s)
        try:
            if response.status != HTTPStatus.OK:
                answer = response.read(LINE_BYTES_MAX).decode("utf-8", "replace")
                raise OSError(f"it answered {response.status}: {answer}")
            head = takewhile(lambda line: not line.startswith(b":"), _lines(response, deadline_s))
            return [notice_of_json(json.loads(data)) for _, data in events_in(head) if data]
        finally:
            connection.close()

    def resolve(self, gate: str, decision: str, note: str | None) -> None:
        """Send a person's decision to the server.

        Raises:
            OSError: if the server cannot be reached, or refuses it.
        """
        body = json.dumps({"decision": decision, "note": note})
        path = RESOLVE_PATH.format(id=quote(gate, safe=""))
        connection, response = self.request("POST", path, body=body, headers=_JSON_HEADERS)
        with closing(connection), response:
            if response.status != HTTPStatus.OK:
                raise OSError(f"{self.url} did not resolve gate {gate}: status {response.status}")


Response = tuple[HTTPConnection, HTTPResponse]


class GateStream:
    """Follows the gates of a process's names, until no code holds the stream any more.

    It also works in a forked process. A stream begins with all names and after the last id; new
    names are sent beside it.
    """

    def __init__(
        self, server: Server, notify: Callable[[GateNotice], None], watch: ServerWatch
    ) -> None:
        self.failures = 0  # connections that ended or failed
        self.nonsense = 0  # events that could not be read
        self.last_id = ""
        self._server = server
        self._notify = notify
        self._watch = watch
        self._followed = Followed()
        self._closed = False
        self._begin()
        after_fork(self._begin)

    def follow(
        self, *, tasks: Iterable[str] = (), traces: Iterable[str] = (), service: str | None = None
    ) -> None:
        """Follow the events of some tasks, or sessions of a service, and of turns in traces."""
        if self._followed.add(tasks=tasks, traces=traces, service=service):
            self._changer.wake()

    @contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Let the server know that code of the process waits for the gate of a name."""
        try:
            with self._followed.waiting(name):
                self._changer.wake()
                yield
        finally:
            self._changer.wake()

    def close(self) -> None:
        """Stop following, and tell the server; an open connection ends with the process."""
        self._closed = True
        if self._stream_id:
            self._send({"ends": True}, GOODBYE_S_MAX)
        self._worker.close(0)
        self._changer.close(0)

    def _begin(self) -> None:
        self._followed.renew()
        self._stream_id = ""  # of the stream that is open
        held = weakref.ref(self)
        self._worker = Worker("looptrace-gates", partial(_follow, held, self._server))
        self._changer = Worker("looptrace-names", partial(_change, held))
        if not self._closed:
            self._worker.start()
            self._changer.start()

    def take(self, event_id: str, data: str) -> None:
        """Handle one event, or count it as unreadable; without data, keep only its id."""
        try:
            notice = notice_of_json(json.loads(data)) if data else None
        except (ValueError, RecursionError):
            self.nonsense += 1
            return
        self.last_id = event_id or self.last_id
        if notice is not None:
            self._followed.note(notice)
            self._notify(notice)

    def _asking(self) -> tuple[str, dict[str, str]]:
        """Return the body and the headers of the request of a stream."""
        last_id = {"Last-Event-ID": self.last_id} if self.last_id else {}
        return json.dumps(self._followed.whole()), _STREAM_HEADERS | _JSON_HEADERS | last_id

    def _opened(self, response: HTTPResponse) -> None:
        """Note that the server follows the names; names that came meanwhile are sent."""
        self._watch.reached("gates", self._server.url)
        stream_id = response.headers.get(STREAM_HEADER)
        if stream_id and not self._stream_id:
            self._stream_id = stream_id
            self._changer.wake()

    def _ended(self, error: Exception | None, *, was_open: bool) -> None:
        """Note the end of a stream; one that was open may be open again in a moment."""
        self._stream_id = ""
        self.failures += 1
        if error is not None and not was_open:
            self._watch.lost("gates", self._server.url, reason_of(error))

    def _tell(self) -> bool:
        """Send new names to the server if a stream is open; return whether it has them."""
        if not self._stream_id or (change := self._followed.change()) is None:
            return True
        body, known = change
        is_told = self._send(body, CHANGE_S_MAX)
        if is_told:
            self._followed.told(known, body.get("waiting", ()))
        return is_told

    def _send(self, body: dict[str, Any], timeout_s: float) -> bool:
        """Send something on the open stream; return whether the server has it."""
        path = OWN_STREAM_PATH.format(stream=self._stream_id)
        try:
            connection, response = self._server.request(
                "POST", path, body=json.dumps(body), headers=_JSON_HEADERS, timeout_s=timeout_s
            )
            connection.close()
        except (OSError, HTTPException) as error:
            _logger.debug("names could not be sent to %s: %s", self._server.url, error)
            return False
        return response.status == HTTPStatus.OK


def notice_of_json(fields_: Any) -> GateNotice:
    """Read an event's JSON object; fields that `GateNotice` lacks are ignored.

    Raises:
        ValueError: if it is not an object, lacks a field, or one has the wrong type.
    """
    if not isinstance(fields_, dict):
        raise ValueError("an event is a JSON object")
    values: dict[str, Any] = {}
    for field in fields(GateNotice):
        value = fields_.get(field.name)
        if value is None:
            continue
        values[field.name] = _checked(field.name, field.type, value)
    try:
        return GateNotice(**values)
    except TypeError as error:
        raise ValueError(str(error)) from error


def _checked(name: str, kind: Any, value: Any) -> Any:
    """Return the value of a field in the form of a notice."""
    is_list = type(value) is list and all(type(each) is str for each in value)
    if kind == tuple[str, ...] and is_list:
        return tuple(value)
    if type(value) is not _TYPES.get(kind):
        raise ValueError(f"{name} has the wrong type")
    return value


def events_in(lines: Iterator[bytes]) -> Iterator[tuple[str, str]]:
    """Read server-sent events: the id and the data of each, "" if it has none."""
    event_id, data = "", list[str]()
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        name, _, value = line.partition(":")
        if not line:
            yield event_id, "\n".join(data)
            data = []
        elif name == "id":
            event_id = value.strip()
        elif name == "data":
            data.append(value.removeprefix(" "))


def _follow(stream: weakref.ref[GateStream], server: Server) -> Generator[float, None, None]:
    """Read the stream again and again; no reference here keeps its owner alive while it waits."""
    wait_s = RETRY_FIRST_S
    while (held := stream()) is not None and not held._closed:
        asking, was_open, came = held._asking(), False, False
        failure: Exception | None = None
        del held
        try:
            for event_id, data in _events_of_stream(stream, server, *asking):
                held = stream()
                if held is None or held._closed:
                    return
                was_open = True
                held.take(event_id, data)
                came |= bool(data)
                del held
        except (OSError, HTTPException) as error:
            failure = error.with_traceback(None)
            _logger.debug("the gate stream of %s ended: %s", server.url, error)
        held = stream()
        if held is None:
            return
        held._ended(failure, was_open=was_open)
        del held
        wait_s = RETRY_FIRST_S if came else min(wait_s * 2, RETRY_S_MAX)
        yield wait_s * _chance.uniform(0.5, 1.0)


def _events_of_stream(
    stream: weakref.ref[GateStream], server: Server, body: str, headers: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Begin a stream, and read its events."""
    opened = server.request("POST", STREAM_PATH, body=body, headers=headers)
    if opened[1].status == HTTPStatus.METHOD_NOT_ALLOWED:
        opened[0].close()  # A server of an earlier version, which sends the events of all tasks.
        opened = server.request("GET", STREAM_PATH, headers=headers)
    for event in _events_on(opened):
        if held := stream():
            held._opened(opened[1])
            del held
        yield event


def _change(stream: weakref.ref[GateStream]) -> Generator[float, None, None]:
    """Send new names to the server; no reference here keeps the stream alive while it waits."""
    while (held := stream()) is not None and not held._closed:
        wait_s = SILENCE_S_MAX if held._tell() else RETRY_FIRST_S
        pause = held._changer.pause
        del held
        pause(CHANGE_EVERY_S)
        yield wait_s


def events_of(server: Server) -> Iterator[tuple[str, str]]:
    """Follow the events of all tasks on one connection; raises if that fails."""
    opened = server.request("GET", STREAM_PATH, headers=_STREAM_HEADERS)
    return ((event_id, data) for event_id, data in _events_on(opened) if data)


def _events_on(opened: Response) -> Iterator[tuple[str, str]]:
    connection, response = opened
    try:
        if response.status != HTTPStatus.OK:
            raise OSError(f"it answered {response.status}")
        yield from events_in(_lines(response))
    finally:
        connection.close()


def _lines(response: HTTPResponse, deadline_s: float = inf) -> Iterator[bytes]:
    while line := response.readline(LINE_BYTES_MAX + 1):
        if time.monotonic() > deadline_s:
            raise TimeoutError("the answer came too slowly")
        if len(line) > LINE_BYTES_MAX:
            raise OSError(f"a line has more than {LINE_BYTES_MAX} bytes")
        yield line
