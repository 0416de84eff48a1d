"""Middleware for smolagents: a callback after each step of an agent.

    from looptrace.middleware.smolagents import loop_callback
    agent = CodeAgent(tools, model, step_callbacks=[loop_callback(processor)])

The spans come from an instrumentor of smolagents; let the agent run with `stream=True`, as they
do not end otherwise when a run fails. Where its spans name a session, `task` is that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smolagents import ActionStep

from looptrace.collector import LoopSpanProcessor
from looptrace.middleware.advisor import WAIT_S, Advisor

__all__ = ["loop_callback"]


def loop_callback(
    processor: LoopSpanProcessor, task: str | None = None, wait_s: float = WAIT_S
) -> Callable[[ActionStep, Any], None]:
    """Return a callback that adds a directive to what the model sees of a step, or ends the run.

    It raises what `Advisor.before_request` does. smolagents calls nothing before the first step, so
    that a run that begins at an open gate ends after one step.
    """
    advisor = Advisor(processor, task, wait_s)

    def advise(step: ActionStep, agent: Any) -> None:
        """Add what looptrace says to the observations of a step that is not the last."""
        del agent  # smolagents passes it to callbacks of two parameters.
        if step.is_final_answer:
            return
        text = advisor.before_request()
        if text is not None:
            step.observations = "\n\n".join(filter(None, [step.observations, text]))

    return advise
