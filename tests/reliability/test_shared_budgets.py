"""P31: three servers keep one budget together, over restarts and a person's decision."""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

from looptrace.collector.store import reader
from tests.commands import run
from tests.otlp import Trace
from tests.reliability.serving import OK, until
from tests.reliability.sharding import SERVERS, Cluster, clustered, ring_of

SETTINGS = "[budgets]\nsession_tokens = 10_000\n"
RESPONSE: dict[str, str | int] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "gen_ai.usage.input_tokens": 1_000,
    "looptrace.payer": "trip",
}


class Spenders:
    """An agent at each server, which spends 1,000 tokens of one session with each response."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        names = [f"s{number}" for number in range(100)]
        ring = ring_of(SERVERS)
        self.sessions = [
            next(name for name in names if ring.owner(name) == number) for number in range(SERVERS)
        ]
        self.spent = [0] * SERVERS
        self.sent: list[dict[str, Any]] = []
        self.last_s = int(time.time()) - 100  # No test has to wait for seconds of before.

    def respond(self, number: int, responses: int = 1) -> None:
        """Let one respond, each time in another second; the other servers hear of it."""
        for _ in range(responses):
            self.last_s += 1
            until(lambda: time.time() > self.last_s)
            at = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(self.last_s))
            name = f"response-{sum(self.spent)}"
            trace = Trace(self.sessions[number], name=name, service="api", at=at)
            trace.span("chat m", attributes=RESPONSE, seconds=0.01)
            self.spent[number] += 1
            self.sent.append(trace.request())
            until(lambda: self.send(number, self.sent[-1]) == OK)
        self.known()

    def send(self, number: int, request: dict[str, Any]) -> int:
        """Send a request to a server that runs, which forwards it where it belongs."""
        return self.cluster.servers[number].send(request)

    def known(self) -> None:
        """Wait until each server that runs knows what the others spent, each response once."""
        for number, server in enumerate(self.cluster.servers):
            if server.process.poll() is None:
                until(partial(self.knows, number))

    def knows(self, number: int) -> bool:
        """Return whether a server knows what the others spent."""
        return self.heard(number) == self.others_of(number)

    def others_of(self, number: int) -> dict[str, int]:
        """Return the tokens that the others spent, by their addresses."""
        return {
            self.cluster.url(other): spent * 1_000
            for other, spent in enumerate(self.spent)
            if other != number and spent
        }

    def heard(self, number: int) -> dict[str, int]:
        """Return the tokens that a server knows the others to have spent, by their addresses."""
        found: dict[str, int] = {}
        with reader.open_gates(self.cluster.stores[number]) as gates:
            for _, server, share in gates.spent_elsewhere():
                if share.tokens:
                    found[server] = found.get(server, 0) + share.tokens
        return found

    def gates(self, number: int, status: str = "open") -> list[dict[str, Any]]:
        """Return the gates of a server."""
        path = f"/v1/gates?status={status}"
        gates: list[dict[str, Any]] = self.cluster.servers[number].ask("GET", path)[1]["gates"]
        return gates

    def gated(self, number: int) -> str:
        """Return what the gate of the agent at a server says, once it is there."""
        (gate,) = until(lambda: self.gates(number))
        assert gate["task"] == f"{self.sessions[number]}@api"
        return str(gate["reason"]).partition(": ")[2]


def first_gates(report: str) -> dict[str, str]:
    """Return of each task how much was spent at the first gate of a report."""
    opened = [each for each in json.loads(report)["events"] if each["type"] == "gate_opened"]
    return {each["task"]: each["reason"] for each in reversed(opened)}


def test_three_servers_keep_one_budget(tmp_path: Path) -> None:
    """What one heard counts while the other is down, once after it is back, and so does more."""
    with clustered(tmp_path, SETTINGS) as cluster:
        agents = Spenders(cluster)
        agents.respond(0, 6)
        agents.respond(1, 3)
        assert [agents.gates(number) for number in range(SERVERS)] == [[], [], []]
        agents.respond(2)
        assert agents.gated(2).startswith("10,000 of 10,000 tokens are spent (100 %)")

        cluster.servers[1].kill()
        agents.respond(0)
        assert agents.gated(0).startswith("11,000 of 10,000 tokens are spent (110 %)")
        status, ready = cluster.servers[0].ask("GET", "/readyz")
        assert (status, set(ready["spending_age_s"])) == (OK, set(map(cluster.url, (1, 2))))
        cluster.servers[1] = cluster.begin(1)
        until(lambda: cluster.servers[1].ask("GET", "/readyz")[0] == OK)
        agents.known()
        agents.respond(1)
        assert agents.gated(1).startswith("12,000 of 10,000 tokens are spent (120 %)")

        # What others spent counts at the end of its second, and the addition from what was spent.
        until(lambda: int(time.time()) > agents.last_s)
        (gate,) = agents.gates(1)
        cluster.servers[1].resolve(gate["id"], "continue", add=5_000)
        for number in range(SERVERS):
            until(partial(agents.gates, number, "resolved"))
            assert agents.gates(number) == []
        agents.last_s = int(time.time())  # What ended before the decision is not after it.
        agents.respond(0, 4)
        assert agents.gates(0) == []
        agents.respond(2)
        assert agents.gated(2).startswith("17,000 of 17,000 tokens are spent (100 %)")

        cluster.restart(0)
        until(lambda: cluster.servers[0].ask("GET", "/readyz")[0] == OK)
        agents.respond(0)
        assert agents.gated(0).startswith("18,000 of 17,000 tokens are spent (105 %)")
        cluster.settle()
    (tmp_path / "every.jsonl").write_text("".join(json.dumps(each) + "\n" for each in agents.sent))
    options = ("--config", str(tmp_path / "shards.toml"), "--format", "json")
    of_all, *of_each = (
        first_gates(run("analyze", source, *options).stdout)
        for source in (tmp_path / "every.jsonl", *cluster.stores)
    )
    assert len(of_all) == SERVERS
    assert of_all == {task: spent for found in of_each for task, spent in found.items()}
