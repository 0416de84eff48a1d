"""Messages as frameworks save them, each in a form of its own.

pydantic-ai (pydantic/pydantic-ai@4fda389 pydantic_ai_slim/pydantic_ai/messages.py), AutoGen's
events and contexts (microsoft/autogen@027ecf0 python/packages/autogen-agentchat/src/
autogen_agentchat/messages.py, autogen-core/src/autogen_core/models/_types.py, autogen-studio/
autogenstudio/datamodel/db.py), AG2 before 1.0 (ag2 0.14.0: autogen/agentchat/chat.py,
conversable_agent.py), Letta (letta-client 1.12.1: types/tool_return_message.py, types/agents),
LlamaIndex (llama-index-core 0.14.25: llama_index/core/base/llms/types.py, storage/chat_store/
simple_chat_store.py, memory/types.py; llama-index-llms-openai 0.8.3 and 0.2.16: utils.py),
Microsoft's Agent Framework in Python (agent-framework-core 1.23.0: agent_framework/_types.py,
_sessions.py) and .NET (microsoft/agent-framework@5eb3eb7 dotnet/src/Microsoft.Agents.AI/ChatClient/
ChatClientAgentSession.cs, Microsoft.Agents.AI.Abstractions/InMemoryChatHistoryProvider.cs;
dotnet/extensions src/Libraries/Microsoft.Extensions.AI.Abstractions: Contents/AIContent.cs@09a0bb0,
FunctionCallContent.cs@0cf036c, FunctionResultContent.cs@175d048, ChatCompletion/ChatMessage.cs
@01a52dd), Semantic Kernel in Python (semantic-kernel 1.45.0: semantic_kernel/contents) and .NET
(microsoft/semantic-kernel dotnet/src/SemanticKernel.UnitTests/Contents/ChatMessageContentTests.cs
@01727aa; SemanticKernel.Abstractions/Contents: KernelContent.cs@0805d2c, ChatMessageContent.cs
@0a8a616, FunctionCallContent.cs@055a194), Strands (strands-agents/sdk-python@1232230 src/strands/
types/session.py), Mastra (@mastra/core 1.71.0: dist/agent/message-list/state/types.d.ts), CAMEL
(camel-ai 0.2.90 and 0.2.60: camel/memories/records.py, messages/base.py, messages/func_message.py,
agents/chat_agent.py), Google's ADK (google/adk-python@7c670f6 src/google/adk/events/event.py) and
AgentKit (inngest/agent-kit@fc28437 packages/agent-kit/src/types.ts).
"""

from collections.abc import Iterator
from typing import Any

from looptrace.collector.importers.rows.messages import ApiMessage
from looptrace.collector.importers.saved.api_parts import (
    answer_message,
    call_part,
    given_message,
    joined_texts,
    result_message,
    text_part,
)
from looptrace.collector.importers.saved.chats import page_messages
from looptrace.collector.importers.spans import mapping, objects, text_of

_FUNCTION_CALLS = ("function_call", "functionCall", "FunctionCallContent")
_FUNCTION_RESULTS = ("function_result", "functionResult", "FunctionResultContent")
_TEXTS = ("text", "TextContent")
_OTHER_SIDE = {"assistant": "user", "user": "assistant"}


