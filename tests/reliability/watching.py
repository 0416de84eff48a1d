"""A server with a receiver of its webhooks and an agent, all real and on loopback."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from looptrace.collector import LoopSpanProcessor
from tests.otlp import NANOSECONDS, tool_call
from tests.reliability.serving import Served, served, until
from tests.reliability.test_webhook_network import Server as Receiver
from tests.reliability.test_webhook_network import serving

ROOT = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": "fixer",
    "gen_ai.conversation.id": "conv",
}
CALL = tool_call(
    "run_tests", '{"path": "tests/test_cart.py"}', result="Error: 1 failed", error="TestError"
)
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

    def in_process(self) -> tuple[Watched, LoopSpanProcessor]:
        """Return the same with an agent whose span processor forwards, and this processor."""
        processor = LoopSpanProcessor.forward(f"http://{self.server.address}")
        return replace(self, tracer=tracer_with(processor)), processor

    def told(self, count: int = 0) -> list[dict[str, Any]]:
        """Return what the receiver got, once it is so much."""
        until(lambda: len(self.receiver.requests) >= count)
        return [json.loads(body) for body, _ in self.receiver.requests]

    def resolve(self, decision: str = "continue") -> None:
        """Decide on the only gate."""
        self.server.resolve(self.gate()["id"], decision)

    def gate(self) -> dict[str, Any]:
        """Return the only gate, once there is one."""
        (gate,) = until(self.server.gates)
        return dict(gate)


Watch = Callable[..., Watched]  # `watched` in the folder of a test


@contextmanager
def watched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *forms: str, more: str = ""
) -> Iterator[Watched]:
    """Serve with webhooks of these formats, all to one receiver."""
    monkeypatch.setenv("SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    with serving() as receiver:
        hooks = [HOOK.format(form=form, url=receiver.url, more=more) for form in forms]
        config = f"[server]\nstore_every_s = 1\n{''.join(hooks)}"
        with served(folder / "store", config=config) as server:
            exporter = OTLPSpanExporter(f"http://{server.address}/v1/traces")
            yield Watched(server, receiver, tracer_with(SimpleSpanProcessor(exporter)))


def tracer_with(processor: SpanProcessor) -> trace.Tracer:
    """Return a tracer of the service `shop`."""
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_span_processor(processor)
    return provider.get_tracer("tests")
