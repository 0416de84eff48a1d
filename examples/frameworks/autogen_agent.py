"""AutoGen: a condition ends the team's run after the turn of an agent.

AutoGen writes its own spans, to the global tracer provider, but neither what tools were given nor
what they answered, so that `turn` records both; `agent` records the session, with a span around the
run. Let tools be coroutines: others run in a thread, where a span would begin another trace.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TerminationCondition
from autogen_agentchat.messages import StopMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    ModelFamily,
    ModelInfo,
    RequestUsage,
)
from opentelemetry import trace
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
from looptrace.collector import LoopSpanProcessor, agent, turn

provider = TracerProvider()
processor = LoopSpanProcessor.local().use(provider)
memory = exported(provider)
trace.set_tracer_provider(provider)
gate = processor.gate(TASK)


class GateIsOpen(TerminationCondition):
    """Ends the run where a person has to decide first."""

    @property
    def terminated(self) -> bool:
        """Say whether the gate is open."""
        return gate.check().open

    async def __call__(self, messages: Any) -> StopMessage | None:
        """Say so to the team."""
        del messages
        now = gate.check()
        if not now.open:
            return None
        return StopMessage(content=now.directive or now.reason, source="looptrace")

    async def reset(self) -> None:
        """Leave the gate to whoever decides."""


class Scripted(ChatCompletionClient):
    """Stands in for a model."""

    def __init__(self) -> None:
        self.calls = script()

    async def create(self, *_: Any, **__: Any) -> CreateResult:
        """Ask for the next call, or give up."""
        call = next(self.calls, None)
        if call is None:
            return self._said("stop", LAST_WORDS)
        arguments = json.dumps(ARGUMENTS)
        return self._said(
            "function_calls", [FunctionCall(id=call, name="run_tests", arguments=arguments)]
        )

    def _said(self, reason: Any, content: Any) -> CreateResult:
        return CreateResult(
            finish_reason=reason, content=content, usage=self.total_usage(), cached=False
        )

    def create_stream(self, *_: Any, **__: Any) -> Any:
        """Stream nothing."""
        raise NotImplementedError

    async def close(self) -> None:
        """Have nothing to close."""

    def actual_usage(self) -> RequestUsage:
        """Use nothing."""
        return RequestUsage(0, 0)

    def total_usage(self) -> RequestUsage:
        """Use nothing."""
        return RequestUsage(0, 0)

    def count_tokens(self, *_: Any, **__: Any) -> int:
        """Count no tokens."""
        return 0

    def remaining_tokens(self, *_: Any, **__: Any) -> int:
        """Have no limit that matters."""
        return 1_000_000

    @property
    def model_info(self) -> ModelInfo:
        """Say what the model can."""
        return ModelInfo(
            vision=False,
            function_calling=True,
            json_output=False,
            structured_output=False,
            family=ModelFamily.UNKNOWN,
        )

    @property
    def capabilities(self) -> Any:
        """Say the same by its old name."""
        return self.model_info


async def run_tests(path: str) -> str:
    """Run the tests of a file."""
    with turn("run_tests", {"path": path}) as call:
        call.result = outcome()
    return str(call.result)


def main() -> None:
    """Let the agent work on its task until it is stopped."""
    fixer = AssistantAgent("fixer", Scripted(), tools=[run_tests])
    team = RoundRobinGroupChat([fixer], termination_condition=GateIsOpen(), max_turns=ATTEMPTS + 1)
    with agent("fixer", session=TASK):
        done = asyncio.run(team.run(task=PROMPT))
    print(f"stopped: {done.stop_reason}")
    show(__file__, memory)


if __name__ == "__main__":
    main()
