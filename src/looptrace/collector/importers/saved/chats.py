"""Chats of programs that keep messages in a form of their own, as messages of a model's API.

Kiro, before it Amazon Q, saves a conversation (aws/amazon-q-developer-cli@15cc8f3 crates/chat-cli/
src/cli/chat/conversation.rs and message.rs); data for training has `from` and `value` (hiyouga/
LLaMA-Factory@ff6d4d1 data/README.md), also with calls in tags (NousResearch/Hermes-Function-
Calling). A message of Cursor's transcripts and of Convex's agents (get-convex/agent@fd0b791
src/component/schema.ts) is within its record. ChatGPT exports a tree of messages, of which one line
is shown (mitkury/chatgpt-export-parser docs/chatgpt-data-export-format.md); Claude's export has
results within the message that asks for them (Sinity/polylogue docs/providers/claude-ai.md). Cline
and Roo have calls and results in texts where a model has no calls of its own (cline/cline@0cd9cb5
src/core/task/tools/utils/ToolResultUtils.ts, src/core/prompts/responses.ts). LangChain has types
instead of roles (langchain-core: langchain_core/messages), also in a constructor, as LangGraph
keeps them; a message of the AI SDK for a page has all steps of a run with their calls (vercel/ai:
packages/ai/src/ui/ui-messages.ts).
"""

from collections.abc import Iterator
from typing import Any

from looptrace._core import spoken
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.importers.rows.messages import ApiMessage
from looptrace.collector.importers.spans import mapping, text_of

_ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant"}
_RESULTS = ("observation", "tool", "function_response")
_CALL = "function_call"
_RESPONSE = "<tool_response>"
_SUCCESS = "success"
# Whom a message of ChatGPT is for that asks no tool.
_EVERYBODY = (None, "all")
_BLOCKS = frozenset({"text", "tool_use", "tool_result"})
_LANGCHAIN_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


def kiro_messages(history: list[Any]) -> Iterator[ApiMessage]:
    """Yield the messages of a conversation that Kiro saves."""
    for entry in map(mapping, history):
        user, about = mapping(entry.get("user")), mapping(entry.get("request_metadata"))
        _, said = _variant(entry.get("assistant"))
        _, given = _variant(user.get("content"))
        prompt, at = given.get("prompt"), user.get("timestamp")
        if prompt:
            yield {"role": "user", "content": prompt, "timestamp": at}
        for result in map(mapping, given.get("tool_use_results") or ()):
            yield {"role": "user", "timestamp": at, "content": [_kiro_result(result)]}
        calls = [
            {"type": "tool_use", "id": call.get("id"), "name": call["name"], "input": call["args"]}
            for call in said.get("tool_uses") or ()
        ]
        text = [{"type": "text", "text": said["content"]}] if said.get("content") else []
        yield {
            "role": "assistant",
            "content": [*text, *calls],
            "model": about.get("model_id"),
            "timestamp": about.get("stream_end_timestamp_ms"),
        }


def _kiro_result(result: dict[str, Any]) -> ApiMessage:
    parts = [_variant(part) for part in result.get("content") or ()]
    texts = [each if isinstance(each, str) else text_of(each) or "" for _, each in parts]
    failed = str(result.get("status")).lower() != _SUCCESS
    call_id = result.get("tool_use_id")
    content = "\n".join(texts)
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": failed}


def _variant(value: Any) -> tuple[str, Any]:
    """Return the name and the content of a variant, as Rust's serde writes it."""
    return next(iter(mapping(value).items()), ("", {}))


def training_messages(turns: list[Any]) -> Iterator[ApiMessage]:
    """Yield the messages of a conversation of training data, whose calls have no ids.

    Results are in the order of the calls. Calls and results in tags are left as texts.
    """
    for turn in map(mapping, turns):
        role, value = str(turn.get("from")), str(turn.get("value") or "")
        if role == _CALL:
            asked = [
                {"functionCall": {"name": call.get("name"), "args": call.get("arguments")}}
                for call in _objects(value)
            ]
            yield {"role": "assistant", "content": asked}
        elif role in _RESULTS and _RESPONSE not in value:
            yield {"role": "tool", "content": value}
        else:
            yield {"role": "user" if role in _RESULTS else _ROLES.get(role, role), "content": value}


def _objects(text: str) -> list[dict[str, Any]]:
    value = parsed(text)
    return [each for each in (value if isinstance(value, list) else [value]) if mapping(each)]


