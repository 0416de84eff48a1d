"""What one of several servers keeps, what it sends on, and what waits meanwhile."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from looptrace.analyzer.settings.server_limits import MIB, Limits
from looptrace.analyzer.settings.shards import ShardSettings
from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.server.receiver.sink import SinkFull
from looptrace.collector.server.shards.forwarder import FORWARDED_PATH, REDUCED_HEADER
from looptrace.collector.server.shards.ring import Ring
from looptrace.collector.server.shards.router import ShardError, Shards
from tests.otlp import Trace, spans_in
from tests.reliability.serving import until

# Nobody listens at either; the first is this server.
URLS = ("http://127.0.0.1:9", "http://127.0.0.1:1")
OURS, THEIRS = 0, 1


@contextmanager
def sharing(
    folder: Path, urls: tuple[str, ...] = URLS, by: Any = "session", limits: Limits | None = None
) -> Iterator[tuple[Shards, IngestLog]]:
    """Open the first of some servers, and its own log."""
    log = IngestLog(folder / "own.db", MIB)
    settings = ShardSettings(urls, by=by)
    shards = Shards(folder, settings, urls[0], None, log, limits or Limits(), "full")
    try:
        yield shards, log
    finally:
        assert shards.close(10.0)
        log.close()


def keys_of(server: int, count: int, prefix: str = "session") -> list[str]:
    """Return sessions that a server has."""
    ring = Ring(["127.0.0.1:9", "127.0.0.1:1"])
    keys = (f"{prefix}-{number}" for number in range(1_000))
    return [key for key in keys if ring.owner(key) == server][:count]


def kept(log: IngestLog) -> pl.DataFrame:
    """Return the spans of a log."""
    piece = log.read(0, 10_000)
    return pl.DataFrame() if piece is None else piece.spans


def spans_of(*sessions: str, **options: Any) -> pl.DataFrame:
    """Return two spans of each session."""
    parts = []
    for session in sessions:
        trace = Trace(session, **options)
        trace.span("a")
        trace.span("b")
        parts.append(spans_in(trace.request()))
    return pl.concat(parts)


def test_what_another_has_waits_over_a_restart_until_it_is_shared_anew(tmp_path: Path) -> None:
    """Its server is down; after the ring has changed this one has all, each span once."""
    ours, theirs = keys_of(OURS, 3), keys_of(THEIRS, 3)
    spans = spans_of(*ours, *theirs)
    with sharing(tmp_path) as (shards, log):
        asyncio.run(shards.accept(spans))
        assert kept(log).equals(spans_of(*ours))
        waiting = {i.name: i for i in shards.instruments()}["looptrace.shards.waiting"]
        assert waiting.read() == {(URLS[THEIRS],): 6}
    with sharing(tmp_path) as (shards, log):
        assert kept(log).height == 6
    with sharing(tmp_path, URLS[:1]) as (shards, log):
        until(lambda: kept(log).height == 12)
        assert kept(log).sort("trace_id", "span_id").equals(spans.sort("trace_id", "span_id"))


@pytest.mark.parametrize(
    ("attributes", "key"),
    [
        ({"session.id": "S", "looptrace.task.id": "T"}, "S"),
        ({"looptrace.task.id": "T", "looptrace.task.parent_id": "P"}, "P"),
        ({"looptrace.task.id": "T"}, "T"),
        ({}, None),
    ],
)
def test_a_span_goes_by_the_first_that_it_says(
    attributes: dict[str, str], key: str | None, tmp_path: Path
) -> None:
    """Session, outer task, task, trace; by trace alone where the settings say so."""
    with sharing(tmp_path) as (shards, log):
        for number in range(20):
            own = {name: f"{value}-{number}" for name, value in attributes.items()}
            trace = Trace(f"trace-{number}", session_key=None)
            trace.span("a", attributes=own)
            before = kept(log).height
            asyncio.run(shards.accept(spans_in(trace.request())))
            owner = Ring(["127.0.0.1:9", "127.0.0.1:1"]).owner(
                f"{key}-{number}" if key else trace.trace_id
            )
            assert kept(log).height - before == (owner == OURS)
        assert 0 < kept(log).height < 20


def test_by_trace_a_trace_stays_whole_whatever_its_spans_name(tmp_path: Path) -> None:
    """Spans of both servers' sessions in one trace are on one server."""
    with sharing(tmp_path, by="trace") as (shards, log):
        for number in range(20):
            trace = Trace(f"trace-{number}", session_key=None)
            trace.span("a", attributes={"session.id": keys_of(OURS, 1)[0]})
            trace.span("b", attributes={"session.id": keys_of(THEIRS, 1)[0]})
            asyncio.run(shards.accept(spans_in(trace.request())))
        sizes = kept(log).group_by("trace_id").len()["len"]
        assert 0 < len(sizes) < 20
        assert sizes.unique().to_list() == [2]


def test_where_too_much_waits_nothing_of_a_request_is_taken(tmp_path: Path) -> None:
    """Senders should try again, as when this server's own log is full."""
    full = Limits(log_bytes_max=MIB)
    with sharing(tmp_path, limits=full) as (shards, log):
        for forwarder in shards._forwarders.values():
            forwarder.log.bytes = 2 * MIB
        with pytest.raises(SinkFull):
            asyncio.run(shards.accept(spans_of(keys_of(OURS, 1)[0], keys_of(THEIRS, 1)[0])))
        others = spans_of(keys_of(OURS, 2)[1])
        asyncio.run(shards.accept(others))
        assert kept(log).equals(others)


def test_a_server_keeps_what_is_forwarded_and_refuses_what_was_reduced_otherwise(
    tmp_path: Path,
) -> None:
    """It forwards nothing again, whoever the owner is."""
    trace = Trace(keys_of(THEIRS, 1)[0])
    trace.span("a")
    with sharing(tmp_path) as (shards, log), TestClient(Starlette(routes=shards.routes())) as web:
        post: Callable[..., Any] = lambda reduced: web.post(  # noqa: E731
            FORWARDED_PATH, json=trace.request(), headers={REDUCED_HEADER: reduced}
        )
        assert post("other").status_code == HTTPStatus.CONFLICT
        assert kept(log).is_empty()
        assert post(shards._reduced).status_code == HTTPStatus.OK
        assert kept(log).equals(spans_in(trace.request()))


def test_a_server_that_is_none_of_them_does_not_start(tmp_path: Path) -> None:
    """It would have no sessions, and forward those of itself to itself."""
    log = IngestLog(tmp_path / "own.db", MIB)
    for url in (None, "http://other:1"):
        with pytest.raises(ShardError, match="--shard must be one of"):
            Shards(tmp_path, ShardSettings(URLS), url, None, log, Limits(), "full")
    log.close()
