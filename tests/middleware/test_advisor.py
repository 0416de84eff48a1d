"""What every middleware says: each directive once, and nothing at an open gate."""

from collections.abc import Callable

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

from looptrace.collector import GateOpenError, LoopSpanProcessor
from looptrace.middleware.advisor import Advisor
from tests.otlp import tool_call

TASK = "ticket-42"


@pytest.fixture
def processor() -> LoopSpanProcessor:
    """Return a processor, whose provider is at `call_of`."""
    return LoopSpanProcessor.local()


def call_of(processor: LoopSpanProcessor) -> Callable[[], None]:
    """Return a function that makes one call, always the same, and waits until it was seen."""
    provider = TracerProvider()
    processor.use(provider)
    tracer: Tracer = provider.get_tracer("tests")

    def call() -> None:
        attributes = tool_call("run", "{}", result="same") | {"gen_ai.conversation.id": TASK}
        tracer.start_span("execute_tool run", attributes=attributes).end()
        assert processor.force_flush()

    return call


def test_a_directive_is_said_once_and_a_gate_ends_the_run(processor: LoopSpanProcessor) -> None:
    """A model that reads the same order before each request takes it for noise."""
    call, advisor = call_of(processor), Advisor(processor, TASK)
    call()
    call()
    assert advisor.before_request() is None
    call()
    assert "did the same thing 3 times" in str(advisor.before_request())
    assert advisor.before_request() is None
    call()
    with pytest.raises(GateOpenError, match="stops here"):
        advisor.before_request()


def test_tasks_are_told_apart(processor: LoopSpanProcessor) -> None:
    """One middleware serves every run of a process."""
    call, advisor = call_of(processor), Advisor(processor)
    for _ in range(3):
        call()

    assert advisor.before_request("another") is None
    assert advisor.before_request(TASK) is not None
