"""The sink of one of several servers: it keeps its own spans, and forwards the rest once.

Spans from another server are kept in any case, so that none is forwarded twice. While the
number of servers changes, a former server sends spans of sessions that it does not have to the
current one, once.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path

import polars as pl
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from looptrace.analyzer.fields.dialect_table import SHIPPED, DialectTable
from looptrace.analyzer.normalize.span_ties import with_ties
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.settings.server_limits import Limits
from looptrace.analyzer.settings.shards import ShardSettings
from looptrace.analyzer.text.digests import digest
from looptrace.collector.content.policy import Content
from looptrace.collector.sdk.gate_stream import Server
from looptrace.collector.server.ingest.ingest_log import RETRY_AFTER_S, IngestLog
from looptrace.collector.server.receiver.decoding import Signal
from looptrace.collector.server.receiver.http_receiver import OtlpEndpoint
from looptrace.collector.server.receiver.pipeline import Pipeline
from looptrace.collector.server.receiver.receiver_metrics import (
    Instrument,
    ReceiverCounts,
    counter,
    gauge,
)
from looptrace.collector.server.receiver.sink import SinkFull
from looptrace.collector.server.shards.forwarder import (
    FORWARDED_PATH,
    LAST_HEADER,
    OTHER_STORES,
    REDUCED_HEADER,
    Forwarder,
    Sender,
)
from looptrace.collector.server.shards.owners import Owner, Owners, Why, held_names
from looptrace.collector.server.shards.spending import Spending, SpendingNews
from looptrace.collector.server.tokens.token_file import HASHED, AccessError
from looptrace.collector.store.locks import NAME
from looptrace.errors import InputError

_FILES = f"{NAME}.forward-*.db"
# The first of these that a span has.
_KEY = {
    "session": pl.coalesce("session", "task_parent", "task", "trace_id"),
    "trace": pl.col("trace_id"),
}


class ShardError(InputError):
    """The server cannot be one of several; the message is one line that says why."""


class Shards:
    """Brings spans to the server of their session: to this one's log, or to another server."""

    def __init__(
        self,
        store_dir: Path,
        settings: ShardSettings,
        url: str | None,
        token: str | None,
        log: IngestLog,
        limits: Limits,
        reduced: str,
        held: Collection[str] = (),
        dialects: DialectTable = SHIPPED,
        news: SpendingNews | None = None,
    ) -> None:
        """Forward the spans of other servers; `log` is for those of this server, at `url`.

        `reduced` identifies the reduction of contents: spans with another one are refused. `held`
        are the names of sessions that stay here although they would move to another server. With
        `news` the servers tell each other what is spent of budgets.

        Raises:
            ShardError: if `url` is not one of the servers. StoreError: if a log cannot be used.
        """
        urls = (*settings.urls, *settings.former_urls)
        if url not in urls:
            raise ShardError(f"--shard must be one of shards.urls: {', '.join(urls)}.")
        self._owners = Owners(settings, url, held)
        self._by, self._dialects = settings.by, dialects
        self._log = log
        self._reduced = digest(reduced)
        self._stayed = 0
        self.senders = {
            number: Sender(Server(other, token), self._reduced)
            for number, other in enumerate(self._owners.urls)
            if number != self._owners.own
        }
        others = [sender.server for sender in self.senders.values()]
        about = (others, self._reduced, settings.tell_s)
        self._spending = Spending(store_dir, url, *about, news) if news and others else None
        names = self._owners.names
        paths = {n: store_dir / _FILES.replace("*", digest(names[n])) for n in self.senders}
        open_log = partial(Forwarder, bytes_max=limits.log_bytes_max, deliver=self._deliver)
        self._forwarders = {number: open_log(path) for number, path in paths.items()}
        # The logs for servers that are gone: their spans are delivered to the current owners.
        self._left = [open_log(p) for p in store_dir.glob(_FILES) if p not in paths.values()]
        self._counts = ReceiverCounts()
        self._pipeline = Pipeline(log.accept, limits, self._counts)
        self._asked = Pipeline(self._accept_forwarded, limits, self._counts)

    def routes(self) -> list[Route]:
        """Return the route by which other servers forward spans to this one."""
        last, asked = (OtlpEndpoint(each, Signal.TRACES) for each in (self._pipeline, self._asked))
        told = [self._spending.route()] if self._spending else []
        return [Route(FORWARDED_PATH, _OfOthers(last, asked, self._reduced)), *told]

    def ages_s(self) -> dict[str, float]:
        """Return the age of the sums of budgets of each other server, in seconds."""
        return self._spending.ages_s() if self._spending else {}

    def instruments(self) -> list[Instrument]:
        """Return the instruments of forwarding."""
        labels = ("url",)
        return [
            counter(
                "looptrace.shards.sent",
                "Spans forwarded to the server of their session.",
                lambda: {(s.server.url,): s.sent for s in self.senders.values()},
                *labels,
            ),
            counter(
                "looptrace.shards.refused",
                "Spans that the other server refused.",
                lambda: {(s.server.url,): s.refused for s in self.senders.values()},
                *labels,
            ),
            gauge(
                "looptrace.shards.waiting",
                "Spans that wait to be forwarded.",
                lambda: {
                    (self.senders[n].server.url,): f.log.spans for n, f in self._forwarders.items()
                },
                *labels,
            ),
            counter(
                "looptrace.shards.received",
                "Spans that other servers have forwarded to this one.",
                lambda: self._counts.read()["spans"],
            ),
            counter(
                "looptrace.shards.stayed",
                "Spans of sessions that stay here, where they began, after a change of servers.",
                lambda: self._stayed,
            ),
            *(self._spending.instruments() if self._spending else ()),
        ]

    async def accept(self, spans: pl.DataFrame) -> None:
        """Commit spans to the logs of their owners; see `Sink`."""
        await self._commit(spans, self._owners.of)

    async def _accept_forwarded(self, spans: pl.DataFrame) -> None:
        """Commit spans of sessions that may be here, and send the rest on."""
        await self._commit(spans, self._owners.of_forwarded)

    async def _commit(self, spans: pl.DataFrame, owner_of: Callable[[str], Owner]) -> None:
        shared = await asyncio.to_thread(lambda: list(self._shared(spans, owner_of)))
        logs = [(self._log_of(owner.server), part) for owner, part in shared]
        # Checked before some spans are accepted and others are not.
        if any(log.bytes > log.bytes_max for log, _ in logs):
            raise SinkFull(RETRY_AFTER_S)
        await asyncio.gather(*(log.accept(part) for log, part in logs))
        self._stayed += sum(part.height for owner, part in shared if owner.why is Why.STAYED)

    def close(self, timeout_s: float) -> bool:
        """End; return whether there was time for it. Unforwarded spans stay in their log."""
        self._pipeline.close()
        self._asked.close()
        every: list[Forwarder | Spending] = [*self._forwarders.values(), *self._left]
        every += [self._spending] if self._spending else []
        ended = [each.close(timeout_s / len(every)) for each in every]
        return all(ended)

    def _shared(
        self, spans: pl.DataFrame, owner_of: Callable[[str], Owner]
    ) -> Iterator[tuple[Owner, pl.DataFrame]]:
        """Yield each owner with its spans."""
        keys = with_ties(spans, self._dialects).select(key=_KEY[self._by])["key"]
        owners = {key: owner_of(key) for key in keys.unique()}
        every = list(dict.fromkeys(owners.values()))
        numbers = {key: every.index(owner) for key, owner in owners.items()}
        owned = spans.with_columns(owner=keys.replace_strict(numbers, return_dtype=pl.Int64))
        parts = owned.partition_by("owner", as_dict=True, include_key=False, maintain_order=True)
        for (number,), part in parts.items():
            yield every[int(number)], part

    def _log_of(self, server: int) -> IngestLog:
        return self._log if server == self._owners.own else self._forwarders[server].log

    def _deliver(self, spans: pl.DataFrame) -> None:
        """Bring spans of a log to their current owners, one of which may be this server."""
        for owner, part in self._shared(spans, self._owners.of):
            if owner.server == self._owners.own:
                asyncio.run(self._log.accept(part))
            else:
                self.senders[owner.server].send(part, is_last=owner.why is Why.PASSED)


