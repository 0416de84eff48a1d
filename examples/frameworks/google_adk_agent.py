"""Google's ADK: a callback answers in place of the model, which ends the run.

ADK writes its own spans, to the global tracer provider, and with these two variables also what
tools were given and have answered, and what the model was asked.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

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

APP, USER = "fixer_app", "user"

provider = TracerProvider()
processor = LoopSpanProcessor.local().use(provider)
memory = exported(provider)
trace.set_tracer_provider(provider)
os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
gate = processor.gate(TASK)
calls = script()


def answer(part: types.Part) -> LlmResponse:
    """Return what a model says."""
    used = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=0, candidates_token_count=0
    )
    content = types.Content(role="model", parts=[part])
    return LlmResponse(content=content, usage_metadata=used)


def stop_at_gate(callback_context: CallbackContext, llm_request: LlmRequest) -> LlmResponse | None:
    """Ask the model only where no person has to decide first, with what looptrace tells it."""
    del callback_context
    now = gate.check()
    if now.open:
        return answer(types.Part(text=now.directive or now.reason))
    if now.directive:
        llm_request.append_instructions([now.directive])
    return None


class Scripted(BaseLlm):
    """Stands in for a model."""

    async def generate_content_async(self, *_: Any, **__: Any) -> AsyncIterator[LlmResponse]:
        """Ask for the next call, or give up."""
        call = next(calls, None)
        if call is None:
            yield answer(types.Part(text=LAST_WORDS))
        else:
            asked = types.FunctionCall(id=call, name="run_tests", args=ARGUMENTS)
            yield answer(types.Part(function_call=asked))


def run_tests(path: str) -> str:
    """Run the tests of a file."""
    del path
    return outcome()


async def work() -> str:
    """Let the agent work on its task; return its last words."""
    fixer = LlmAgent(
        name="fixer",
        model=Scripted(model="scripted"),
        tools=[run_tests],
        before_model_callback=stop_at_gate,
    )
    runner = InMemoryRunner(fixer, app_name=APP)
    await runner.session_service.create_session(app_name=APP, user_id=USER, session_id=TASK)
    asked = types.Content(role="user", parts=[types.Part(text=PROMPT)])
    said = ""
    async for event in runner.run_async(user_id=USER, session_id=TASK, new_message=asked):
        if event.is_final_response() and event.content and event.content.parts:
            said = event.content.parts[0].text or ""
    return said


def main() -> None:
    """Let the agent work until it is stopped."""
    print(f"stopped: {asyncio.run(work())}")
    show(__file__, memory)


if __name__ == "__main__":
    main()
