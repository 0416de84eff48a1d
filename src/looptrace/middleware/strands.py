"""Middleware for Strands: a handler of what its models are given.

    from looptrace.middleware.strands import loop_input
    agent.add_middleware(InvokeModelStage.Input, loop_input(processor))

Strands writes its own spans, to the global provider. Where they name a session, `task` is its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from strands.middleware.stages import InvokeModelContext

from looptrace.collector import LoopSpanProcessor
from looptrace.middleware.advisor import WAIT_S, Advisor

__all__ = ["loop_input"]


def loop_input(
    processor: LoopSpanProcessor, task: str | None = None, wait_s: float = WAIT_S
) -> Callable[[InvokeModelContext], Awaitable[InvokeModelContext]]:
    """Return a handler that brings a directive into the next request, and ends a run at a gate.

    It raises what `Advisor.before_request` does; Strands raises an `EventLoopException` from it.
    """
    advisor = Advisor(processor, task, wait_s)

    async def advise(context: InvokeModelContext) -> InvokeModelContext:
        """Add what looptrace says to the instructions of one request."""
        text = await asyncio.to_thread(advisor.before_request)
        if text is None:
            return context
        before = context.system_prompt
        blocks = [{"text": before}] if isinstance(before, str) else before or []
        return context.replace(system_prompt=[*blocks, {"text": text}])

    return advise
