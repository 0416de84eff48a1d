"""Three servers that share the sessions: they find what one finds, however spans are sent to them.

Spans go out by the load-balancing exporter's ring, by turns, or with one server killed in between.
What is compared: findings, events and gates to the byte, so that each is on one server alone. The
spans of a session are sent in their order, because what is told live of spans out of order depends
on what came first, on one server as on several.
"""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
from click.testing import CliRunner

from looptrace.analyzer.normalize.span_ties import with_ties
from looptrace.cli.main import main
from looptrace.collector.otlp.json import decode_request
from looptrace.collector.otlp.span_rows import Bounds
from looptrace.collector.otlp.span_table import span_table
from looptrace.collector.server.shards.ring import Ring
from looptrace.collector.store import reader
from looptrace.collector.store.sql import ask
from tests.otlp import Trace
from tests.reliability.serving import DEADLINE_S, OK, Served, until

SERVERS = 3
SESSIONS, TRACES, CALLS = 24, 3, 4
SPANS_A_ROUND, SESSIONS_A_BATCH = 3, 4
KEY = "looptrace-store.key"
QUIET_S = 0.5

Request = dict[str, Any]


def traces() -> list[tuple[int, Trace]]:
    """Return traces of agents whose loops go over several traces, but for some that do not loop.

    Each has the number of its session.
    """
    made = []
    for number, part in ((n, p) for n in range(SESSIONS) for p in range(TRACES)):
        trace = Trace(
            f"session-{number}",
            name=str(part),
            service=f"agent-{number % 2}",
            at=f"2026-03-02T09:{part:02}:00+00:00",
        )
        for step in range(CALLS):
            path = "a.py" if number % 3 else f"{part}-{step}.py"
            trace.span(
                "execute_tool read",
                attributes={
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "read",
                    "gen_ai.tool.call.arguments": json.dumps({"path": path}),
                    "gen_ai.tool.call.result": f"Error: no {path}",
                    "error.type": "FileNotFoundError",
                },
                status="error",
            )
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
    rows = decode_request(json.dumps(request).encode(), Bounds()).rows
    return str(with_ties(span_table(rows))["session"][0])


@dataclass
class Cluster:
    """Servers that know each other, each with its own store."""

    folder: Path
    ports: list[int]
    servers: list[Served]

    def url(self, number: int) -> str:
        """Return the address of a server."""
        return f"http://127.0.0.1:{self.ports[number]}"

    def begin(self, number: int) -> Served:
        """Start one, with what its store holds."""
        options = ["--no-grpc", "--http-port", str(self.ports[number]), "--shard", self.url(number)]
        return Served(self.stores[number], *options, "--config", str(self.folder / "shards.toml"))

    def begin_again(self, number: int) -> None:
        """Start one that was killed, for which spans wait."""
        assert self.sum("looptrace_shards_waiting") > 0
        self.servers[number] = self.begin(number)
        self.quiet()

    @property
    def stores(self) -> list[Path]:
        """The folder of each."""
        return [self.folder / f"store-{number}" for number in range(len(self.ports))]

    def sum(self, name: str) -> float:
        """Return a number of the metrics of all, over all labels."""
        return sum(
            float(line.rpartition(" ")[2])
            for server in self.servers
            if server.process.poll() is None
            for line in metrics(server).splitlines()
            if line.startswith((f"{name} ", f"{name}{{"))
        )

    def quiet(self) -> None:
        """Wait until nothing is on its way and what arrived is judged."""
        until(lambda: self.sum("looptrace_shards_waiting") == 0)
        judged = -1.0
        while judged != (now := self.sum("looptrace_detection_spans_total")):
            judged = now
            time.sleep(QUIET_S)

    def settle(self) -> None:
        """Wait until all that was sent lies where it belongs, and is in the stores."""
        self.quiet()
        for server in self.servers:
            server.stop()
        with ThreadPoolExecutor(SERVERS) as pool:  # What a log holds is stored by the next start.
            self.servers[:] = pool.map(self.begin, range(SERVERS))
        until(lambda: self.sum("looptrace_log_spans") == 0)
        for server in self.servers:
            server.stop()


def metrics(server: Served) -> str:
    """Return the page of metrics."""
    with urlopen(f"http://{server.address}/metrics", timeout=DEADLINE_S) as answer:
        page: str = answer.read().decode()
        return page


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at now."""
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in opened]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Start three servers."""
    made = Cluster(tmp_path, free_ports(SERVERS), [])
    names = [f"looptrace-{number}:4317" for number in range(SERVERS)]
    urls = [made.url(number) for number in range(SERVERS)]
    settings = f"[shards]\nurls = {json.dumps(urls)}\nnames = {json.dumps(names)}\n"
    (tmp_path / "shards.toml").write_text(settings, encoding="utf-8")
    for store in made.stores:
        store.mkdir()
        (store / KEY).write_bytes(bytes(range(32)))
    with ThreadPoolExecutor(SERVERS) as pool:
        made.servers += pool.map(made.begin, range(SERVERS))
    yield made
    for server in made.servers:
        if server.process.poll() is None:
            server.kill()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return what one server makes of the spans."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / KEY).write_bytes(bytes(range(32)))
    server = Served(folder, "--no-grpc")
    made = Cluster(folder, [], [server])
    for batches in rounds(0):
        for batch in batches:
            assert server.send(joined(batch)) == OK
        made.quiet()
    server.stop()
    server = Served(folder, "--no-grpc")
    until(lambda: server.number("looptrace_log_spans") == 0)
    server.stop()
    return outcome([folder])