def pydantic_messages(message: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the messages of a request or a response of pydantic-ai."""
    parts = objects(message.get("parts"))
    if message.get("kind") == "response":
        calls = [
            call_part(part.get("tool_call_id"), part.get("tool_name"), part.get("args"))
            for part in parts
            if str(part.get("part_kind")).endswith("tool-call")
        ]
        said = [part.get("content") for part in parts if part.get("part_kind") == "text"]
        told = {"model": message.get("model_name"), "timestamp": message.get("timestamp")}
        usage = mapping(message.get("usage"))
        cached = usage.get("cache_read_tokens")
        yield answer_message(joined_texts(said), calls, usage={**usage, "cached": cached}, **told)
    for part in parts:
        kind, at = str(part.get("part_kind")), part.get("timestamp")
        call_id, content = part.get("tool_call_id"), part.get("content")
        if kind in ("user-prompt", "system-prompt"):
            role = kind.removesuffix("-prompt")
            yield given_message(joined_texts(content), role, timestamp=at)
        elif kind.endswith("tool-return"):
            failed = part.get("outcome") in ("failed", "denied")
            yield result_message(call_id, content, failed=failed, timestamp=at)
        elif kind == "retry-prompt" and part.get("tool_name"):
            yield result_message(call_id, content, failed=True, timestamp=at)
        elif kind == "retry-prompt":
            yield given_message(text_of(content), timestamp=at)


def autogen_messages(message: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the messages of an event of AutoGen, or of a message in the context of its model."""
    message = mapping(message.get("config")) or message
    kind, content, source = str(message.get("type")), message.get("content"), message.get("source")
    at = message.get("created_at")
    if kind in ("ToolCallExecutionEvent", "FunctionExecutionResultMessage"):
        for each in objects(content):
            failed = each.get("is_error") is True
            yield result_message(
                each.get("call_id"), each.get("content"), failed=failed, timestamp=at
            )
    elif kind in ("UserMessage", "SystemMessage") or source == "user":
        yield given_message(joined_texts(content), timestamp=at)
    elif kind in ("AssistantMessage", "ToolCallRequestEvent", "TextMessage", "StopMessage"):
        calls = [
            call_part(c.get("id"), c.get("name"), c.get("arguments")) for c in objects(content)
        ]
        said = message.get("thought") if calls else content
        usage = message.get("models_usage")
        yield answer_message(said, calls, usage=usage, agent=source, timestamp=at)


def ag2_messages(message: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the results in a message of AG2 before 1.0, and what a person says beside them.

    A message of a tool has its results again as one text.
    """
    for each in objects(message.get("tool_responses")):
        yield {name: each.get(name) for name in ("role", "tool_call_id", "content")}
    if message.get("role") != "tool":
        yield {name: value for name, value in message.items() if name != "tool_responses"}


def ag2_chat_messages(record: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the messages of a chat of AG2 before 1.0, as the agent has them that was asked.

    The chat is the asking agent's, whose own messages are those of the assistant there.
    """
    for message in objects(record["chat_history"]):
        role = str(message.get("role"))
        is_call = "tool_calls" in message or "function_call" in message
        yield message if is_call else {**message, "role": _OTHER_SIDE.get(role, role)}


def letta_messages(message: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield what a message of Letta says: a step is several of them, and thoughts are not read."""
    kind, at = message["message_type"], message.get("date")
    if kind in ("tool_call_message", "approval_request_message"):
        asked = objects(message.get("tool_calls")) or [mapping(message.get("tool_call"))]
        calls = [call_part(c.get("tool_call_id"), c.get("name"), c.get("arguments")) for c in asked]
        yield answer_message(None, calls, timestamp=at)
    elif kind == "tool_return_message":
        for each in objects(message.get("tool_returns")) or [message]:
            result, failed = each.get("tool_return"), each.get("status") == "error"
            yield result_message(each.get("tool_call_id"), result, failed=failed, timestamp=at)
    elif kind == "assistant_message":
        yield answer_message(joined_texts(message.get("content")), timestamp=at)
    elif kind == "user_message":
        yield given_message(joined_texts(message.get("content")), timestamp=at)


def llamaindex_messages(message: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield a message of LlamaIndex; before it had blocks of calls, they stood beside."""
    blocks, about = objects(message.get("blocks")), mapping(message.get("additional_kwargs"))
    text = joined_texts([block for block in blocks if block.get("block_type") == "text"])
    if message.get("role") == "assistant":
        calls = [
            call_part(block.get("tool_call_id"), block.get("tool_name"), block.get("tool_kwargs"))
            for block in blocks
            if block.get("block_type") == "tool_call"
        ]
        before = [] if calls else _openai_calls(about.get("tool_calls"))
        yield answer_message(text, [*calls, *before])
    elif message.get("role") in ("tool", "function"):
        yield {"role": "tool", "tool_call_id": about.get("tool_call_id"), "content": text}
    else:
        yield given_message(text, str(message.get("role")))


def _openai_calls(calls: object) -> list[dict[str, Any]]:
    asked = ((call.get("id"), mapping(call.get("function"))) for call in objects(calls))
    return [call_part(call_id, each.get("name"), each.get("arguments")) for call_id, each in asked]


def microsoft_messages(message: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield a message of the Agent Framework or of Semantic Kernel, with its results apart."""
    told = {name.lower(): value for name, value in message.items()}
    parts = objects(told.get("contents") or told.get("items"))
    role, at = told.get("role"), told.get("created_at") or told.get("createdat")
    role = str(mapping(role).get("Label", role)).lower()
    kept = list[dict[str, Any]]()
    for part in ({name.lower(): value for name, value in each.items()} for each in parts):
        kind = part.get("$type") or part.get("content_type") or part.get("type")
        call_id = part.get("callid") or part.get("call_id") or part.get("id")
        name = part.get("name") or part.get("functionname")
        if kind in _FUNCTION_RESULTS:
            error, shown = part.get("exception"), text_of(part.get("result"))
            result = joined_texts([shown, error]) if error else shown
            yield result_message(call_id, result, failed=bool(error), timestamp=at)
        elif kind in _FUNCTION_CALLS:
            kept.append(call_part(call_id, name, part.get("arguments")))
        elif kind in _TEXTS:
            kept.append(text_part(part.get("text")))
    if kept:
        agent = told.get("author_name") or told.get("authorname") or told.get("name")
        model = told.get("ai_model_id") or told.get("modelid")
        about = {"agent": agent} if agent and role == "assistant" else {}
        yield {"role": role, "content": kept, "model": model, "timestamp": at, **about}


def strands_messages(message: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the message within one of a session of Strands, which has the form of Bedrock."""
    held = mapping(message.get("redact_message")) or mapping(message.get("message"))
    yield {**held, "timestamp": message.get("created_at")}


def mastra_messages(message: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the steps of a message of Mastra's memory, which has those of the AI SDK within."""
    parts = objects(mapping(message["content"]).get("parts"))
    if not parts:
        yield message
    yield from page_messages(message, parts)


def camel_messages(record: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield a message of CAMEL's memory; a result is a record, and before 0.2.90 so is a call."""
    message, role, at = (
        mapping(record["message"]),
        record["role_at_backend"],
        record.get("timestamp"),
    )
    call_id, name = message.get("tool_call_id"), message.get("func_name")
    if role in ("function", "tool"):
        yield result_message(call_id, message.get("result"), failed=False, timestamp=at)
    elif role == "assistant":
        before = [call_part(call_id, name, message.get("args"))] if name else []
        calls = [*_openai_calls(message.get("tool_calls")), *before]
        yield answer_message(
            message.get("content"), calls, agent=message.get("role_name"), timestamp=at
        )
    else:
        yield given_message(message.get("content"), str(role), timestamp=at)


def adk_messages(event: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the message of an event of Google's ADK, with its tokens."""
    content = mapping(event.get("content"))
    usage = mapping(event.get("usageMetadata") or event.get("usage_metadata"))
    counts = {name.lower().replace("_", ""): count for name, count in usage.items()}
    said, thought = counts.get("candidatestokencount"), counts.get("thoughtstokencount")
    tokens = {
        "prompt_tokens": counts.get("prompttokencount"),
        "completion_tokens": None if said is None else said + (thought or 0),
        "cached": counts.get("cachedcontenttokencount"),
    }
    if content:
        about = {"usage": tokens, "timestamp": event.get("timestamp")}
        agent = {"agent": event["author"]} if content.get("role") == "model" else {}
        yield {**content, **about, **agent}


def agentkit_messages(result: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the response and the results of a turn of an agent of AgentKit."""
    at, said, calls = result.get("createdAt"), [], []
    for message in objects(result.get("output")):
        if message.get("type") == "tool_call":
            asked = objects(message.get("tools"))
            calls += [
                call_part(each.get("id"), each.get("name"), each.get("input")) for each in asked
            ]
        else:
            said.append(joined_texts(message.get("content")))
    yield answer_message(joined_texts(said), calls, agent=result["agentName"], timestamp=at)
    for each in objects(result.get("toolCalls")):
        content = each.get("content")
        error = mapping(content).get("error")
        result_of = mapping(content).get("data", content) if error is None else error
        call_id = mapping(each.get("tool")).get("id")
        yield result_message(call_id, result_of, failed=error is not None, timestamp=at)


def parlant_messages(event: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the messages of an event of a session of Parlant, whose calls have no ids.

    emcie-co/parlant@ea73744 src/parlant/core/sessions.py: an event of tools has calls and results.
    """
    data, at = mapping(event["data"]), event.get("creation_utc")
    if event["kind"] == "message":
        text, is_own = data.get("message"), event["source"] == "ai_agent"
        yield answer_message(text, timestamp=at) if is_own else given_message(text, timestamp=at)
    elif event["kind"] == "tool":
        calls = objects(data.get("tool_calls"))
        ids = [f"{event['id']}-{number}" for number in range(len(calls))]
        asked = [
            call_part(call_id, call["tool_id"], call.get("arguments"))
            for call_id, call in zip(ids, calls, strict=True)
        ]
        yield answer_message("", asked, timestamp=at)
        for call_id, call in zip(ids, calls, strict=True):
            shown = text_of(mapping(call.get("result")).get("data"))
            yield result_message(call_id, shown, failed=False, timestamp=at)
