"""Shapes in the names of single vendors: Langfuse, LangSmith, Vercel's AI SDK."""

from __future__ import annotations

import json
from dataclasses import replace

from examples.dialects import LANGCHAIN, OPENAI, VERCEL, Asked, Message, Response, compact
from tests.framework_traces.shape import (
    MODEL,
    USER,
    Piece,
    Shape,
    Talk,
    executed,
    failing,
    stop_of,
    stopped,
    total_of,
    usage,
)


def _observed(talk: Talk, kind: str, given: object, told: object) -> dict[str, object]:
    text = told if isinstance(told, str) else json.dumps(told)
    output = {} if told is None else {"langfuse.observation.output": text}
    return {
        "session.id": talk.run.session,
        "user.id": USER,
        "langfuse.observation.type": kind,
        "langfuse.observation.input": json.dumps(given),
        **output,
    }


def _langfuse_model(talk: Talk, response: Response) -> list[Piece]:
    used = {"input": response.input_tokens, "output": response.output_tokens}
    given = {"args": [response.messages[1:]], "kwargs": {}}
    answer = {key: value for key, value in response.message.items() if key != "role"}
    said = {
        **_observed(talk, "generation", given, answer),
        "langfuse.observation.model.name": MODEL,
        "langfuse.observation.usage_details": json.dumps(used),
    }
    return [Piece("llm", said)]


def _langfuse_tool(talk: Talk, asked: Asked) -> list[Piece]:
    given = {"args": [], "kwargs": asked.arguments}
    if not asked.call.error:
        return [Piece(asked.name, _observed(talk, "tool", given, asked.call.result))]
    message = asked.error[1]
    said = {
        **_observed(talk, "tool", given, None),
        "langfuse.observation.level": "ERROR",
        "langfuse.observation.status_message": message,
    }
    return [Piece(asked.name, said, (), "error", message)]


# Langfuse's decorators: the observation says that it failed, and there is no exception.
LANGFUSE = Shape(
    "langfuse-sdk",
    around=lambda talk: [
        Piece(
            talk.run.agent,
            _observed(talk, "agent", {"args": [talk.run.task], "kwargs": {}}, talk.last.step.text),
        )
    ],
    model=_langfuse_model,
    tool=_langfuse_tool,
    wording=replace(
        OPENAI,
        answered=lambda asked: {
            "role": "tool",
            "tool_call_id": asked.id,
            "content": f"ERROR: {asked.error[1]}" if asked.call.error else asked.call.result,
        },
    ),
)


def _langsmith(
    talk: Talk, kind: str, operation: str, given: object, told: object
) -> dict[str, object]:
    return {
        "langsmith.span.kind": kind,
        "gen_ai.operation.name": operation,
        "langsmith.metadata.lc_agent_name": talk.run.agent,
        "langsmith.metadata.session_id": talk.run.session,
        "langsmith.metadata.thread_id": talk.run.session,
        "gen_ai.prompt": compact(given),
        "gen_ai.completion": compact(told),
    }


def _langsmith_chain(talk: Talk, name: str, given: object, told: object) -> Piece:
    return Piece(name, _langsmith(talk, "chain", "chain", given, told), status="ok")


def _constructed(message: Message) -> Message:
    kind = {"ai": "AIMessage", "human": "HumanMessage", "tool": "ToolMessage"}
    name = kind.get(message["type"], "SystemMessage")
    return {"lc": 1, "type": "constructor", "id": ["langchain", name], "kwargs": message}


def _langsmith_model(talk: Talk, response: Response) -> list[Piece]:
    prompt = {"messages": [[_constructed(message) for message in response.messages]]}
    generated = {"text": response.step.text, "message": _constructed(response.message)}
    said = {
        **_langsmith(talk, "llm", "chat", prompt, {"generations": [[generated]]}),
        "gen_ai.request.model": MODEL,
        **usage(response),
        **total_of(response),
    }
    update = {"output": [{"update": {"messages": [response.message]}}]}
    node = _langsmith_chain(talk, "model", {"messages": []}, update)
    return [node, Piece("ScriptedModel", said, status="ok")]


def _langsmith_answered(asked: Asked) -> Message:
    message = LANGCHAIN.answered(asked)
    kind, said = asked.error
    return (
        {**message, "content": f"Error: {kind}({said!r})", "status": "error"} if kind else message
    )


