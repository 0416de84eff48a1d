"""P3: the names of a gate that only the root span of a trace has, from exporter to page.

Everything is real and on loopback: the server, the official exporter, and the receiver.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from looptrace.collector import LoopSpanProcessor
from tests.otlp import NANOSECONDS
from tests.reliability.serving import OK, Served, served, until
from tests.reliability.test_webhook_network import Server as Receiver
from tests.reliability.test_webhook_network import serving

ROOT = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": "fixer",
    "gen_ai.conversation.id": "conv",
}
CALL = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "run_tests",
    "gen_ai.tool.call.arguments": '{"path": "tests/test_cart.py"}',
    "gen_ai.tool.call.result": "Error: 1 failed",
    "error.type": "TestError",
}
NAMED = "conv@shop"
HOOK = """
[[webhooks]]
name = "{form}"
url = "{url}"
format = "{form}"
secrets = ["env:SECRET"]
allow_private = ["127.0.0.1"]
{more}
"""


@dataclass(frozen=True)
class Watched:
    """A server, the receiver of its webhooks, and a tracer whose spans it gets."""

    server: Served
    receiver: Receiver
    tracer: trace.Tracer

    def loop(self, attributes: dict[str, str] = ROOT, calls: int = 4, every_s: int = 1) -> Span:
        """Let an agent make a failing call again and again, and return its span, not yet ended.

        The calls have happened, `every_s` one after the other.
        """
        began_ns = time.time_ns() - (calls + 1) * every_s * NANOSECONDS
        root = self.tracer.start_span("invoke_agent", attributes=attributes, start_time=began_ns)
        above = trace.set_span_in_context(root)
        for call in range(calls):
            at_ns = began_ns + call * every_s * NANOSECONDS
            span = self.tracer.start_span("execute_tool", above, attributes=CALL, start_time=at_ns)
            span.set_status(trace.StatusCode.ERROR)
            span.end(at_ns + NANOSECONDS // 2)
        assert isinstance(root, Span)
        return root

    def told(self) -> list[dict[str, Any]]:
        """Return what the receiver got so far."""
        return [json.loads(body) for body, _ in self.receiver.requests]

    def gate(self) -> dict[str, Any]:
        """Return the only gate, once there is one."""
        (gate,) = until(lambda: self.server.ask("GET", "/v1/gates")[1]["gates"])
        return dict(gate)

    def page(self, path: str) -> tuple[int, str, str]:
        """Return status, text and place of a page."""
        connection = http.client.HTTPConnection(self.server.address)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers.get("location", "")
        finally:
            connection.close()


@contextmanager
def watched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *forms: str, more: str = ""
) -> Iterator[Watched]:
    """Serve with webhooks of these formats, all to one receiver."""
    monkeypatch.setenv("SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    config = folder / "looptrace.toml"
    with serving() as receiver:
        hooks = [HOOK.format(form=form, url=receiver.url, more=more) for form in forms]
        config.write_text(f"[server]\nstore_every_s = 1\n{''.join(hooks)}")
        with served(folder / "store", "--config", str(config)) as server:
            exporter = OTLPSpanExporter(f"http://{server.address}/v1/traces")
            yield Watched(server, receiver, tracer_with(SimpleSpanProcessor(exporter)))


def tracer_with(processor: SpanProcessor) -> trace.Tracer:
    """Return a tracer of the service `shop`."""
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_span_processor(processor)
    return provider.get_tracer("tests")


@pytest.mark.parametrize("every_s", [1, 100])  # A longer run has turns that are settled.
def test_a_root_span_that_ends_late_names_the_gate_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_s: int
) -> None:
    """A message has the new name and the old one, of the same gate; the old one leads on."""
    with watched(tmp_path, monkeypatch, "standard") as at:
        root = at.loop(every_s=every_s)
        (opened,) = until(at.told)
        trace_id = trace.format_trace_id(root.context.trace_id)
        assert (opened["data"]["task"], opened["data"]["agent"]) == (trace_id, "")
        until(lambda: at.server.ask("GET", f"/v1/tasks/{trace_id}")[1].get("turns"))
        root.end()
        _, renamed = until(lambda: len(told := at.told()) == 2 and told)
        data = renamed["data"]
        assert renamed["type"] == "looptrace.gate.renamed"
        assert data["gate"] == opened["data"]["gate"] == at.gate()["id"]
        assert (data["task"], data["agent"]) == (NAMED, "fixer")
        assert (data["task_before"], data["agent_before"]) == (trace_id, "")

        until(lambda: at.server.ask("GET", f"/v1/tasks/{trace_id}")[1]["task"] == NAMED)
        assert at.server.ask("GET", f"/v1/gates?task={trace_id}")[1]["gates"] == [at.gate()]
        status, _, to = until(lambda: (page := at.page(f"/task?id={trace_id}"))[2] and page)
        assert (status, to) == (303, "/task?id=conv%40shop")
        status, text, _ = at.page(f"/gates/{data['gate']}")
        assert status == OK
        assert NAMED in text
        assert "deleted" not in text


def test_a_root_span_that_never_ends_leaves_one_name_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pager and the page say the same, and the link leads to it."""
    with watched(tmp_path, monkeypatch, "standard") as at:
        root = at.loop()
        (opened,) = until(at.told)
        data, trace_id = opened["data"], trace.format_trace_id(root.context.trace_id)
        assert data["task"] == at.gate()["task"] == trace_id
        until(lambda: "4 turns" in at.page(f"/task?id={trace_id}")[1])
        status, text, _ = at.page(f"/gates/{data['gate']}")
        assert status == OK
        assert trace_id in text
        assert "deleted" not in text


