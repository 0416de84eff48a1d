"""Pydantic AI: directives become instructions, and the tool raises where a gate is open.

Pydantic AI writes its own spans. Instructions that are a function are asked for before every
request to the model, so that a directive reaches the agent with its next one.
"""

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings

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
from looptrace.collector import GateOpenError, LoopSpanProcessor

provider = TracerProvider()
processor = LoopSpanProcessor.local().use(provider)
memory = exported(provider)
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))

gate = processor.gate(TASK)
calls = script()


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Replace the model, and print the instructions that it gets."""
    del messages
    if info.instructions:
        print(f"instructions: {info.instructions}")
    if call := next(calls, None):
        return ModelResponse(parts=[ToolCallPart("run_tests", ARGUMENTS, call)])
    return ModelResponse(parts=[TextPart(LAST_WORDS)])


agent = Agent(FunctionModel(scripted), name="fixer")


@agent.instructions
def directive() -> str | None:
    """Hand the agent what looptrace tells it."""
    return gate.check().directive


@agent.tool_plain
def run_tests(path: str) -> str:
    """Run the tests of a file."""
    del path
    gate.raise_if_open()
    return outcome()


def main() -> None:
    """Let the agent work on its task until it is stopped."""
    try:
        agent.run_sync(PROMPT, conversation_id=TASK)
    except GateOpenError as error:
        print(f"stopped: {error}")
    show(__file__, memory)


if __name__ == "__main__":
    main()
