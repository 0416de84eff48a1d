"""The owner of a session while the number of servers changes, and spans on their way."""

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from looptrace.analyzer.engine.policy import DEFAULT
from looptrace.analyzer.settings.server_limits import MIB, Limits
from looptrace.analyzer.settings.shards import ShardSettings
from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.server.shards.forwarder import FORWARDED_PATH, LAST_HEADER, REDUCED_HEADER
from looptrace.collector.server.shards.owners import Owners, Why, held_names
from looptrace.collector.server.shards.ring import Ring
from looptrace.collector.server.shards.router import Shards
from looptrace.collector.store import writer
from looptrace.rules.contract import SettingError
from tests.collector.server.shards.test_router import kept
from tests.otlp import Trace, spans_in
from tests.reliability.serving import looping

# Nobody listens at any of them.
URLS = tuple(f"http://127.0.0.1:{port}" for port in (9, 1, 2, 3))
GROWN = ShardSettings(URLS, former_urls=URLS[:3])
SHRUNK = ShardSettings(URLS[:3], former_urls=URLS)
KEYS = [f"session-{number}" for number in range(300)]


@pytest.mark.parametrize("settings", [GROWN, SHRUNK], ids=["grown", "shrunk"])
def test_all_servers_bring_a_session_to_one_in_two_steps(settings: ShardSettings) -> None:
    """That which has it of those of before, else that of now; from wherever it comes."""
    before = [Ring(settings.former_ring).owner(key) for key in KEYS]
    has = {key: URLS[before[at]] for at, key in enumerate(KEYS) if at % 2}
    owners = {
        url: Owners(settings, url, {key for key, where in has.items() if where == url})
        for url in URLS
    }
    moved = 0
    for at, key in enumerate(KEYS):
        now = URLS[Ring(settings.ring).owner(key)]
        ends = set()
        for url in URLS:
            owner, steps = owners[url].of(key), 0
            while (to := owners[url].urls[owner.server]) != url:
                steps += 1
                url = to  # noqa: PLW2901 - the span goes on
                if owner.why is Why.PASSED:
                    break
                owner = owners[url].of_forwarded(key)
            assert steps <= 2
            ends.add(url)
        assert ends == {has.get(key, now)}
        moved += now != URLS[before[at]]
    assert 30 < moved < 150


def test_what_is_forwarded_goes_round_in_no_settings() -> None:
    """Two servers that take each other for the one of before: what one has passed on stays."""
    one = Owners(ShardSettings(URLS[:1], former_urls=URLS[1:2]), URLS[1], ())
    other = Owners(ShardSettings(URLS[1:2], former_urls=URLS[:1]), URLS[0], ())

    assert one.of_forwarded("s").why is other.of_forwarded("s").why is Why.PASSED
    assert Owners(ShardSettings(URLS), URLS[0], ()).of_forwarded("s") == (0, Why.NOW)


@contextmanager
def former_server(folder: Path, held: Collection[str]) -> Iterator[tuple[Shards, IngestLog]]:
    """Open the first of three servers, which are four now."""
    log = IngestLog(folder / "own.db", MIB)
    shards = Shards(folder, GROWN, URLS[0], None, log, Limits(), "full", held)
    try:
        yield shards, log
    finally:
        assert shards.close(10.0)
        log.close()


def moved_away() -> Iterator[str]:
    """Yield sessions that the first server had before, and another one has now."""
    before, now = Ring(GROWN.former_ring), Ring(GROWN.ring)
    return (key for key in KEYS if before.owner(key) == 0 != now.owner(key))


def test_a_former_server_keeps_what_it_has_and_passes_on_the_rest(tmp_path: Path) -> None:
    """Whether a span comes from an agent or from another server; what was passed on to it stays."""
    sessions = moved_away()
    mine, new, passed = next(sessions), next(sessions), next(sessions)
    with former_server(tmp_path, {mine}) as (shards, log):
        shown = {each.name: each for each in shards.instruments()}
        for session in (mine, new):
            asyncio.run(shards.accept(spans_in(trace_of(session).request())))
        assert kept(log).equals(spans_in(trace_of(mine).request()))
        waiting = shown["looptrace.shards.waiting"].read()
        assert sum(waiting.values()) == 1
        with TestClient(Starlette(routes=shards.routes())) as web:
            for session, header in ((mine, {}), (new, {}), (passed, {LAST_HEADER: "1"})):
                headers = {REDUCED_HEADER: shards._reduced, **header}
                body = trace_of(session).request()
                assert (
                    web.post(FORWARDED_PATH, json=body, headers=headers).status_code
                    == HTTPStatus.OK
                )
        assert shown["looptrace.shards.stayed"].read() == {(): 2}
        assert sum(shown["looptrace.shards.waiting"].read().values()) == 2
        assert set(kept(log)["trace_id"]) == {trace_of(mine).trace_id, trace_of(passed).trace_id}


def trace_of(session: str) -> Trace:
    """Return a trace with a span of a session."""
    trace = Trace(session)
    trace.span("a")
    return trace


def test_sessions_go_on_that_were_at_work_today_or_wait_at_a_gate(tmp_path: Path) -> None:
    """Those of the log, of the store, and old ones with an open gate; others begin again anyway."""
    today = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    log = IngestLog(tmp_path / "own.db", MIB)
    asyncio.run(log.accept(spans_in(looping("logged", 1).request())))
    stored = [looping("today", 1, at=today), looping("old", 1), looping("waits", 9)]
    for trace in stored:
        writer.ingest(spans_in(trace.request()), tmp_path / "store")
    names = held_names(tmp_path / "store", log, DEFAULT)
    log.close()

    assert {"logged", "today", "waits", stored[0].trace_id} <= names
    assert not {"old", stored[1].trace_id} & names


@pytest.mark.parametrize(
    ("urls", "names", "why"),
    [
        (("nowhere",), (), "shards.former_urls has 'nowhere'"),
        (URLS[:2], ("a",), "shards.former_names must have one name for each"),
        ((URLS[0], URLS[0]), (), "shards.former_urls names a server twice"),
    ],
)
def test_former_servers_that_cannot_be_are_refused(
    urls: tuple[str, ...], names: tuple[str, ...], why: str
) -> None:
    """As those of now are."""
    with pytest.raises(SettingError, match=why):
        ShardSettings(URLS, former_urls=urls, former_names=names)
