"""What servers that share budgets tell each other: sums of what their tasks have spent.

Each keeps what it heard, so that it counts over a restart and while the other is down.
"""

import logging
import time
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from threading import Lock

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from looptrace.analyzer.detect.budgets.charges import SHARES_KEPT_MAX, Share
from looptrace.analyzer.detect.counters import DAY_S
from looptrace.analyzer.gates.decisions import GateError
from looptrace.bounded_dict import BoundedDict
from looptrace.collector.sdk.gate_stream import Server
from looptrace.collector.server.api_responses import bounded_body, wrong
from looptrace.collector.server.receiver.receiver_metrics import Instrument, gauge
from looptrace.collector.server.shards.forwarder import (
    OTHER_STORES,
    REDUCED_HEADER,
    ForwardError,
    post,
)
from looptrace.collector.store import reader
from looptrace.collector.worker import Worker
from looptrace.rules.vocabulary import NS_PER_S
from looptrace.typed_json import decoded

_logger = logging.getLogger(__name__)

SPENDING_PATH = "/v1/forwarded/spending"
# A server without new sums sends an empty message at least this often.
SILENCE_S_MAX = 5.0
# After a start all is told again that is not older: a day counts until it ends.
_AGAIN_NS = 2 * DAY_S * NS_PER_S
_SHARES_A_REQUEST = 1_000
_BYTES_MAX = 8 * 1024 * 1024
_ANSWER_S = 10.0
_RETRY_S, _RETRY_S_MAX = 0.25, 5.0


class SpendingMessage(msgspec.Struct, frozen=True):
    """The body of a request: the address of a server, and what it has spent."""

    server: str
    shares: list[Share]


@dataclass(slots=True)
class SpendingNews:
    """Connects the detector, which knows what is spent here, with those who tell other servers."""

    wake: Callable[[], None]  # the detector, which then reads what others told
    tell: Callable[[Sequence[Share]], None] | None = None


class SpendingTeller:
    """A thread that tells one server what is spent here, until it is closed.

    What it has not told yet is told again after the next start.
    """

    def __init__(self, server: Server, own_url: str, reduced: str, tell_s: float) -> None:
        """Tell a server at most every `tell_s` seconds; `reduced` is as for forwarded spans."""
        self.server = server
        self._own_url, self._reduced, self._tell_s = own_url, reduced, tell_s
        self._lock = Lock()
        self._waiting: BoundedDict[tuple[int | str, ...], Share] = BoundedDict(SHARES_KEPT_MAX)
        self._is_heard = True
        self._worker = Worker("looptrace-spending", self._run)
        self.close = self._worker.close
        self._worker.start()

    @property
    def waiting(self) -> int:
        """The number of sums that are not told yet."""
        return len(self._waiting)

    def add(self, shares: Sequence[Share]) -> None:
        """Tell these next; from any thread."""
        with self._lock:
            for share in shares:
                self._waiting[share.key] = share
        self._worker.wake()

    def _run(self) -> Generator[float, None, None]:
        wait_s = _RETRY_S
        while True:
            try:
                self._tell()
            except ForwardError as error:
                if self._is_heard:
                    _logger.warning("%s; it gets the sums of this server when it answers", error)
                self._is_heard = False
                self._worker.pause(wait_s)
                wait_s = min(wait_s * 2, _RETRY_S_MAX)
                yield 0.0
            else:
                self._is_heard, wait_s = True, _RETRY_S
                self._worker.pause(self._tell_s)
                yield 0.0 if self._waiting else SILENCE_S_MAX

    def _tell(self) -> None:
        """Tell all that waits, or that there is nothing."""
        while True:
            with self._lock:
                piece = dict(islice(self._waiting.items(), _SHARES_A_REQUEST))
            self._post(SpendingMessage(self._own_url, [*piece.values()]))
            with self._lock:
                for key, share in piece.items():
                    if self._waiting.get(key) is share:
                        del self._waiting[key]
            if not self._waiting or self._worker.is_closing:
                return

    def _post(self, told: SpendingMessage) -> None:
        headers, body = {REDUCED_HEADER: self._reduced}, msgspec.json.encode(told)
        status, why = post(self.server, SPENDING_PATH, body, headers, _ANSWER_S)
        if status != HTTPStatus.OK:
            raise ForwardError(f"{self.server.url} refuses the sums of budgets ({why})")


class Spending:
    """Tells other servers what is spent here, and keeps what they tell."""

    def __init__(
        self,
        store_dir: Path,
        own_url: str,
        others: Collection[Server],
        reduced: str,
        tell_s: float,
        news: SpendingNews,
    ) -> None:
        """Tell `others` by threads of their own, which start now."""
        self._dir, self._reduced, self._wake = store_dir, reduced, news.wake
        self._heard_s = dict.fromkeys((other.url for other in others), time.monotonic())
        self.tellers = [SpendingTeller(other, own_url, reduced, tell_s) for other in others]
        news.tell = self._tell

    def route(self) -> Route:
        """Return the route by which other servers tell this one."""
        return Route(SPENDING_PATH, self._hear, methods=["POST"])

    def instruments(self) -> list[Instrument]:
        """Return the instruments of what servers tell each other."""
        return [
            gauge(
                "looptrace.shards.spending_age_seconds",
                "Age of the last sums that the other server sent, of the budgets of all.",
                lambda: {(url,): age_s for url, age_s in self.ages_s().items()},
                "url",
            ),
            gauge(
                "looptrace.shards.spending_waiting",
                "Sums of spending here that the other server does not have yet.",
                lambda: {(each.server.url,): each.waiting for each in self.tellers},
                "url",
            ),
        ]

    def ages_s(self) -> dict[str, float]:
        """Return how old is what each other server told, in seconds; at most since the start."""
        now_s = time.monotonic()
        return {url: now_s - heard_s for url, heard_s in self._heard_s.items()}

    def close(self, timeout_s: float) -> bool:
        """End; return whether there was time for it."""
        ended = [each.close(timeout_s / len(self.tellers)) for each in self.tellers]
        return all(ended)

    def _tell(self, shares: Sequence[Share]) -> None:
        since_ns = time.time_ns() - _AGAIN_NS
        recent = [share for share in shares if share.at_ns > since_ns]
        for teller in self.tellers if recent else ():
            teller.add(recent)

    async def _hear(self, request: Request) -> Response:
        if request.headers.get(REDUCED_HEADER) != self._reduced:
            return Response(OTHER_STORES, HTTPStatus.CONFLICT, media_type="text/plain")
        try:
            told = decoded(await bounded_body(request, _BYTES_MAX), SpendingMessage)
            if told.server not in self._heard_s:
                return wrong(HTTPStatus.BAD_REQUEST, f"{told.server} is not one of shards.urls")
            if told.shares:
                await run_in_threadpool(self._note, told)
        except (ValueError, GateError) as error:
            return wrong(HTTPStatus.BAD_REQUEST, str(error))
        self._heard_s[told.server] = time.monotonic()
        return Response("{}", media_type="application/json")

    def _note(self, told: SpendingMessage) -> None:
        with reader.open_gates(self._dir) as gates:
            is_new = gates.note_spent(told.server, told.shares, time.time_ns())
        if is_new:
            self._wake()
