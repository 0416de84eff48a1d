"""Middleware for Pydantic AI: instructions that are made anew for each request to the model.

    from looptrace.middleware.pydantic_ai import loop_instructions
    agent.instructions(loop_instructions(processor))

Pydantic AI writes its own spans; with a `conversation_id`, `task` is that name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from looptrace.collector import LoopSpanProcessor
from looptrace.middleware.advisor import WAIT_S, Advisor

__all__ = ["loop_instructions"]


def loop_instructions(
    processor: LoopSpanProcessor, task: str | None = None, wait_s: float = WAIT_S
) -> Callable[[], Awaitable[str | None]]:
    """Return instructions with the directive that the model has not read, if there is one.

    They raise what `Advisor.before_request` does, and the run ends with it.
    """
    advisor = Advisor(processor, task, wait_s)

    async def instructions() -> str | None:
        """Return the directive for the next request."""
        return await asyncio.to_thread(advisor.before_request)

    return instructions
