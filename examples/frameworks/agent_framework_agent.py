"""Microsoft's Agent Framework: a middleware answers in place of the model, which ends the run.

The framework writes its own spans, to the global tracer provider: what tools were given and have
answered only where that is asked for, and no name of a session that the agent keeps itself, so that
a span around the run has it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatContext,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    chat_middleware,
)
from agent_framework.observability import ChatTelemetryLayer, enable_instrumentation
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from examples.frameworks.shared import (
    ARGUMENTS,
    LAST_WORDS,
    PROMPT,
    TASK,
    exported,
    outcome,
    script,
    show,
)
from looptrace.collector import LoopSpanProcessor, agent

provider = TracerProvider()
processor = LoopSpanProcessor.local().use(provider)
memory = exported(provider)
trace.set_tracer_provider(provider)
enable_instrumentation(enable_sensitive_data=True)

gate = processor.gate(TASK)


@chat_middleware
async def stop_at_gate(context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
    """Ask the model only where no person has to decide first."""
    now = gate.check()
    if now.open:
        last = Message("assistant", [now.directive or now.reason])
        context.result = ChatResponse(messages=[last])
        return
    if now.directive:
        context.messages = [*context.messages, Message("system", [now.directive])]
    await call_next()


class Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, ChatTelemetryLayer, BaseChatClient):
    """Stands in for a model."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = script()

    async def _inner_get_response(self, **_: Any) -> ChatResponse:
        call = next(self.calls, None)
        if call is None:
            return ChatResponse(messages=[Message("assistant", [LAST_WORDS])])
        asked = Content.from_function_call(call, "run_tests", arguments=json.dumps(ARGUMENTS))
        return ChatResponse(messages=[Message("assistant", [asked])])


def run_tests(path: str) -> str:
    """Run the tests of a file."""
    del path
    return outcome()


def main() -> None:
    """Let the agent work on its task until it is stopped."""
    fixer = Agent(Scripted(), name="fixer", tools=[run_tests], middleware=[stop_at_gate])
    with agent("fixer", session=TASK):
        print(f"stopped: {asyncio.run(fixer.run(PROMPT))}")
    show(__file__, memory)


if __name__ == "__main__":
    main()