def shards_of(
    store_dir: Path,
    settings: Settings,
    log: IngestLog,
    url: str | None,
    tokens: Sequence[str],
    content: Content,
    key: bytes,
    news: SpendingNews,
) -> Shards | None:
    """Return the sink for several servers with the same tokens; None for one server.

    Budgets of several tasks are those of all servers: `news` has what is spent here.

    Raises:
        ShardError: if this server, at `url`, is not one of them.
        StoreError: if a log cannot be used.
        AccessError: if the first token is a hash.
    """
    if not settings.shards.urls:
        return None
    reduced = content if content == "full" else f"{content} {key.hex()}"
    token = next(iter(tokens), None)
    if token and token.startswith(HASHED):
        raise AccessError(
            "servers call each other with the first of the tokens; write that one in full, with "
            "role=admin, because of the others only a hash is known."
        )
    policy = settings.policy
    held = held_names(store_dir, log, policy) if settings.shards.former_urls else ()
    own = (settings.server, reduced, held, policy.dialects, news if policy.budgets.limits else None)
    return Shards(store_dir, settings.shards, url, token, log, *own)


class _OfOthers:
    """Accepts spans with the same reduction of contents as this server's; an ASGI application."""

    def __init__(self, last: ASGIApp, asked: ASGIApp, reduced: str) -> None:
        """Pass spans that must be kept here to `last`, and the rest to `asked`."""
        self._last = last
        self._asked = asked
        self._reduced = reduced

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Request(scope).headers
        answer = self._last if LAST_HEADER in headers else self._asked
        if headers.get(REDUCED_HEADER) != self._reduced:
            answer = Response(OTHER_STORES, HTTPStatus.CONFLICT, media_type="text/plain")
        await answer(scope, receive, send)
