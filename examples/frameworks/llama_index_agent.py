"""LlamaIndex: the agent's step raises before the model is asked again.

OpenInference's instrumentor writes the spans. Raise in the step, not in a tool: the agent takes
what a tool raises for a failed call and goes on.
"""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.agent.workflow import AgentOutput, FunctionAgent
from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
from llama_index.core.llms import ChatMessage, MockFunctionCallingLLM
from openinference.instrumentation import using_session
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.sdk.trace import TracerProvider

from examples.frameworks.shared import (
    ARGUMENTS,
    ATTEMPTS,
    LAST_WORDS,
    PROMPT,
    TASK,
    exported,
    outcome,
    script,
    show,
)
from looptrace.collector import GateOpenError, LoopSpanProcessor

provider = TracerProvider()
processor = LoopSpanProcessor.local().use(provider)
memory = exported(provider)
LlamaIndexInstrumentor().instrument(tracer_provider=provider)
calls = script()


class Fixer(FunctionAgent):
    """An agent that goes on only where it may."""

    async def take_step(self, *arguments: Any, **named: Any) -> AgentOutput:
        """Raise where a person has to decide first."""
        processor.gate(TASK).raise_if_open()
        return await super().take_step(*arguments, **named)


def scripted(_messages: Any, **_: Any) -> ChatMessage:
    """Stand in for a model: ask for the next call, or give up."""
    call = next(calls, None)
    if call is None:
        return ChatMessage(role="assistant", blocks=[TextBlock(text=LAST_WORDS)])
    asked = ToolCallBlock(tool_call_id=call, tool_name="run_tests", tool_kwargs=ARGUMENTS)
    return ChatMessage(role="assistant", blocks=[asked])


def run_tests(path: str) -> str:
    """Run the tests of a file."""
    del path
    return outcome()


async def work() -> None:
    """Let the agent work on its task."""
    model = MockFunctionCallingLLM(response_generator=scripted, is_chat_model=True)
    agent = Fixer(name="fixer", tools=[run_tests], llm=model, streaming=False)
    await agent.run(PROMPT, max_iterations=2 * ATTEMPTS)


def main() -> None:
    """Let the agent work until it is stopped."""
    try:
        with using_session(TASK):
            asyncio.run(work())
    except GateOpenError as error:
        print(f"stopped: {error}")
    show(__file__, memory)


if __name__ == "__main__":
    main()