def test_an_agent_whose_turns_are_long_settled_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a session the task keeps its name, and the message says the agent."""
    with watched(tmp_path, monkeypatch, "standard") as at:
        root = at.loop({**ROOT, "gen_ai.conversation.id": ""}, every_s=100)
        (opened,) = until(at.told)
        until(lambda: at.page(f"/task?id={opened['data']['task']}")[0] == OK)
        root.end()
        _, renamed = until(lambda: len(told := at.told()) == 2 and told)
        assert renamed["type"] == "looptrace.gate.renamed"
        assert renamed["data"]["task"] == renamed["data"]["task_before"] == opened["data"]["task"]
        assert renamed["data"]["agent"] == at.gate()["agent"] == "fixer"


def test_a_receiver_of_states_keeps_one_state_a_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name changes nothing by which PagerDuty and Alertmanager know a gate."""
    with watched(tmp_path, monkeypatch, "pagerduty", "alertmanager") as at:
        root = at.loop()
        until(lambda: len(at.told()) == 2)
        root.end()
        until(lambda: len(at.told()) == 4)
        path = f"/v1/gates/{at.gate()['id']}/resolve"
        assert at.server.ask("POST", path, b'{"decision": "continue"}')[0] == OK
        until(lambda: len(at.told()) == 6)
        pages = [each for each in at.told() if "dedup_key" in each]
        alerts = [alert for each in at.told() for alert in each.get("alerts", ())]
    assert [each["event_action"] for each in pages] == ["trigger", "trigger", "resolve"]
    assert len({each["dedup_key"] for each in pages}) == 1
    assert f"task {NAMED}" in pages[1]["payload"]["summary"]
    assert [alert["status"] for alert in alerts] == ["firing", "firing", "resolved"]
    assert len({json.dumps([alert["labels"], alert["fingerprint"]]) for alert in alerts}) == 1
    assert [alert["annotations"]["task"] for alert in alerts][1:] == [NAMED, NAMED]


def test_the_end_of_a_gate_reaches_the_receivers_of_its_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate without an agent goes to the receivers of all agents, also after it is named."""
    with watched(tmp_path, monkeypatch, "pagerduty", more='agents = ["another"]') as at:
        root = at.loop()
        until(at.told)
        root.end()
        until(lambda: at.gate()["agent"] == "fixer")
        path = f"/v1/gates/{at.gate()['id']}/resolve"
        assert at.server.ask("POST", path, b'{"decision": "continue"}')[0] == OK
        until(lambda: at.told()[-1]["event_action"] == "resolve")


def test_a_name_that_comes_after_the_decision_opens_no_incident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's span ends after the decision; a receiver of states has closed its incident."""
    with watched(tmp_path, monkeypatch, "pagerduty", "slack") as at:
        root = at.loop()
        until(lambda: len(at.told()) == 2)
        path = f"/v1/gates/{at.gate()['id']}/resolve"
        assert at.server.ask("POST", path, b'{"decision": "continue"}')[0] == OK
        until(lambda: at.gate()["status"] == "resolved")
        root.end()
        until(lambda: any("Gate renamed" in str(each) for each in at.told()))
        pages = [each["event_action"] for each in at.told() if "dedup_key" in each]
    assert pages == ["trigger", "resolve"]


@pytest.mark.requirement("F1")
def test_the_span_processor_says_the_names_of_a_root_span_that_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first message has the task and the agent, also if the root span never ends."""
    with watched(tmp_path, monkeypatch, "standard") as at:
        processor = LoopSpanProcessor.forward(f"http://{at.server.address}")
        Watched(at.server, at.receiver, tracer_with(processor)).loop()
        (opened,) = until(at.told)
        assert (opened["data"]["task"], opened["data"]["agent"]) == (NAMED, "fixer")
        assert at.gate()["task"] == NAMED
        processor.shutdown()
