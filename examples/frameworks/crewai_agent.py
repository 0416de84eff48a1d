"""CrewAI: a hook ends the run before the model is asked again.

OpenInference's instrumentor writes the spans. `HookAborted` ends the run; what a tool or another
hook raises is shown to the model, or printed, and the agent goes on.
"""

from __future__ import annotations

import logging
import os
from typing import Any

# CrewAI starts its own telemetry and tracing when it is imported, unless these say no.
os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"

from crewai import Agent, Crew, Task
from crewai.hooks import HookAborted, InterceptionPoint, on
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool
from openinference.instrumentation import using_session
from openinference.instrumentation.crewai import CrewAIInstrumentor
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
from looptrace.collector import LoopSpanProcessor

provider = TracerProvider()
processor = LoopSpanProcessor.local().use(provider)
memory = exported(provider)
CrewAIInstrumentor().instrument(tracer_provider=provider)
logging.getLogger("crewai.flow").setLevel(logging.CRITICAL)  # It logs the stop as an error.
gate = processor.gate(TASK)
calls = script()


@on(InterceptionPoint.PRE_MODEL_CALL)
def stop_at_gate(_: Any) -> None:
    """Ask the model only where no person has to decide first."""
    now = gate.check()
    if now.open:
        raise HookAborted(now.directive or now.reason)


class Scripted(BaseLLM):
    """Stands in for a model."""

    def call(self, *_: Any, **__: Any) -> Any:
        """Ask for the next call, or give up."""
        call = next(calls, None)
        if call is None:
            return LAST_WORDS
        function = {"name": "run_tests", "arguments": ARGUMENTS}
        return [{"id": call, "type": "function", "function": function}]

    def get_input_tokens_count(self, *_: Any, **__: Any) -> int:
        """Count no tokens."""
        return 0

    def supports_function_calling(self) -> bool:
        """Call tools by functions."""
        return True


@tool
def run_tests(path: str) -> str:
    """Run the tests of a file."""
    del path
    return outcome()


def main() -> None:
    """Let the agent work on its task until it is stopped."""
    fixer = Agent(
        role="fixer",
        goal="Make tests pass.",
        backstory="You mend code.",
        llm=Scripted(model="scripted"),
        tools=[run_tests],
        max_iter=2 * ATTEMPTS,
        cache=False,
    )
    task = Task(description=PROMPT, expected_output="The tests pass.", agent=fixer)
    try:
        with using_session(TASK):
            Crew(agents=[fixer], tasks=[task]).kickoff()
    except HookAborted as error:
        print(f"stopped: {error}")
    show(__file__, memory)


if __name__ == "__main__":
    main()
