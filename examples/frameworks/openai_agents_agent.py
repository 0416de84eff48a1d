"""OpenAI Agents SDK: a hook raises before the model is asked again.

OpenInference's instrumentor writes the spans, in place of those that the SDK would send to OpenAI.
Raise in a hook, not in a tool: the SDK catches what a tool raises and goes on.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, RunHooks, Runner, Usage, function_tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from openinference.instrumentation import using_session
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
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
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)


class StopAtGate(RunHooks[Any]):
    """Lets the agent go on only where it may."""

    async def on_llm_start(self, *_: Any) -> None:
        """Raise where a person has to decide first."""
        processor.gate(TASK).raise_if_open()


class Scripted(Model):
    """Stands in for a model."""

    def __init__(self) -> None:
        self.calls = script()

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        """Ask for the next call, or give up."""
        call = next(self.calls, None)
        return ModelResponse(
            output=[_call(call) if call else _words()], usage=Usage(), response_id=""
        )

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Stream nothing."""
        raise NotImplementedError


def _call(call_id: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        type="function_call", name="run_tests", arguments=json.dumps(ARGUMENTS), call_id=call_id
    )


def _words() -> ResponseOutputMessage:
    text = ResponseOutputText(type="output_text", text=LAST_WORDS, annotations=[])
    return ResponseOutputMessage(
        type="message", id="last", role="assistant", status="completed", content=[text]
    )


@function_tool
def run_tests(path: str) -> str:
    """Run the tests of a file."""
    del path
    return outcome()


def main() -> None:
    """Let the agent work on its task until it is stopped."""
    agent = Agent("fixer", model=Scripted(), tools=[run_tests])
    try:
        with using_session(TASK):
            Runner.run_sync(agent, PROMPT, hooks=StopAtGate(), max_turns=2 * ATTEMPTS)
    except GateOpenError as error:
        print(f"stopped: {error}")
    show(__file__, memory)


if __name__ == "__main__":
    main()