@dataclass(frozen=True)
class Outcome:
    """What stores hold together: findings, events, gates and spans, each as sorted bytes."""

    findings: list[bytes]
    events: list[bytes]
    gates: list[bytes]
    spans: list[tuple[str, str]]


def outcome(stores: list[Path]) -> Outcome:
    """Read stores; what two of them have is there twice."""
    found = Outcome([], [], [], [])
    for store in stores:
        with ask(store, "SELECT * EXCLUDE (day, bucket) FROM findings", {}) as answer:
            rows = chain.from_iterable(answer.batches)
            found.findings.extend(msgspec.json.encode(row) for row in rows)
        with reader.open_gates(store) as gates:
            found.events.extend(msgspec.json.encode(event) for _, event in gates.events())
            found.gates.extend(msgspec.json.encode(gate) for gate in gates.gates())
        for spans in reader.read_spans(store):
            found.spans.extend(spans.select("trace_id", "span_id").rows())
    for part in (found.findings, found.events, found.gates, found.spans):
        part.sort()
    return found


def by_session(batch: Batch, _: int) -> list[tuple[int, Batch]]:
    """Share a batch as the load-balancing exporter does, by session."""
    ring = Ring([f"looptrace-{number}:4317" for number in range(SERVERS)])
    parts: dict[int, Batch] = {}
    for request in batch:
        parts.setdefault(ring.owner(session_of(request)), []).append(request)
    return list(parts.items())


def by_turns(batch: Batch, number: int) -> list[tuple[int, Batch]]:
    """Send each batch to the next server."""
    return [(number % SERVERS, batch)]


def to_all(batch: Batch, _: int) -> list[tuple[int, Batch]]:
    """Send each batch to every server, as a client does that is not sure of its answer."""
    return [(server, batch) for server in range(SERVERS)]


def people_see_one_server(cluster: Cluster, alone: Outcome) -> None:
    """Check that the commands take the servers as one, also for a gate that is on one of them."""
    where = ",".join(map(cluster.url, range(SERVERS)))
    listed = json.loads(run("gates", "list", where, "--all", "--format", "json"))
    assert sorted(gate["id"] for gate in listed) == [json.loads(g)["id"] for g in alone.gates]
    for gate in (listed[0], listed[-1]):
        assert gate["reason"] in run("gates", "show", where, gate["id"])
    opened = json.loads(run("gates", "metrics", where, "--format", "json"))["gates_opened"]
    assert opened == len(alone.gates)


def run(*command: str) -> str:
    """Run looptrace; returns what it prints."""
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.slow
@pytest.mark.parametrize("route", [by_session, by_turns, to_all])
def test_three_servers_find_what_one_finds(
    route: Callable[[Batch, int], list[tuple[int, Batch]]], cluster: Cluster, alone: Outcome
) -> None:
    """Each event is told once and each gate opened once, wherever the spans came in."""
    for batches in rounds(1):
        for number, batch in enumerate(batches):
            for server, part in route(batch, number):
                assert cluster.servers[server].send(joined(part)) == OK
        cluster.quiet()
    sent = cluster.sum("looptrace_shards_sent_total")
    people_see_one_server(cluster, alone)
    cluster.settle()

    assert len(alone.gates) >= SESSIONS // 2
    assert outcome(cluster.stores) == alone
    assert (sent == 0) == (route is by_session)
    assert all(outcome([store]).gates for store in cluster.stores)  # They share the work.


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_server_killed_in_the_middle_changes_nothing(
    seed: int, cluster: Cluster, alone: Outcome
) -> None:
    """What is for it waits with the others; who is refused sends again to another."""
    chance = random.Random(seed)
    killed = chance.randrange(SERVERS)
    other = (killed + 1) % SERVERS  # One, so that what waits comes in its order.
    down, up = sorted(chance.sample(range(1, len(rounds(seed)) + 1), 2))
    for number, batches in enumerate(rounds(seed)):
        if number == up:
            cluster.begin_again(killed)
        for at, batch in enumerate(batches):
            if number == down and at == len(batches) // 2:
                cluster.servers[killed].kill()
            is_down = down <= number < up
            server = cluster.servers[other if is_down else at % SERVERS]
            assert server.send(joined(batch)) == OK
        if not down <= number < up:
            cluster.quiet()
    if up == len(rounds(seed)):
        cluster.begin_again(killed)
    cluster.settle()

    assert outcome(cluster.stores) == alone
