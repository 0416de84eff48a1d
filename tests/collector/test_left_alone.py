"""Nobody is told of a loop in a task that is left alone."""

import sqlite3
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector import LoopSpanProcessor
from looptrace.collector.otlp.sdk_spans import sdk_spans
from looptrace.collector.sdk.agent_gate import GateState
from looptrace.collector.store import writer
from looptrace.collector.store.layout import GATES_FILE
from tests.otlp import tool_call

SHADOW = 0.5
NAMES = [f"talk {number}" for number in range(8)]
ALONE = {name for name in NAMES if Recovery(shadow=SHADOW).leaves_alone(name)}


def run(provider: TracerProvider) -> None:
    """Let each conversation make one call three times, with the same result."""
    tracer = provider.get_tracer("tests")
    for name in NAMES:
        about = {"gen_ai.conversation.id": name, "gen_ai.operation.name": "invoke_agent"}
        with tracer.start_as_current_span("agent", attributes=about):
            for _ in range(3):
                call = tool_call("run", "{}", result="same")
                tracer.start_span("execute_tool run", attributes=call).end()


def test_the_agent_is_told_of_the_others_alone() -> None:
    """A directive would be an intervention."""
    assert 0 < len(ALONE) < len(NAMES)
    told: list[GateState] = []
    provider = TracerProvider()
    processor = LoopSpanProcessor.local({"recovery": {"shadow": SHADOW}}).use(provider)
    processor.on_gate(told.append)
    run(provider)
    processor.force_flush()
    processor.shutdown()

    assert {state.task for state in told} == set(NAMES) - ALONE


def test_webhooks_hear_of_the_others_alone(tmp_path: Path) -> None:
    """A person who hears of a loop steps in."""
    provider, memory = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    run(provider)
    webhook = Webhook("ops", "https://a.example/", "standard", ("env:KEY",))
    policy = DetectionPolicy(recovery=Recovery(shadow=SHADOW))
    writer.ingest(sdk_spans(memory.get_finished_spans()), tmp_path, policy, [webhook])

    with sqlite3.connect(tmp_path / GATES_FILE) as gates:
        events = dict(gates.execute("SELECT task, count(*) FROM events GROUP BY task"))
        joined = "SELECT task FROM events JOIN outbox ON outbox.event = events.id"
        sent = {task for (task,) in gates.execute(joined)}
    assert set(events) == set(NAMES)
    assert sent == set(NAMES) - ALONE
