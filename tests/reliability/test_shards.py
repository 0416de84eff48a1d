"""Three servers that share the sessions find what one finds, however spans arrive (P31).

Spans are sent by the load-balancing exporter's ring, in turn, or with one server killed in between.
Findings are compared byte by byte, so that each is on only one server, and events and gates where
no server is killed. The spans of a session are sent in order, because live events for spans out of
order depend on their arrival, on one server as on several.
"""

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.normalize.span_ties import with_ties
from looptrace.collector.store import reader
from tests.commands import json_of, printed
from tests.otlp import Trace, spans_in, tool_call
from tests.reliability.serving import OK
from tests.reliability.sharding import (
    SERVERS,
    Cluster,
    Outage,
    Outcome,
    clustered,
    outcome,
    outcome_of_one,
    ring_of,
    send,
)
from tests.seeds import turn_of

SESSIONS, TRACES, CALLS = 12, 3, 4
SPANS_A_ROUND, SESSIONS_A_BATCH = 3, 4
# Now: a start looks back on the tasks of a day.
START = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=10)

Request = dict[str, Any]


def traces() -> list[tuple[int, Trace]]:
    """Return traces of agents with loops over several traces, and of some without loops.

    Each has the number of its session.
    """
    made = []
    for number, part in ((n, p) for n in range(SESSIONS) for p in range(TRACES)):
        at = (START + timedelta(minutes=part)).isoformat()
        trace = Trace(f"session-{number}", name=str(part), service=f"agent-{number % 2}", at=at)
        for step in range(CALLS):
            path = "a.py" if number % 3 else f"{part}-{step}.py"
            failed = {"result": f"Error: no {path}", "error": "FileNotFoundError"}
            attributes = tool_call("read", json.dumps({"path": path}), **failed)
            trace.span("execute_tool read", None, attributes, status="error")
        made.append((number, trace))
    return made


Batch = list[Request]


def rounds(seed: int) -> list[list[Batch]]:
    """Return in rounds the next spans of each session, in batches as a Collector makes them."""
    chance = random.Random(seed)
    of_sessions: list[list[Request]] = [[] for _ in range(SESSIONS)]
    for number, trace in traces():
        of_sessions[number] += trace.requests()
    made = []
    for start in range(0, TRACES * CALLS, SPANS_A_ROUND):
        sessions = chance.sample(of_sessions, SESSIONS)
        parts = [
            sessions[at : at + SESSIONS_A_BATCH] for at in range(0, SESSIONS, SESSIONS_A_BATCH)
        ]
        made.append([[r for s in part for r in s[start : start + SPANS_A_ROUND]] for part in parts])
    return made


def joined(batch: list[Request]) -> Request:
    """Return one request with all spans of a batch."""
    return {"resourceSpans": [part for request in batch for part in request["resourceSpans"]]}


def session_of(request: Request) -> str:
    """Return the session that the one span of a request names."""
    return str(with_ties(spans_in(request))["session"][0])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Start three servers."""
    with clustered(tmp_path) as servers:
        yield servers


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return what one server makes of the spans."""
    sent = [list(map(joined, batches)) for batches in rounds(0)]
    return outcome_of_one(tmp_path_factory.mktemp("alone"), sent)


Route = Callable[[Batch, int, int], list[tuple[int, Batch]]]


def by_session(batch: Batch, _: int, servers: int) -> list[tuple[int, Batch]]:
    """Share a batch as the load-balancing exporter does, by session."""
    ring = ring_of(servers)
    parts: dict[int, Batch] = {}
    for request in batch:
        parts.setdefault(ring.owner(session_of(request)), []).append(request)
    return list(parts.items())


def by_turns(batch: Batch, number: int, servers: int) -> list[tuple[int, Batch]]:
    """Send each batch to the next server."""
    return [(number % servers, batch)]


def to_all(batch: Batch, _: int, servers: int) -> list[tuple[int, Batch]]:
    """Send each batch to every server, as a client does that is not sure of its answer."""
    return [(server, batch) for server in range(servers)]


