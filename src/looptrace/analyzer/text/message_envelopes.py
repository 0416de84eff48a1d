"""What requests and responses of APIs wrap around messages, and definitions of tools."""

from __future__ import annotations

from typing import Any

from looptrace.analyzer.text.payloads import parsed

# A function with one of these keys, and without arguments, is the definition of a tool.
_DEFINING_KEYS = frozenset({"parameters", "description", "input_schema", "inputSchema", "strict"})
# The fields of requests and responses that hold messages: of LangChain, OpenAI, Google and Vercel.
_HOLDERS = (
    *("messages", "generations", "choices", "candidates", "contents", "output", "input", "prompt"),
)
# What has one of these keys is a message or a part of one, whatever else it has.
_MESSAGE_KEYS = frozenset(
    {
        *("role", "content", "parts", "name", "toolName", "function"),
        *("toolUse", "function_call", "functionCall", "tool_call"),
        *("toolResult", "function_response", "functionResponse", "call_id", "tool_call_id"),
    }
)
# A message without these keys has no envelope.
_ENVELOPES = frozenset({*_HOLDERS, "message", "args"})


def held_in(value: dict[str, Any]) -> Any:
    """Return what the envelope of an API holds; the value itself if it is none."""
    if isinstance(value.get("content"), dict) and not {"role", "type"} & value.keys():
        return value["content"]  # Google's candidate, which has one message
    if _ENVELOPES.isdisjoint(value):
        return value
    is_message = not _MESSAGE_KEYS.isdisjoint(value)
    for name in _HOLDERS:
        held = value.get(name)
        if isinstance(held, list) and name in ("messages", "generations"):
            return held
        # `input` and `output` are also parts of calls and results.
        if held and not is_message and _holds(held):
            return held
    if isinstance(value.get("message"), dict):
        return value["message"]
    if isinstance(value.get("args"), list) and "kwargs" in value:
        return value["args"]
    return value


def _holds(held: object) -> bool:
    """Return whether what a field has may be messages: a text, or objects."""
    if isinstance(held, list):
        return all(isinstance(item, dict) for item in held)
    return isinstance(held, str) or (isinstance(held, dict) and "content" in held)


def is_definition(item: dict[str, Any]) -> bool:
    """Return whether a message is only the definition of a tool, as LangChain's callbacks send."""
    if item.get("role") != "tool" or item.get("tool_call_id"):
        return False
    content = parsed(item.get("content"))
    return isinstance(content, dict) and defines_tool(content.get("function", content))


def defines_tool(function: object) -> bool:
    """Return whether an object is the definition of a tool and no call of it."""
    return (
        isinstance(function, dict)
        and "name" in function
        and not _DEFINING_KEYS.isdisjoint(function)
        and not any(key in function for key in ("arguments", "args", "input"))
    )
