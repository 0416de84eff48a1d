"""Chats that editors and coding agents save.

Zed's threads and the sessions of ACP (zed-industries/zed@000e783 crates/agent/src/thread.rs; acpx
src/types.ts), Continue's sessions (continuedev/continue@d0a3c0b core/index.d.ts), sessions of pi,
also within OpenClaw (badlogic/pi-mono@83378aa packages/ai/src/types.ts, packages/coding-agent/docs/
session.md, src/core/session-manager.ts), of Droid (the program in @factory/cli-linux-x64 0.215.0:
the schemas of `session_start` and `message`, and their writer), Qwen Code's chats (QwenLM/qwen-code
@015346f packages/core/src/services/chatRecordingService.ts) and chats of Copilot in VS Code
(microsoft/vscode@0f48d25 extensions/copilot/src/extension/prompt/common/intents.ts). Goose's
sessions (aaif-goose/goose@017176d crates/goose/src/session/session_manager.rs) have messages that
are read as they are. Kiro's sessions of its command line (aws/amazon-q-developer-cli@01b940e
crates/agent/src/agent/event_log.rs, agent_loop/types.rs) are an entry a line.
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
)
from looptrace.collector.importers.spans import mapping, objects, text_of

# Lines that pi prints (`pi --mode json`, @mariozechner/pi-coding-agent 0.73.1 docs/json.md) with a
# message that is not whole, or once more.
_PI_REPEATED = ("message_start", "message_update", "turn_end", "agent_end")
# Why the model makes a call of Kiro, beside the call's arguments (MeXenon/kiro-session-export
# @9835ad4 kiro-md.py).
_PURPOSE = "__tool_use_purpose"
# How a call of Continue ended.
_CONTINUE_FAILED, _CONTINUE_DONE = "errored", "done"


def zed_messages(message: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield a person's message, or a response with its results, of a thread of Zed."""
    parts = objects(mapping(message.get("User")).get("content"))
    if "User" in message:
        yield given_message("\n".join(str(part["Text"]) for part in parts if "Text" in part))
        return
    held = mapping(message["Agent"])
    parts = objects(held.get("content"))
    asked = [mapping(part.get("ToolUse")) for part in parts if "ToolUse" in part]
    calls = [
        call_part(call.get("id"), call.get("name"), call.get("raw_input") or call.get("input"))
        for call in asked
    ]
    text = "\n".join(str(part["Text"]) for part in parts if "Text" in part)
    yield answer_message(text, calls)
    for call_id, result in mapping(held.get("tool_results")).items():
        told = mapping(result)
        content = told.get("content")
        shown = (
            [mapping(each) for each in content] if isinstance(content, list) else [mapping(content)]
        )
        text = "\n".join(str(each["Text"]) for each in shown if "Text" in each)
        yield result_message(call_id, text, failed=told.get("is_error") is True)


