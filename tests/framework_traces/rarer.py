"""Shapes of which no framework's own trace is at hand: older names, streams, our own attributes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from examples.dialects import OPENAI, Asked, Attributes, Message, Response, Run, conversation
from tests.framework_traces import vendors
from tests.framework_traces.openinference import flat, llm, values
from tests.framework_traces.openllmetry import entity
from tests.framework_traces.shape import MODEL, Piece, Shape, Talk, failing, seen
from tests.otlp import CLIENT, Trace


def _numbered(prefix: str, messages: Sequence[Message]) -> dict[str, object]:
    said: dict[str, object] = {}
    for number, message in enumerate(messages):
        path = f"{prefix}.{number}"
        said |= {f"{path}.{key}": message[key] for key in message if key != "tool_calls"}
        for place, call in enumerate(message.get("tool_calls", ())):
            inner = {"id": call["id"], **call["function"]}
            said |= {f"{path}.tool_calls.{place}.{key}": inner[key] for key in inner}
    return said


def _association(talk: Talk) -> dict[str, object]:
    prefix = "traceloop.association.properties"
    return {f"{prefix}.thread_id": talk.run.session, f"{prefix}.lc_agent_name": talk.run.agent}


def _numbered_model(talk: Talk, response: Response) -> list[Piece]:
    said = {
        "llm.request.type": "chat",
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.prompt_tokens": response.input_tokens,
        "gen_ai.usage.completion_tokens": response.output_tokens,
        "llm.usage.total_tokens": response.input_tokens + response.output_tokens,
        "llm.usage.reasoning_tokens": response.output_tokens // 4,
        **_association(talk),
        **_numbered("gen_ai.prompt", response.messages),
        **_numbered("gen_ai.completion", [response.message]),
    }
    return [Piece("openai.chat", said, kind=CLIENT)]


def _numbered_tool(talk: Talk, asked: Asked) -> list[Piece]:
    said = entity("tool", asked.name, **_association(talk))
    said["traceloop.entity.input"] = json.dumps({"args": [], "kwargs": asked.arguments})
    if not asked.call.error:
        said["traceloop.entity.output"] = json.dumps(asked.call.result)
    return [failing(Piece(f"{asked.name}.tool", said), asked)]


# OpenLLMetry before it took over OpenTelemetry's messages: they are flat numbered attributes.
OPENLLMETRY_NUMBERED = Shape(
    "opentelemetry.instrumentation.openai.v1",
    around=lambda talk: [
        Piece("ready.workflow", entity("workflow", "ready", **_association(talk)))
    ],
    model=_numbered_model,
    tool=_numbered_tool,
    wording=OPENAI,
)


def _streamed(piece: Piece) -> Piece:
    """Return a span of Vercel's AI SDK as its older versions write it while they stream."""
    names = {
        "ai.generateText": "ai.streamText",
        "ai.generateText.doGenerate": "ai.streamText.doStream",
        "ai.settings.context.sessionId": "ai.telemetry.metadata.sessionId",
        "ai.toolCall.args": "ai.toolCall.input",
        "ai.toolCall.result": "ai.toolCall.output",
        "ai.usage.inputTokens": "ai.usage.promptTokens",
        "ai.usage.outputTokens": "ai.usage.completionTokens",
    }
    said = {
        names.get(key, key): names.get(str(value), value)
        for key, value in piece.attributes.items()
        if key in names or not key.startswith(("gen_ai.", "ai.usage."))
    }
    return replace(piece, name=names.get(piece.name, piece.name), attributes=said)


VERCEL_STREAM = replace(
    vendors.VERCEL_AI,
    around=lambda talk: [_streamed(piece) for piece in vendors.VERCEL_AI.around(talk)],
    model=lambda talk, response: [
        _streamed(piece) for piece in vendors.VERCEL_AI.model(talk, response)
    ],
    tool=lambda talk, asked: [_streamed(piece) for piece in vendors.VERCEL_AI.tool(talk, asked)],
)


def separate(run: Run, name: str) -> list[Trace]:
    """Return OpenInference's traces of a plain client: each model call is one, with the session."""
    traces = []
    for number, response in enumerate(conversation(run, OPENAI)):
        trace = Trace(
            run.session,
            name=f"{name}/{number}",
            session_key="session.id",
            service=run.service,
            scope="openinference.instrumentation.openai",
            at=run.at,
        )
        said = llm(
            response,
            flat("llm.input_messages", response.messages),
            flat("llm.output_messages", [response.message]),
        )
        trace.span(
            "ChatCompletion",
            None,
            said | values({"messages": []}),  # type: ignore[arg-type]
            status="ok",
            start_s=2.0 * number,
        )
        traces.append(trace)
    return traces


def own(run: Run, name: str) -> list[Trace]:
    """Return what an agent's author records with looptrace's own attributes, and nothing else.

    A call that fails is an attempt that is blocked by it; one that works has done something.
    """
    trace = Trace(name, session_key=None, service=run.service, scope="looptrace", at=run.at)
    task: Attributes = {"looptrace.task.id": "order-A17", "looptrace.task.kind": "order"}
    agent = {"gen_ai.agent.name": run.agent, "gen_ai.conversation.id": run.session}
    root = trace.span("work", None, {**task, **agent}, seconds=0)
    calls = [call for step in run.steps for call in step.calls]
    for left, call in zip(range(len(calls), 0, -1), calls, strict=True):
        asked = Asked("", call)
        blocked: Attributes = {
            "looptrace.task.status": "blocked",
            "looptrace.blockers": [seen(asked)],
        }
        done: Attributes = {
            "looptrace.task.status": "in_progress",
            "looptrace.completed_work": f"{call.name}: {call.result}",
        }
        tried: Attributes = {"looptrace.iteration": str(len(calls) - left + 1)}
        phase = trace.span(call.name, root, tried | {"looptrace.phase": call.name}, seconds=0)
        trace.span("attempt", phase, task | (blocked if call.error else done))
        figures = {"tests_failed": 0 if call.error else left, "tests_total": len(calls)}
        if not call.error:
            said = {f"looptrace.progress.{key}": value for key, value in figures.items()}
            trace.span("progress", phase, said)
    return [trace]
