"""smolagents: whoever takes the agent's steps interrupts it.

OpenInference's instrumentor writes the spans. Let the agent stream its steps: where a run that does
not stream ends with an error, the instrumentor never ends its span.
"""

from __future__ import annotations

from typing import Any

from openinference.instrumentation import using_session
from openinference.instrumentation.smolagents import SmolagentsInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from smolagents import AgentError, LogLevel, Model, ToolCallingAgent, tool
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
)

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
from looptrace.collector import LoopSpanProcessor

provider = TracerProvider()
processor = LoopSpanProcessor.local().use(provider)
memory = exported(provider)
SmolagentsInstrumentor().instrument(tracer_provider=provider)
gate = processor.gate(TASK)


class Scripted(Model):
    """Stands in for a model."""

    def __init__(self) -> None:
        super().__init__(model_id="scripted")
        self.calls = script()

    def generate(self, *_: Any, **__: Any) -> ChatMessage:
        """Ask for the next call, or give up."""
        call = next(self.calls, None)
        name, arguments = ("run_tests", ARGUMENTS) if call else ("final_answer", LAST_WORDS)
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        asked = ChatMessageToolCall(id=call or "last", type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[asked])


@tool
def run_tests(path: str) -> str:
    """Run the tests of a file.

    Args:
        path: the file
    """
    del path
    return outcome()


def main() -> None:
    """Let the agent work on its task until it is stopped."""
    agent = ToolCallingAgent(
        [run_tests], Scripted(), name="fixer", max_steps=2 * ATTEMPTS, verbosity_level=LogLevel.OFF
    )
    try:
        with using_session(TASK):
            for _step in agent.run(PROMPT, stream=True):
                if gate.check().open:
                    agent.interrupt()
    except AgentError:  # It says no more than that the agent was interrupted.
        print(f"stopped: {gate.check().directive}")
    show(__file__, memory)


if __name__ == "__main__":
    main()