def continue_messages(record: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the messages of a session of Continue, whose calls stand with their results."""
    answered = set[object]()
    for item in objects(record["history"]):
        message = mapping(item.get("message"))
        role, text = message.get("role"), joined_texts(message.get("content"))
        if role == "assistant":
            states = objects(item.get("toolCallStates"))
            yield answer_message(
                text,
                [
                    call_part(state.get("toolCallId"), told.get("name"), state.get("parsedArgs"))
                    for state in states
                    for told in [mapping(mapping(state.get("toolCall")).get("function"))]
                ],
                usage=message.get("usage"),
            )
            for state in states:
                status = state.get("status")
                if status in (_CONTINUE_FAILED, _CONTINUE_DONE) and state.get("output"):
                    answered.add(state.get("toolCallId"))
                    yield result_message(
                        state.get("toolCallId"),
                        "\n".join(str(each.get("content")) for each in objects(state["output"])),
                        failed=status == _CONTINUE_FAILED,
                    )
        elif role == "tool" and message.get("toolCallId") not in answered:
            yield result_message(message.get("toolCallId"), text, failed=False)
        elif role == "user":
            yield given_message(text)


def copilot_messages(record: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the messages of a chat of Copilot in VS Code: requests, and the rounds of each."""
    for request in objects(record["requests"]):
        at, model = request.get("timestamp"), request.get("modelId")
        yield given_message(mapping(request.get("message")).get("text"), timestamp=at)
        told = mapping(mapping(request.get("result")).get("metadata"))
        results = mapping(told.get("toolCallResults"))
        for turn in objects(told.get("toolCallRounds")):
            begun = turn.get("timestamp")
            calls = [
                call_part(call.get("id"), call.get("name"), call.get("arguments"))
                for call in objects(turn.get("toolCalls"))
            ]
            yield answer_message(turn.get("response"), calls, model=model, timestamp=begun)
            for call in calls:
                if call["id"] in results:
                    shown = objects(mapping(results[call["id"]]).get("content"))
                    text = "\n".join(_vscode_text(part.get("value")) for part in shown)
                    yield result_message(call["id"], text, failed=False)


def _vscode_text(value: object) -> str:
    """Return the text of a value, which may be a tree of nodes."""
    if isinstance(value, dict):
        parts = [_vscode_text(value["node"])] if "node" in value else []
        own = value.get("text")
        parts += [own] if isinstance(own, str) else []
        return "".join([*parts, *map(_vscode_text, objects(value.get("children")))])
    return text_of(value) or ""


def pi_messages(line: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the message of a line of a session of pi or of Droid, which has Anthropic's parts.

    Tokens that pi had from a cache are counted beside.
    """
    if line.get("type") in _PI_REPEATED:
        return
    message = mapping(line.get("message")) or line
    role, content = message.get("role"), message.get("content")
    at = line.get("timestamp") or message.get("timestamp")
    if role == "toolResult":
        failed = message.get("isError") is True
        result = joined_texts(content)
        yield result_message(message.get("toolCallId"), result, failed=failed, timestamp=at)
    elif role in ("user", "assistant"):
        usage = mapping(message.get("usage"))
        tokens = {
            "input_tokens": usage.get("input"),
            "output_tokens": usage.get("output"),
            "cache_read_input_tokens": usage.get("cacheRead"),
            "cache_creation_input_tokens": usage.get("cacheWrite"),
        }
        parts = list(map(_pi_part, content)) if isinstance(content, list) else content
        about = {"usage": tokens} if usage else {}
        yield {
            "role": role,
            "content": parts,
            "model": message.get("model"),
            "timestamp": at,
            **about,
        }


def _pi_part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") != "toolCall":
        return part
    return call_part(part.get("id"), part.get("name"), part.get("arguments"))


def qwen_messages(line: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the message of a line of a chat of Qwen Code, which has the form of Google's API."""
    message, usage = mapping(line.get("message")), mapping(line.get("usageMetadata"))
    result, at = mapping(line.get("toolCallResult")), line.get("timestamp")
    if result and result.get("status") == "error":
        for part in objects(message.get("parts")):
            told = mapping(part.get("functionResponse"))
            shown = mapping(told.get("response"))
            error = shown.get("error") or shown.get("output")
            yield result_message(told.get("id"), text_of(error), failed=True, timestamp=at)
    elif message:
        tokens = {
            "prompt_tokens": usage.get("promptTokenCount"),
            "completion_tokens": usage.get("candidatesTokenCount"),
            "cached": usage.get("cachedContentTokenCount"),
        }
        yield {**message, "usage": tokens, "model": line.get("model"), "timestamp": at}


def kiro_messages(line: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the messages of an entry of a session of Kiro: a prompt, a response or results."""
    data, kind = mapping(line["data"]), line["kind"]
    parts = [(str(part.get("kind")), part.get("data")) for part in objects(data.get("content"))]
    text = "\n".join(str(told) for of, told in parts if of == "text")
    if kind == "Prompt":
        yield given_message(text, timestamp=mapping(data.get("meta")).get("timestamp"))
    elif kind == "AssistantMessage":
        calls = [mapping(told) for of, told in parts if of == "toolUse"]
        yield answer_message(text, list(map(_kiro_call, calls)))
    elif kind == "ToolResults":
        for result in (mapping(told) for of, told in parts if of == "toolResult"):
            shown = [text_of(part.get("data")) or "" for part in objects(result.get("content"))]
            failed = result.get("status") == "error"
            yield result_message(result.get("toolUseId"), "\n".join(shown), failed=failed)


def _kiro_call(call: dict[str, Any]) -> dict[str, Any]:
    given = call.get("input")
    if isinstance(given, dict):
        given = {name: value for name, value in given.items() if name != _PURPOSE}
    return call_part(call.get("toolUseId"), call.get("name"), given)
