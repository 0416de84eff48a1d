"""Middleware for CrewAI: a hook before each request to a model.

    from looptrace.middleware.crewai import loop_hook
    register_before_llm_call_hook(loop_hook(processor))

The hook has to be there before a crew starts. The spans come from an instrumentor of CrewAI. Where
its spans name a session, `task` is that name.
"""

from __future__ import annotations

from collections.abc import Callable

from crewai.hooks import HookAborted, LLMCallHookContext

from looptrace.collector import GateOpenError, LoopSpanProcessor, TaskCancelled
from looptrace.middleware.advisor import WAIT_S, Advisor

__all__ = ["loop_hook"]


def loop_hook(
    processor: LoopSpanProcessor, task: str | None = None, wait_s: float = WAIT_S
) -> Callable[[LLMCallHookContext], None]:
    """Return a hook that adds a directive to the messages once, and ends a run at an open gate.

    It raises `HookAborted` from what `Advisor.before_request` raises, because CrewAI ignores any
    other exception.
    """
    advisor = Advisor(processor, task, wait_s)

    def advise(context: LLMCallHookContext) -> None:
        """Add what looptrace says as a message of the system."""
        try:
            text = advisor.before_request()
        except (GateOpenError, TaskCancelled) as error:
            raise HookAborted(str(error), source="looptrace") from error
        if text is not None:
            context.messages.append({"role": "system", "content": text})

    return advise