def send_by(route: Route, cluster: Cluster, sent: list[list[Batch]], servers: int) -> None:
    """Send rounds to several servers, and wait after each until the rules have run."""
    for batches in sent:
        for number, batch in enumerate(batches):
            for server, part in route(batch, number, servers):
                assert cluster.servers[server].send(joined(part)) == OK
        cluster.quiet()


def people_see_one_server(cluster: Cluster, alone: Outcome) -> None:
    """Check that the commands take the servers as one, also for a gate that is on one of them."""
    where = [word for number in range(SERVERS) for word in ("--server", cluster.url(number))]
    listed = json_of("gates", "list", *where, "--all")
    assert sorted(gate["id"] for gate in listed) == [json.loads(g)["id"] for g in alone.gates]
    for gate in (listed[0], listed[-1]):
        assert gate["reason"] in printed("gates", "show", *where, gate["id"])
    opened = json_of("gates", "metrics", *where)["gates_opened"]
    assert opened == len(alone.gates)


@pytest.mark.parametrize("route", turn_of(0, [by_session, by_turns, to_all]))
def test_three_servers_find_what_one_finds(route: Route, cluster: Cluster, alone: Outcome) -> None:
    """Each event and each gate occurs once, wherever the spans arrived."""
    send_by(route, cluster, rounds(1), SERVERS)
    sent = cluster.sum("looptrace_shards_sent_total")
    people_see_one_server(cluster, alone)
    cluster.settle()

    assert len(alone.gates) >= SESSIONS // 2
    assert outcome(cluster.stores) == alone
    assert (sent == 0) == (route is by_session)
    assert all(outcome([store]).gates for store in cluster.stores)  # They share the work.


@pytest.mark.parametrize(("route", "servers"), turn_of(0, [(by_session, 4), (by_turns, 2)]))
def test_another_number_of_servers_loses_no_loop(
    route: Route, servers: int, cluster: Cluster, alone: Outcome
) -> None:
    """Sessions that go on keep their counts and gates at their server; others are shared again."""
    sent = rounds(2)
    half = len(sent) // 2
    names = [f"session-{number}" for number in range(SESSIONS)]
    others, later = set(names[: SESSIONS // 2]), set(names[SESSIONS // 2 :])
    send_by(route, cluster, [without(later, batches) for batches in sent[:half]], SERVERS)
    cluster.resize(servers)
    first = [without(others, batches) for batches in sent[:half]]
    send_by(route, cluster, [*first, *sent[half:]], servers)
    stayed = cluster.sum("looptrace_shards_stayed_total")
    cluster.settle()

    assert outcome(cluster.stores) == alone
    assert stayed > 0
    ring = ring_of(servers)
    moved = [name for name in sorted(later) if ring.owner(name) != ring_of(SERVERS).owner(name)]
    assert moved
    for name in moved:
        owner = cluster.stores[ring.owner(name)]
        assert name in reader.read_rows(owner, "turns", pl.lit(value=True))["session"]


def without(sessions: set[str], batches: list[Batch]) -> list[Batch]:
    """Return batches without the spans of some sessions."""
    return [[r for r in batch if session_of(r) not in sessions] for batch in batches]


@pytest.mark.parametrize("seed", turn_of(0, range(2)))
def test_servers_killed_in_the_middle_lose_no_finding(
    seed: int, cluster: Cluster, alone: Outcome
) -> None:
    """The spans of a killed server wait at another, also after its kill; refused senders resend.

    Spans that waited can arrive after later ones, which changes live events but not findings.
    """
    sent = [list(map(joined, batches)) for batches in rounds(seed)]
    send(cluster, sent, [Outage.drawn(random.Random(seed), range(len(sent)))])
    cluster.settle()

    found = outcome(cluster.stores)

    assert (found.findings, found.spans) == (alone.findings, alone.spans)
    assert len({json.loads(event)["id"] for event in found.events}) == len(found.events)
