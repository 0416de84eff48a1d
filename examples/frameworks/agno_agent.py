"""Agno: a hook round each tool ends the run before the next call.

OpenInference's instrumentor writes the spans. `StopAgentRun` is what Agno lets through; what else a
tool or its hook raises is taken for a failed call, and the agent goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from agno.agent import Agent
from agno.exceptions import StopAgentRun
from agno.models.base import Model
from agno.models.response import ModelResponse
from openinference.instrumentation.agno import AgnoInstrumentor
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
from looptrace.collector import GateOpenError, LoopSpanProcessor

provider = TracerProvider()
processor = LoopSpanProcessor.local().use(provider)
memory = exported(provider)
AgnoInstrumentor().instrument(tracer_provider=provider)


def stop_at_gate(function_call: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Make the call, unless a person has to decide first."""
    try:
        processor.gate(TASK).raise_if_open()
    except GateOpenError as error:
        print(f"stopped: {error}")
        raise StopAgentRun(str(error)) from error
    return function_call(**arguments)


class Scripted(Model):
    """Stands in for a model."""

    def __init__(self) -> None:
        super().__init__(id="scripted")
        self.calls = script()

    def invoke(self, *_: Any, **__: Any) -> ModelResponse:
        """Ask for the next call, or give up."""
        call = next(self.calls, None)
        if call is None:
            return ModelResponse(role="assistant", content=LAST_WORDS)
        function = {"name": "run_tests", "arguments": json.dumps(ARGUMENTS)}
        asked = {"id": call, "type": "function", "function": function}
        return ModelResponse(role="assistant", tool_calls=[asked])

    async def ainvoke(self, *_: Any, **__: Any) -> ModelResponse:
        """Ask as `invoke` does."""
        return self.invoke()

    def invoke_stream(self, *_: Any, **__: Any) -> Iterator[ModelResponse]:
        """Stream nothing."""
        raise NotImplementedError

    def ainvoke_stream(self, *_: Any, **__: Any) -> Any:
        """Stream nothing."""
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **_: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response


def run_tests(path: str) -> str:
    """Run the tests of a file."""
    del path
    return outcome()


def main() -> None:
    """Let the agent work on its task until it is stopped."""
    agent = Agent(
        name="fixer",
        model=Scripted(),
        tools=[run_tests],
        tool_hooks=[stop_at_gate],
        session_id=TASK,
        telemetry=False,
    )
    agent.run(PROMPT)
    show(__file__, memory)


if __name__ == "__main__":
    main()