def chatgpt_messages(record: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the messages of an exported conversation of ChatGPT, whose calls have no ids.

    A result is that of the call before.
    """
    nodes, line, at = mapping(record["mapping"]), list[ApiMessage](), record.get("current_node")
    while at in nodes and len(line) < len(nodes):
        line.append(mapping(nodes[at].get("message")))
        at = nodes[at].get("parent")
    asked: str | None = None
    for message in reversed(line):
        role, tool = mapping(message.get("author")).get("role"), message.get("recipient")
        text = _chatgpt_text(mapping(message.get("content")))
        told = {"timestamp": message.get("create_time")}
        if role == "tool" and asked:
            yield {"role": "tool", "tool_call_id": asked, "content": text, **told}
            asked = None
        elif role == "assistant" and tool not in _EVERYBODY:
            asked = str(message.get("id"))
            call = {"name": tool, "arguments": text}
            calls = [{"id": asked, "type": "function", "function": call}]
            yield {"role": role, "content": None, "tool_calls": calls, **told}
        elif role in ("user", "assistant") and text:
            yield {"role": role, "content": text, **told}


def _chatgpt_text(content: dict[str, Any]) -> str:
    parts = [part for part in content.get("parts") or () if isinstance(part, str)]
    return content.get("text") or "\n".join(parts)


def claude_messages(messages: list[Any]) -> Iterator[ApiMessage]:
    """Yield the messages of an exported conversation of Claude; each result stands alone."""
    for message in map(mapping, messages):
        role = _ROLES.get(str(message.get("sender")), "assistant")
        said, at = list[dict[str, Any]](), message.get("created_at")
        blocks = map(mapping, message.get("content") or [{"type": "text", **message}])
        for block in (each for each in blocks if each.get("type") in _BLOCKS):
            if block["type"] != "tool_result":
                said.append(block)
                continue
            if said:
                yield {"role": role, "content": said, "timestamp": at}
            said, at = [], None
            yield {"role": "user", "content": [block]}
        if said:
            yield {"role": role, "content": said, "timestamp": at}


def inner_message(record: dict[str, Any]) -> ApiMessage:
    """Return the message within a record, with what the record tells of it."""
    about = {"timestamp": record.get("_creationTime"), "agent": record.get("agentName")}
    told = {"role": record.get("role"), "model": record.get("model"), "usage": record.get("usage")}
    known = {name: value for name, value in {**told, **about}.items() if value is not None}
    return {**known, **mapping(record["message"])}


def with_spoken(message: ApiMessage) -> ApiMessage:
    """Return a message with the calls or results of its texts as Google's API has them."""
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    parts = list(map(mapping, parts)) if isinstance(parts, list) else []
    texts = [str(part["text"]) for part in parts if part.get("type") == "text"]
    calls, results, rest = spoken(str(message.get("role")), texts)
    if not (calls or results):
        return message
    said = [{"type": "text", "text": text} for text in rest if text]
    asked = [{"functionCall": {"name": name, "args": parsed(given)}} for name, given in calls]
    told = [{"functionResponse": {"response": text}} for text in results]
    return {**message, "content": [*said, *asked, *told]}


def page_and_langchain_messages(message: ApiMessage) -> Iterator[ApiMessage]:
    """Yield a message of LangChain or of the AI SDK's page as those of an API, others as is."""
    told = _langchain_fields(message)
    parts = message.get("parts")
    if role := _LANGCHAIN_ROLES.get(_langchain_type(told)) if "role" not in told else None:
        yield _langchain_message(role, told)
    elif isinstance(parts, list) and any(_is_page_call(mapping(part)) for part in parts):
        yield from page_messages(message, list(map(mapping, parts)))
    else:
        yield message


def _langchain_fields(message: ApiMessage) -> dict[str, Any]:
    """Return the fields of a message, which may be those of a constructor, or stand in `data`."""
    names = message.get("id")
    if message.get("type") == "constructor" and isinstance(names, list) and names:
        return {**mapping(message.get("kwargs")), "type": names[-1]}
    data = mapping(message.get("data"))
    return {**data, "type": message.get("type")} if data else message


def _langchain_type(told: dict[str, Any]) -> str:
    return str(told.get("type")).lower().removesuffix("chunk").removesuffix("message")


def _langchain_message(role: str, told: dict[str, Any]) -> ApiMessage:
    content, call_id = told.get("content"), told.get("tool_call_id")
    if role == "tool":
        result = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        failed = told.get("status") == "error"
        return {"role": "user", "content": [{**result, "is_error": failed}]}
    if role != "assistant":
        return {"role": role, "content": content}
    calls = [
        {"type": "tool_use", "id": call.get("id"), "name": call["name"], "input": call.get("args")}
        for call in map(mapping, told.get("tool_calls") or ())
    ]
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [part for part in map(mapping, parts) if part.get("type") == "text" and part["text"]]
    usage, about = mapping(told.get("usage_metadata")), mapping(told.get("response_metadata"))
    cached = mapping(usage.get("input_token_details")).get("cache_read")
    made = {
        "role": role,
        "content": [*texts, *calls],
        "model": about.get("model_name") or about.get("model"),
        "usage": {**usage, "cached": cached},
    }
    return made | ({"agent": told["name"]} if told.get("name") else {})


def _is_page_call(part: dict[str, Any]) -> bool:
    return str(part.get("type")).startswith("tool-") or part.get("type") == "dynamic-tool"


def page_messages(message: ApiMessage, parts: list[dict[str, Any]]) -> Iterator[ApiMessage]:
    """Yield the steps of a message for a page: what was said and asked, and the results."""
    said, results = list[dict[str, Any]](), list[dict[str, Any]]()
    for part in [*parts, {"type": "step-start"}]:
        if part.get("type") == "step-start":
            if said:
                yield {"role": message.get("role"), "content": said}
            if results:
                yield {"role": "user", "content": results}
            said, results = [], []
        elif _is_page_call(part):
            # Up to version 4 a call is within its part.
            call = mapping(part.get("toolInvocation")) or part
            call_id = call.get("toolCallId")
            name = call.get("toolName") or str(part["type"]).removeprefix("tool-")
            given = call.get("input", call.get("args"))
            said.append({"type": "tool_use", "id": call_id, "name": name, "input": given})
            error, output = call.get("errorText"), call.get("output", call.get("result"))
            if error is not None or output is not None:
                told = text_of(output if error is None else error)
                result = {"type": "tool_result", "tool_use_id": call_id, "content": told}
                failed = error is not None or call.get("isError") is True  # so Mastra
                results.append({**result, "is_error": failed})
        elif part.get("type") == "text":
            said.append({"type": "text", "text": part.get("text")})
