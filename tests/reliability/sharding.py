"""Three servers that share sessions, as processes on loopback, and what their stores hold together.

For tests and for `make scale`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from looptrace.collector.server.shards.ring import Ring
from looptrace.collector.store import reader
from looptrace.collector.store.sql.connection import ask
from tests.ports import free_ports
from tests.reliability.serving import OK, Served, until

SERVERS = 3
KEY = "looptrace-store.key"
# What is zero on all servers where nothing waits to be forwarded, or for the rules.
_UNDER_WAY = ("looptrace_shards_waiting", "looptrace_detection_lag_seconds")

# What is sent at once, and what is sent before the servers are waited for.
Request = dict[str, Any]
Round = Sequence[Request]


def names_of(servers: int) -> list[str]:
    """Return what the load balancer calls so many servers."""
    return [f"looptrace-{number}:4317" for number in range(servers)]


def ring_of(servers: int) -> Ring:
    """Return the ring of so many servers, and of the load balancer."""
    return Ring(names_of(servers), "gen_ai.conversation.id")


@dataclass
class Cluster:
    """Servers that know each other, each with its own store."""

    folder: Path
    ports: list[int]
    servers: list[Served]
    settings: str = ""  # beside those of sharing

    def url(self, number: int) -> str:
        """Return the address of a server."""
        return f"http://127.0.0.1:{self.ports[number]}"

    def begin(self, number: int) -> Served:
        """Start one, with what its store holds."""
        options = ["--no-grpc", "--http-port", str(self.ports[number]), "--shard", self.url(number)]
        return Served(self.stores[number], *options, "--config", str(self.folder / "shards.toml"))

    def resize(self, servers: int) -> None:
        """Change the number of servers, one restart after the other, the new ones first.

        Removed servers run for as long as their sessions.
        """
        former = len(self.ports)
        self.ports += free_ports(max(servers - former, 0))
        self.share(servers, former)
        for number in [*range(former, servers), *range(former)]:
            if number < former:
                self.servers[number].stop()
                self.servers[number] = self.begin(number)
            else:
                self.make_store(number)
                self.servers.append(self.begin(number))

    def share(self, servers: int, former: int = 0) -> None:
        """Write the settings of all, by which the first so many servers share the sessions."""
        text = '[shards]\nattribute = "gen_ai.conversation.id"\n'
        for prefix, count in (("", servers), ("former_", former)):
            urls = [self.url(number) for number in range(count)]
            text += f"{prefix}urls = {json.dumps(urls)}\n"
            text += f"{prefix}names = {json.dumps(names_of(count))}\n"
        text += self.settings
        (self.folder / "shards.toml").write_text(text, encoding="utf-8")

    def make_store(self, number: int) -> None:
        """Make the store of a server, with the key of all."""
        self.stores[number].mkdir()
        (self.stores[number] / KEY).write_bytes(bytes(range(32)))

    def begin_again(self, number: int) -> None:
        """Start one that was killed, for which spans wait."""
        assert self.sum("looptrace_shards_waiting") > 0
        self.servers[number] = self.begin(number)
        self.quiet()

    def restart(self, number: int) -> None:
        """Kill one and start it, with the spans that wait there for others."""
        self.servers[number].kill()
        self.servers[number] = self.begin(number)

    @property
    def stores(self) -> list[Path]:
        """The folder of each."""
        return [self.folder / f"store-{number}" for number in range(len(self.ports))]

    def sum(self, name: str) -> float:
        """Return a number of the metrics of all, over all labels."""
        return self.sums(name)[0]

    def sums(self, *names: str) -> list[float]:
        """Return several at once."""
        servers = (server for server in self.servers if server.process.poll() is None)
        lines = [line for server in servers for line in server.page("/metrics").splitlines()]
        return [
            sum(
                float(line.rpartition(" ")[2])
                for line in lines
                if line.startswith((f"{name} ", f"{name}{{"))
            )
            for name in names
        ]

    def quiet(self) -> None:
        """Wait until no spans are on their way and the rules have run on all."""
        until(self._is_quiet)

    def _is_quiet(self) -> bool:
        """Return whether nothing is under way, and nothing moved while the servers were asked.

        They are asked one after the other, so that a span may go from one that is asked later to
        one that was asked before.
        """
        names = ("looptrace_shards_received_total", *_UNDER_WAY)
        received, *under_way = self.sums(*names)
        return not any(under_way) and [received, *under_way] == self.sums(*names)

    def settle(self) -> None:
        """Wait until all that was sent lies where it belongs, and is in the stores."""
        self.quiet()
        for server in self.servers:
            server.stop()
        with ThreadPoolExecutor(SERVERS) as pool:  # What a log holds is stored by the next start.
            self.servers[:] = pool.map(self.begin, range(len(self.ports)))
        until(lambda: self.sum("looptrace_log_spans") == 0)
        self.quiet()
        for server in self.servers:
            server.stop()


@contextmanager
def clustered(folder: Path, settings: str = "") -> Iterator[Cluster]:
    """Start servers in a folder, and kill those that are left in the end."""
    made = Cluster(folder, free_ports(SERVERS), [], settings)
    made.share(SERVERS)
    for number in range(SERVERS):
        made.make_store(number)
    with ThreadPoolExecutor(SERVERS) as pool:
        starts = [pool.submit(made.begin, number) for number in range(SERVERS)]
    made.servers += [start.result() for start in starts if not start.exception()]
    try:
        for start in starts:
            start.result()  # Raises what kept it from starting.
        yield made
    finally:
        for server in made.servers:
            if server.process.poll() is None:
                server.kill()


class Outage(NamedTuple):
    """A server that is killed in the middle of one round and started before a later one."""

    killed: int
    down: int
    up: int

    @classmethod
    def drawn(cls, chance: random.Random, within: range) -> Outage:
        """Draw one, of two rounds or more."""
        down = chance.choice(within[:-2])
        return cls(chance.randrange(SERVERS), down, chance.choice(within[within.index(down) + 2 :]))

    @property
    def other(self) -> int:
        """The server that all spans are sent to meanwhile, so that what waits keeps its order."""
        return (self.killed + 1) % SERVERS


def send(cluster: Cluster, rounds: Sequence[Round], outages: Sequence[Outage] = ()) -> None:
    """Send rounds by turns, with outages that do not overlap; the other server is killed, too."""
    for number, requests in enumerate(rounds):
        for each in outages:
            if each.up == number:
                cluster.begin_again(each.killed)
                cluster.quiet()  # What waited for it comes before what is sent now.
        out = next((each for each in outages if each.down <= number < each.up), None)
        for at, request in enumerate(requests):
            if out and number == out.down and at == len(requests) // 2:
                cluster.quiet()  # Else what it has not forwarded would come out of order.
                cluster.servers[out.killed].kill()
            if out and number == out.down + 1 and at == len(requests) // 2:
                cluster.restart(out.other)
            is_down = out and (number > out.down or at >= len(requests) // 2)
            server = out.other if out and is_down else at % SERVERS
            assert cluster.servers[server].send(request) == OK
        if not out:
            cluster.quiet()


def outcome_of_one(folder: Path, rounds: Sequence[Round]) -> Outcome:
    """Return what one server makes of the same."""
    (folder / KEY).write_bytes(bytes(range(32)))
    server = Served(folder, "--no-grpc")
    made = Cluster(folder, [], [server])
    for requests in rounds:
        for request in requests:
            assert server.send(request) == OK
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
