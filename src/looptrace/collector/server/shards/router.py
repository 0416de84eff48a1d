"""The sink of one of several servers: it keeps what is its own, and forwards the rest once.

What comes from another server is kept, whoever it belongs to: nothing is forwarded twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path

import polars as pl
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from looptrace.analyzer.normalize.span_ties import with_ties
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.settings.server_limits import Limits
from looptrace.analyzer.settings.shards import ShardSettings
from looptrace.analyzer.text.digests import digest
from looptrace.collector.content.policy import Content
from looptrace.collector.sdk.gate_stream import Server
from looptrace.collector.server.ingest_log import RETRY_AFTER_S, IngestLog
from looptrace.collector.server.receiver.decoding import Signal
from looptrace.collector.server.receiver.http_receiver import otlp_endpoint
from looptrace.collector.server.receiver.pipeline import Pipeline
from looptrace.collector.server.receiver.receiver_metrics import Instrument, ReceiverCounts
from looptrace.collector.server.receiver.sink import SinkFull
from looptrace.collector.server.shards.forwarder import (
    FORWARDED_PATH,
    REDUCED_HEADER,
    Forwarder,
    Sender,
)
from looptrace.collector.server.shards.ring import Ring
from looptrace.collector.store.locks import NAME
from looptrace.errors import InputError

_FILES = f"{NAME}.forward-*.db"
# Of each span the first that it says.
_KEY = {
    "session": pl.coalesce("session", "task_parent", "task", "trace_id"),
    "trace": pl.col("trace_id"),
}


class ShardError(InputError):
    """A server that cannot be one of several; the message is one line that says why."""


class Shards:
    """Brings spans to the server that has their session: this one's log, or another one."""

    def __init__(
        self,
        store_dir: Path,
        settings: ShardSettings,
        url: str | None,
        token: str | None,
        log: IngestLog,
        limits: Limits,
        reduced: str,
    ) -> None:
        """Forward to the others what `log` is not for; this server is the one at `url`.

        `reduced` says how contents were reduced: what other servers reduced otherwise is refused.

        Raises:
            ShardError: if `url` is none of the servers.
            StoreError: if a log cannot be used.
        """
        if url not in settings.urls:
            raise ShardError(f"--shard must be one of shards.urls: {', '.join(settings.urls)}.")
        self._own = settings.urls.index(url)
        self._by = settings.by
        self._ring = Ring(settings.ring)
        self._log = log
        self._reduced = digest(reduced)
        self.senders = {
            number: Sender(Server(other, token), self._reduced)
            for number, other in enumerate(settings.urls)
            if number != self._own
        }
        paths = {n: store_dir / _FILES.replace("*", digest(settings.ring[n])) for n in self.senders}
        open_log = partial(Forwarder, bytes_max=limits.log_bytes_max, deliver=self._deliver)
        self._forwarders = {number: open_log(path) for number, path in paths.items()}
        # Those of servers that are no more: what they hold is delivered as it is shared now.
        self._left = [open_log(p) for p in store_dir.glob(_FILES) if p not in paths.values()]
        self._counts = ReceiverCounts()
        self._pipeline = Pipeline(log, limits, self._counts)

    def routes(self) -> list[Route]:
        """Return the route by which other servers forward spans to this one."""
        taking = otlp_endpoint(self._pipeline, Signal.TRACES)
        return [Route(FORWARDED_PATH, _OfOthers(taking, self._reduced))]

    def instruments(self) -> list[Instrument]:
        """Return the instruments of what is forwarded."""
        labels = ("url",)
        return [
            Instrument(
                "looptrace.shards.sent",
                "Spans that were forwarded to the server that has their session.",
                lambda: {(s.server.url,): s.sent for s in self.senders.values()},
                labels=labels,
            ),
            Instrument(
                "looptrace.shards.refused",
                "Spans that the other server found wrong.",
                lambda: {(s.server.url,): s.refused for s in self.senders.values()},
                labels=labels,
            ),
            Instrument(
                "looptrace.shards.waiting",
                "Spans that wait to be forwarded.",
                lambda: {
                    (self.senders[n].server.url,): f.log.spans for n, f in self._forwarders.items()
                },
                "gauge",
                labels=labels,
            ),
            Instrument(
                "looptrace.shards.received",
                "Spans that other servers have forwarded to this one.",
                lambda: {(): self._counts.read()["spans"]},
            ),
        ]

    async def accept(self, spans: pl.DataFrame) -> None:
        """Commit spans to the logs of those who have them; see `Sink`."""
        shared = await asyncio.to_thread(lambda: list(self._shared(spans)))
        logs = [(self._log_of(server), part) for server, part in shared]
        if any(log.bytes > log.bytes_max for log, _ in logs):
            raise SinkFull(RETRY_AFTER_S)  # Before some of them are taken and others are not.
        await asyncio.gather(*(log.accept(part) for log, part in logs))

    def close(self, timeout_s: float) -> bool:
        """End; what is not forwarded stays in its log. Returns whether there was time for it."""
        self._pipeline.close()
        every = [*self._forwarders.values(), *self._left]
        ended = [each.close(timeout_s / len(every)) for each in every]
        return all(ended)

    def _shared(self, spans: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
        """Yield each server, by number, with the spans that it has."""
        keys = with_ties(spans).select(key=_KEY[self._by])["key"]
        owners = {key: self._ring.owner(key) for key in keys.unique()}
        owned = spans.with_columns(owner=keys.replace_strict(owners, return_dtype=pl.Int64))
        parts = owned.partition_by("owner", as_dict=True, include_key=False, maintain_order=True)
        for (owner,), part in parts.items():
            yield int(owner), part

    def _log_of(self, server: int) -> IngestLog:
        return self._log if server == self._own else self._forwarders[server].log

    def _deliver(self, spans: pl.DataFrame) -> None:
        """Bring spans of a log to those who have them now, which may be this server."""
        for server, part in self._shared(spans):
            if server == self._own:
                asyncio.run(self._log.accept(part))
            else:
                self.senders[server].send(part)


def shards_of(
    store_dir: Path,
    settings: Settings,
    log: IngestLog,
    url: str | None,
    tokens: Sequence[str],
    content: Content,
    key: bytes,
) -> Shards | None:
    """Return what brings spans to the other servers, which know the same tokens; None for one.

    Raises:
        ShardError: if this server, at `url`, is none of them.
        StoreError: if a log cannot be used.
    """
    if not settings.shards.urls:
        return None
    reduced = content if content == "full" else f"{content} {key.hex()}"
    token = next(iter(tokens), None)
    return Shards(store_dir, settings.shards, url, token, log, settings.server, reduced)


class _OfOthers:
    """Takes spans whose contents were reduced as this server does it; an ASGI application."""

    def __init__(self, taking: ASGIApp, reduced: str) -> None:
        self._taking = taking
        self._reduced = reduced

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._taking
        if Request(scope).headers.get(REDUCED_HEADER) != self._reduced:
            why = "the stores differ in --content or in looptrace-store.key; see docs/scale.md"
            answer = Response(why, HTTPStatus.CONFLICT, media_type="text/plain")
        await answer(scope, receive, send)
