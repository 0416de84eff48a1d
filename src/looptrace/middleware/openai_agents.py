"""Middleware for the OpenAI Agents SDK: a filter of what its models are given.

    from looptrace.middleware.openai_agents import loop_filter
    config = RunConfig(call_model_input_filter=loop_filter(processor))
    Runner.run_sync(agent, prompt, run_config=config)

The spans come from an instrumentor of the SDK. Where its spans name a session, `task` is that name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from agents.run import CallModelData, ModelInputData

from looptrace.collector import LoopSpanProcessor
from looptrace.middleware.advisor import WAIT_S, Advisor

__all__ = ["loop_filter"]


def loop_filter(
    processor: LoopSpanProcessor, task: str | None = None, wait_s: float = WAIT_S
) -> Callable[[CallModelData[Any]], Awaitable[ModelInputData]]:
    """Return a filter that brings a directive into the next request, and ends a run at a gate.

    The filter raises what `Advisor.before_request` does, and the run ends with it.
    """
    advisor = Advisor(processor, task, wait_s)

    async def advise(data: CallModelData[Any]) -> ModelInputData:
        """Add what looptrace says to the instructions of one request."""
        given = data.model_data
        text = await asyncio.to_thread(advisor.before_request)
        if text is not None:
            given.instructions = "\n\n".join(filter(None, [given.instructions, text]))
        return given

    return advise
