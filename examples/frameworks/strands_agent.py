"""Strands: a hook ends the run, with the directive as the agent's last words.

Strands writes its own spans, to the global tracer provider. What its tool raises is an error on the
tool's span, and the third of the same opens a gate.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from strands import Agent, tool
from strands.hooks import BeforeModelCallEvent
from strands.models import Model

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
from looptrace.collector import LoopSpanProcessor

provider = TracerProvider()
processor = LoopSpanProcessor.local().use(provider)
memory = exported(provider)
trace.set_tracer_provider(provider)

gate = processor.gate(TASK)


def stop_at_gate(event: BeforeModelCallEvent) -> None:
    """Ask the model only where no person has to decide first."""
    now = gate.check()
    if now.open:
        event.cancel = now.directive or True


class Scripted(Model):
    """Stands in for a model."""

    def __init__(self) -> None:
        self.calls = script()

    def update_config(self, **_: Any) -> None:
        """Have no configuration."""

    def get_config(self) -> dict[str, Any]:
        """Return the configuration, which is none."""
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        """Give nothing but text."""
        raise NotImplementedError

    async def stream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Ask for the next call, or give up."""
        call = next(self.calls, None)
        yield {"messageStart": {"role": "assistant"}}
        if call:
            asked = {"name": "run_tests", "toolUseId": call}
            yield {"contentBlockStart": {"start": {"toolUse": asked}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(ARGUMENTS)}}}}
        else:
            yield {"contentBlockDelta": {"delta": {"text": LAST_WORDS}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if call else "end_turn"}}


@tool
def run_tests(path: str) -> str:
    """Run the tests of a file."""
    said = f"{path}: {outcome()}"
    if "failed" in said:
        raise AssertionError(said)
    return said


def main() -> None:
    """Let the agent work on its task until it is stopped."""
    agent = Agent(
        model=Scripted(),
        tools=[run_tests],
        hooks=[stop_at_gate],
        name="fixer",
        trace_attributes={"session.id": TASK},
        callback_handler=None,
    )
    print(f"stopped: {agent(PROMPT)}")
    show(__file__, memory)


if __name__ == "__main__":
    main()
