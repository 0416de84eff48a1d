"""Middleware for agents of LangChain (`create_agent`), which run on LangGraph.

    from looptrace.middleware.langchain import LoopMiddleware
    agent = create_agent(model, tools, middleware=[LoopMiddleware(processor)])

The spans come from an instrumentor of LangChain. The thread of a run is its session, and so its
task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import SystemMessage
from langgraph.config import get_config

from looptrace.collector import LoopSpanProcessor
from looptrace.middleware.advisor import WAIT_S, Advisor

__all__ = ["LoopMiddleware"]


class LoopMiddleware(AgentMiddleware[Any, Any]):
    """Brings a directive into the next request to the model, and ends a run at an open gate.

    The directive stands at the end of the instructions of one request: a provider may refuse a
    system message among others, and a message of a user would be read as a person's.
    """

    def __init__(
        self, processor: LoopSpanProcessor, task: str | None = None, wait_s: float = WAIT_S
    ) -> None:
        super().__init__()
        self._advisor = Advisor(processor, task, wait_s)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Ask the model with what looptrace says. Raises what `Advisor.before_request` does."""
        return handler(_with(request, self._advisor.before_request(_thread())))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Ask the model like `wrap_model_call`, without blocking the event loop."""
        text = await asyncio.to_thread(self._advisor.before_request, _thread())
        return await handler(_with(request, text))


def _thread() -> str | None:
    """Return the thread of the run, if it has one."""
    thread = get_config().get("configurable", {}).get("thread_id")
    return None if thread is None else str(thread)


def _with(request: ModelRequest[Any], text: str | None) -> ModelRequest[Any]:
    if text is None:
        return request
    before = request.system_message
    parts: list[str | dict[Any, Any]] = [*(before.content_blocks if before else ())]
    return request.override(
        system_message=SystemMessage(content=[*parts, {"type": "text", "text": text}])
    )
