"""Spans on their way to another server: sent from their own log until they are accepted."""

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path

import polars as pl

from looptrace.collector.otlp.json_request import json_request
from looptrace.collector.sdk.gate_stream import Server
from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.store.locks import StoreError
from looptrace.collector.worker import Worker
from looptrace.errors import UnavailableError

_logger = logging.getLogger(__name__)

# Spans of one request; a server accepts ten times as many.
SPANS_A_REQUEST = 1_000
FORWARDED_PATH = "/v1/forwarded/traces"
# The header with the key and policy that reduced contents; the receiver's must be the same.
REDUCED_HEADER = "looptrace-reduced"
# The header of spans that the receiver must keep, whatever its own settings are.
LAST_HEADER = "looptrace-last"
# What a server answers whose reduction of contents is another.
OTHER_STORES = "the stores differ in --content or in looptrace-store.key; see docs/scale.md"
_LOOK_S = 1.0
_RETRY_S, _RETRY_S_MAX = 0.25, 5.0
_ANSWER_S = 30.0
# The statuses for which half of the spans may be accepted where all of them are not.
_NOT_SO = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


class ForwardError(UnavailableError):
    """A server does not accept spans now; the message says why."""


@dataclass(slots=True)
class Sender:
    """Sends spans to one server, and counts them."""

    server: Server
    reduced: str
    sent: int = 0
    refused: int = 0

    def send(self, spans: pl.DataFrame, *, is_last: bool) -> None:
        """Send spans and return when they are on the other's disk; the `last` server keeps them.

        A request that the other rejects is halved, so that one bad span costs only itself; it is
        counted and logged.

        Raises:
            ForwardError: if the other cannot be reached, or does not accept them now.
        """
        status, why = self._post(json_request(spans), is_last=is_last)
        if status == HTTPStatus.OK:
            self.sent += spans.height
        elif status not in _NOT_SO:
            raise ForwardError(f"{self.server.url} does not take spans ({why})")
        elif spans.height == 1:
            self.refused += 1
            _logger.error("%s refuses span %s (%s)", self.server.url, spans["span_id"][0], why)
        else:
            half = spans.height // 2
            self.send(spans[:half], is_last=is_last)
            self.send(spans[half:], is_last=is_last)

    def _post(self, body: bytes, *, is_last: bool) -> tuple[int, str]:
        headers = {REDUCED_HEADER: self.reduced} | ({LAST_HEADER: "1"} if is_last else {})
        return post(self.server, FORWARDED_PATH, body, headers, _ANSWER_S)


def post(
    server: Server, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float
) -> tuple[int, str]:
    """Send JSON to another server; return the status and the text of its answer.

    Raises:
        ForwardError: if it cannot be reached.
    """
    sent = {"Content-Type": "application/json", **headers}
    try:
        connection, response = server.request(
            "POST", path, body=body, headers=sent, timeout_s=timeout_s
        )
        with closing(connection):
            return response.status, response.read().decode("utf-8", "replace")
    except (OSError, HTTPException) as error:
        raise ForwardError(f"{server.url} cannot be reached ({error})") from error


class Forwarder:
    """A thread that delivers the spans of a log, oldest first, until it is closed.

    Undelivered spans stay in the log, also over a restart.
    """

    def __init__(self, path: Path, bytes_max: int, deliver: Callable[[pl.DataFrame], None]) -> None:
        """Open the log; `deliver` returns when spans are on the disk of their server.

        Raises:
            StoreError: if the log cannot be used.
        """
        self.log = IngestLog(path, bytes_max)
        self._deliver = deliver
        self._worker = Worker("looptrace-forward", self._run, wake=self.log.committed)
        self._worker.start()

    def close(self, timeout_s: float) -> bool:
        """End; return whether there was time for it."""
        ended = self._worker.close(timeout_s)
        if ended:
            self.log.close()
        return ended

    def _run(self) -> Generator[float, None, None]:
        seq, wait_s = 0, _RETRY_S
        while True:
            try:
                while not self._worker.is_closing and (piece := self._next(seq)):
                    seq, wait_s = piece, _RETRY_S
                yield _LOOK_S
            except (ForwardError, StoreError) as error:
                _logger.warning("%s; they wait in %s", error, self.log.path.name)
                self._worker.pause(wait_s)
                wait_s = min(wait_s * 2, _RETRY_S_MAX)
                yield 0.0

    def _next(self, after_seq: int) -> int | None:
        """Deliver the oldest spans after a row; return their last row, None without any."""
        piece = self.log.read(after_seq, SPANS_A_REQUEST)
        if piece is None:
            return None
        for part in piece.spans.iter_slices(SPANS_A_REQUEST):
            self._deliver(part)
        self.log.drop(piece.seq)
        return piece.seq
