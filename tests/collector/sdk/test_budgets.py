"""Budgets of several tasks in the agent's own process."""

from opentelemetry.sdk.trace import TracerProvider

from looptrace.collector import LoopSpanProcessor
from tests.reliability.serving import until

LIMIT = 5_000


def test_a_decision_in_the_process_adds_the_limit_once_more() -> None:
    """What was overspent is not taken from it."""
    provider = TracerProvider()
    processor = LoopSpanProcessor.local({"budgets": {"session_tokens": LIMIT}})
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("tests")

    def respond(task: str) -> None:
        attributes: dict[str, str | int] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.conversation.id": "s1",
            "looptrace.task.id": task,
            "gen_ai.usage.input_tokens": 1_000,
        }
        with tracer.start_as_current_span("chat gpt-4o", attributes=attributes):
            pass

    for number in range(6):
        respond("ab"[number % 2])
    until(lambda: processor.gate("a").check().open and processor.gate("b").check().open)
    assert processor.gate("b").check().signature == "tokens of session s1"

    processor.gate("a").resolve("continue")
    until(lambda: not processor.gate("a").check().open)
    for _ in range(3):
        respond("a")

    until(lambda: processor.gate("a").check().action)
    state = processor.gate("a").check()
    assert (state.open, state.action) == (False, "warn")
    assert f"9,000 of {6_000 + LIMIT:,} tokens are spent (81 %)" in state.reason
    provider.shutdown()
