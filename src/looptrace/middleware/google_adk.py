"""Middleware for Google's ADK: a plug-in of an app.

    from looptrace.middleware.google_adk import LoopPlugin
    app = App(name="fixer_app", root_agent=agent, plugins=[LoopPlugin(processor)])

ADK writes its own spans, to the global provider. Its session is the task.
"""

from __future__ import annotations

import asyncio

from google.adk.agents.callback_context import CallbackContext
from google.adk.models import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin

from looptrace.collector import LoopSpanProcessor
from looptrace.middleware.advisor import WAIT_S, Advisor

__all__ = ["LoopPlugin"]


class LoopPlugin(BasePlugin):
    """Brings a directive into the next request to the model, and ends a run at an open gate.

    ADK raises a `RuntimeError` from what `Advisor.before_request` raises. An answer in place of the
    model's would end one agent, and a loop of agents would go on.
    """

    def __init__(
        self, processor: LoopSpanProcessor, task: str | None = None, wait_s: float = WAIT_S
    ) -> None:
        super().__init__("looptrace")
        self._advisor = Advisor(processor, task, wait_s)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Add what looptrace says to the instructions of one request."""
        session = callback_context.session.id
        text = await asyncio.to_thread(self._advisor.before_request, session)
        if text is not None:
            llm_request.append_instructions([text])
