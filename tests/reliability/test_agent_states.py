"""P29: what a server says of the agent of a gate: it waits, went on, ended, or is not known.

The server, its streams, the span processor and the receiver of webhooks are real.
"""

import socket
import threading
import time
from typing import Any

from opentelemetry import trace

from looptrace.collector.sdk.agent_gate import AgentGate
from tests.commands import run
from tests.reliability.serving import Served, served, until
from tests.reliability.watching import CALL, ROOT, Watch, Watched

HOST = socket.gethostname()


def state_of(at: Watched) -> dict[str, Any]:
    """Return the state of the agent of the only gate."""
    return dict(at.gate()["agent_state"])


def until_state(at: Watched, state: str) -> dict[str, Any]:
    """Wait until the agent of the only gate is in a state."""
    return dict(until(lambda: (now := state_of(at))["state"] == state and now))


def waits_at(gate: AgentGate) -> threading.Thread:
    """Let an agent wait at a gate once it is open; returns its thread."""
    until(lambda: gate.check().open)
    waiter = threading.Thread(target=gate.wait, args=(60.0,))
    waiter.start()
    return waiter


def resolve(server: Served, gate_id: str, waiter: threading.Thread) -> None:
    """Decide on a gate, which ends the wait of its agent."""
    server.resolve(gate_id, "reviewed")
    waiter.join(60.0)
    assert not waiter.is_alive()


def test_an_agent_that_waits_is_shown_everywhere(watch: Watch) -> None:
    """With its host and since when; the wait ends with the decision."""
    at = watch("standard")
    agent, processor = at.in_process()
    began_ns = time.time_ns()
    agent.loop()
    gate = processor.gate("conv")
    until(lambda: gate.check().open)
    assert state_of(at)["state"] == "unknown"
    waiter = waits_at(gate)

    state = until_state(at, "waits")
    assert state["host"] == HOST
    assert began_ns < state["since_ns"] <= time.time_ns()
    said = f"on {HOST}"
    assert said in at.server.page("/")
    assert said in at.server.page(f"/gates/{at.gate()['id']}")
    for command in (["list"], ["show"]):
        ids = [at.gate()["id"]] if command == ["show"] else []
        where = ["--server", f"http://{at.server.address}"]
        shown = run("gates", *command, *where, *ids)
        assert said in shown.output

    resolve(at.server, at.gate()["id"], waiter)
    until(lambda: at.gate()["agent_state"] is None)
    processor.shutdown()


def test_a_wait_is_said_again_after_a_restart(watch: Watch) -> None:
    """The server keeps it in memory alone, and knows since when."""
    at = watch("standard")
    agent, processor = at.in_process()
    agent.loop()
    waiter = waits_at(processor.gate("conv"))
    before = until_state(at, "waits")
    at.server.stop()
    port = at.server.address.rpartition(":")[2]
    with served(at.server.store_dir, "--http-port", port) as server:
        again = until_state(Watched(server, at.receiver, at.tracer), "waits")
        assert abs(again["since_ns"] - before["since_ns"]) < 5_000_000_000
        (gate_id,) = (each["id"] for each in server.gates())
        resolve(server, gate_id, waiter)
        processor.shutdown()


def test_an_agent_that_never_asks_goes_on_and_ends(watch: Watch) -> None:
    """Without the span processor its calls and its root span say so; alerts have it as well."""
    at = watch("standard", "slack")
    root = at.loop(calls=3)
    at.told(2)
    (alert,) = [each for each in at.told() if "data" in each]
    assert alert["data"]["agent_state"]["state"] == "unknown"
    assert any("not known whether an agent waits" in str(each) for each in at.told())
    assert state_of(at)["state"] == "unknown"
    for _ in range(2):
        above = trace.set_span_in_context(root)
        at.tracer.start_span("execute_tool", above, attributes=CALL).end()
    until_state(at, "went_on")
    until(lambda: state_of(at)["calls"] == 2)
    assert "went on without asking: 2 calls since" in at.server.page("/")
    root.end()
    assert until_state(at, "ended")["calls"] == 2


def test_a_process_that_ends_says_so(watch: Watch) -> None:
    """Its root span is still open, so that nothing else would."""
    at = watch("standard")
    agent, processor = at.in_process()
    agent.loop()
    until(lambda: processor.gate("conv").check().open)
    assert state_of(at)["state"] == "unknown"
    processor.shutdown()
    until_state(at, "ended")
    gate = at.gate()
    where = ("/", f"/gates/{gate['id']}", f"/task?id={gate['task']}", "/tasks?state=left")
    for path in where:
        page = at.server.page(path)
        assert "ended at" in page, path
        assert "waits for a person</span>" not in page


def test_gates_for_which_an_agent_waits_come_first(watch: Watch) -> None:
    """They are older than the others, which nobody waits for."""
    at = watch("standard")
    first, processor = at.in_process()
    first.loop({**ROOT, "gen_ai.conversation.id": "waiting"}, every_s=2)
    waiter = waits_at(processor.gate("waiting"))
    until_state(at, "waits")
    first.loop({**ROOT, "gen_ai.conversation.id": "alone"})
    until(lambda: len(at.server.gates()) == 2)
    page = until(lambda: "alone@shop" in (text := at.server.page("/")) and text)
    assert page.index("waiting@shop") < page.index("alone@shop")
    gates = at.server.gates()
    waiting = next(each["id"] for each in gates if each["task"] == "waiting@shop")
    resolve(at.server, waiting, waiter)
    processor.shutdown()