def _langsmith_tool(talk: Talk, asked: Asked) -> list[Piece]:
    message = _langsmith_answered(asked)
    told = {} if asked.call.error else {"output": message}
    said = _langsmith(talk, "tool", "execute_tool", asked.arguments, told) | executed(asked)
    piece = Piece(asked.name, said, status="ok")
    if asked.call.error:
        kind, text = asked.error
        raised = replace(asked.call, error=f"Exception: {kind}({text!r})Traceback (most recent")
        piece = failing(piece, replace(asked, call=raised), "")
    call = {"tool_call": {"name": asked.name, "args": asked.arguments, "id": asked.id}}
    return [
        _langsmith_chain(talk, "tools", {"input": [call]}, {"messages": [message]}),
        _langsmith_chain(talk, "errors.wrap_tool_call", {"request": call}, message),
        piece,
    ]


# LangGraph traced by LangSmith, which exports parents first.
LANGSMITH = Shape(
    "langsmith",
    around=lambda talk: [
        _langsmith_chain(
            talk,
            talk.run.agent,
            {"messages": [["user", talk.run.task]]},
            {"messages": [{"type": "ai", "content": talk.last.step.text}]},
        )
    ],
    model=_langsmith_model,
    tool=_langsmith_tool,
    wording=replace(LANGCHAIN, answered=_langsmith_answered),
)


def _operation(talk: Talk, name: str) -> dict[str, object]:
    return {
        "ai.operationId": name,
        "ai.telemetry.functionId": talk.run.agent,
        "ai.settings.context.sessionId": talk.run.session,
    }


def _vercel_calls(response: Response) -> list[Message]:
    return [
        {"toolCallId": asked.id, "toolName": asked.name, "input": asked.arguments}
        for asked in response.asked
    ]


def _vercel_usage(used: Response | Talk) -> dict[str, object]:
    """Return tokens with their parts, which versions 5 and 6 name otherwise."""
    cached, thought = used.input_tokens // 2, used.output_tokens // 4
    return {
        "ai.usage.inputTokens": used.input_tokens,
        "ai.usage.outputTokens": used.output_tokens,
        "ai.usage.cachedInputTokens": cached,
        "ai.usage.inputTokenDetails.cacheReadTokens": cached,
        "ai.usage.inputTokenDetails.cacheWriteTokens": 0,
        "ai.usage.reasoningTokens": thought,
        "ai.usage.outputTokenDetails.reasoningTokens": thought,
    }


def _vercel_root(talk: Talk) -> list[Piece]:
    calls = [call for response in talk.responses for call in _vercel_calls(response)]
    said = {
        **_operation(talk, "ai.generateText"),
        "ai.model.id": MODEL,
        "ai.prompt": compact({"messages": [{"role": "user", "content": talk.run.task}]}),
        "ai.response.text": talk.last.step.text,
        "ai.response.toolCalls": compact(calls),
        "ai.response.finishReason": stop_of(talk.last),
        **_vercel_usage(talk),
    }
    return [Piece("ai.generateText", said)]


def _vercel_model(talk: Talk, response: Response) -> list[Piece]:
    calls = compact(_vercel_calls(response))
    said = {
        **_operation(talk, "ai.generateText.doGenerate"),
        "ai.model.id": MODEL,
        "ai.prompt.messages": compact(response.messages),
        "gen_ai.request.model": MODEL,
        "gen_ai.response.model": MODEL,
        "ai.response.text": response.step.text,
        **({"ai.response.toolCalls": calls} if response.asked else {}),
        "ai.response.finishReason": stop_of(response).replace("_", "-"),
        **stopped(response),
        **_vercel_usage(response),
        **usage(response),
    }
    return [Piece("ai.generateText.doGenerate", said)]


def _vercel_tool(talk: Talk, asked: Asked) -> list[Piece]:
    said = {
        **_operation(talk, "ai.toolCall"),
        "ai.toolCall.name": asked.name,
        "ai.toolCall.id": asked.id,
        "ai.toolCall.args": compact(asked.arguments),
    }
    if not asked.call.error:
        said["ai.toolCall.result"] = compact(asked.call.result)
    error = Asked(asked.id, replace(asked.call, error=f"Error: {asked.error[1]}"))
    return [failing(Piece("ai.toolCall", said), error if asked.call.error else asked)]


# Vercel's AI SDK: tools lie within the model's span; the outer span repeats calls, text and tokens.
VERCEL_AI = Shape(
    "ai",
    around=_vercel_root,
    model=_vercel_model,
    tool=_vercel_tool,
    wording=VERCEL,
    tools_in_model=True,
)
