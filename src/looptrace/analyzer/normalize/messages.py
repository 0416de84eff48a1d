"""Chat messages in every shape that frameworks write: who said what, which calls, which results."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from looptrace.analyzer.text.payloads import arguments_of, canonical, is_redacted, parsed, result_of

# As many messages as a long conversation has, but none that holds a picture.
ITEMS_KEPT = 1024
ITEM_BYTES_KEPT = 1 << 16

_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_ROLES = {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "function": "tool",
    "developer": "system",
}
_CALL_TYPES = {
    "tool_call",
    "tool-call",
    "tool_use",
    "function_call",
    "function",
    "server_tool_call",
}
_CALL_WRAPPERS = ("toolUse", "function_call", "functionCall", "tool_call")
_RESULT_TYPES = {"tool_call_response", "tool-result", "tool_result", "function_call_output"}
_RESULT_WRAPPERS = ("toolResult", "function_response", "functionResponse")
_CALL_ID_KEYS = ("id", "toolCallId", "toolUseId", "call_id", "tool_use_id", "tool_call_id")
_ARGUMENT_KEYS = ("arguments", "args", "input")
_RESULT_KEYS = ("response", "result", "output", "content")
# A part of a message with one of these holds a picture, a sound or a file.
_MEDIA_KEYS = ("image_url", "image", "input_audio", "audio", "file", "source", "inline_data")
_REDACTED = "__REDACTED__"  # What OpenInference writes, also instead of a large picture.
# A number in a key with more digits is no number of a message, and a key with more parts no key.
_INDEX_DIGITS_MAX = 9
_KEY_PARTS_MAX = 50


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that a model asked for; arguments are canonical, None where unknown."""

    call_id: str | None
    name: str
    arguments: str | None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back to the model; `failed` is None where the message does not say."""

    call_id: str | None
    text: str | None
    failed: bool | None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; the text is None where it was redacted."""

    role: str
    text: str | None
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]


def messages_of(value: object, role: str) -> list[Message]:
    """Return the messages that a span's attribute holds, whatever their shape.

    `role` is whose they are where they do not say.
    """
    if isinstance(value, str) and value.startswith("["):
        found = _read_items(value, role)
        if found is not None:
            return found
    return [_message(item, role) for item in _items(parsed(value))]


def _read_items(text: str, role: str) -> list[Message] | None:
    """Read a JSON array item by item; None where it is none, or is one message's parts."""
    try:
        items = [_read(bytes(item), role) for item in _decode_items(text)]
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None
    if items and all(is_part for is_part, _ in items):
        return None
    return [message for _, messages in items for message in messages]


def _read(item: bytes, role: str) -> tuple[bool, tuple[Message, ...]]:
    return _read_kept(item, role) if len(item) <= ITEM_BYTES_KEPT else _read_item(item, role)


def _read_item(item: bytes, role: str) -> tuple[bool, tuple[Message, ...]]:
    value = msgspec.json.decode(item)
    return _is_part(value), tuple(_message(one, role) for one in _items(value))


# Each request repeats the conversation so far, so that most messages were just read.
_read_kept = lru_cache(maxsize=ITEMS_KEPT)(_read_item)


def nested(attributes: dict[str, Any], prefix: str) -> list[Any]:
    """Build messages out of flat keys such as `llm.input_messages.1.message.role`.

    Their numbers have gaps, so they only give the order. Of a value and of keys below it at one
    place the keys count, whichever comes first.
    """
    root: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith(prefix):
            *parents, last = key[len(prefix) :].split(".", _KEY_PARTS_MAX)
            node = root
            for part in parents:
                if not isinstance(node.get(part), dict):
                    node[part] = {}
                node = node[part]
            if not isinstance(node.get(last), dict):
                node[last] = value
    numbered = {key: child for key, child in root.items() if _is_index(key)}
    return list(_numbers_to_lists(numbered))


def _is_index(key: str) -> bool:
    return key.isdecimal() and len(key) <= _INDEX_DIGITS_MAX


def _numbers_to_lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if all(_is_index(key) for key in node):
        return [_numbers_to_lists(node[key]) for key in sorted(node, key=int)]
    return {key: _numbers_to_lists(value) for key, value in node.items()}


def _items(value: Any) -> Iterator[Any]:
    """Find the messages within the lists and envelopes that are put round them."""
    if isinstance(value, list):
        if value and all(_is_part(item) for item in value):
            yield {"content": value}
            return
        for item in value:
            yield from _items(item)
    elif isinstance(value, dict) and value:
        for envelope in ("messages", "generations"):
            if isinstance(value.get(envelope), list):
                yield from _items(value[envelope])
                return
        if isinstance(value.get("message"), dict):
            yield from _items(value["message"])
        elif isinstance(value.get("args"), list) and "kwargs" in value:
            yield from _items(value["args"])
        else:
            yield value
    elif isinstance(value, str) and value:
        yield {"content": value}


def _is_part(item: Any) -> bool:
    if not isinstance(item, dict) or "role" in item or "message" in item or "lc" in item:
        return False
    return "text" in item or any(key in item for key in _CALL_WRAPPERS + _RESULT_WRAPPERS)


def _message(item: Any, default_role: str) -> Message:
    for inner in ("kwargs", "data"):
        if isinstance(item.get(inner), dict) and "content" in item[inner]:
            item = {**item[inner], "role": item[inner].get("type", default_role)}
    role = str(item.get("role") or item.get("type") or default_role).lower()
    role = _ROLES.get(role, role)
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    if _type(item) in _CALL_TYPES | _RESULT_TYPES:
        _sort_part(item, texts, calls, results)
        return Message(_role_of(calls, results), "", tuple(calls), tuple(results))
    content = item.get("content", item.get("text"))
    if role == "tool" and item.get("tool_call_id"):
        text, failed = result_of(content)
        says_failed = True if item.get("status") == "error" else failed
        results.append(ToolResult(str(item["tool_call_id"]), text, says_failed))
    else:
        # OpenInference may write one text both as `content` and as the only part of `contents`.
        said = item.get("contents") if content is None else content
        for part in (said, item.get("parts"), item.get("tool_calls")):
            _sort_part(part, texts, calls, results)
    if results and not texts and role == "user":
        role = "tool"
    text = None if any(map(is_redacted, texts)) else "\n".join(texts).strip()
    return Message(role, text, tuple(calls), tuple(results))


def _role_of(calls: list[ToolCall], results: list[ToolResult]) -> str:
    return "assistant" if calls else "tool" if results else "user"


def _sort_part(
    part: Any, texts: list[str], calls: list[ToolCall], results: list[ToolResult]
) -> None:
    """Put a part of a message where it belongs: with the texts, the calls or the results."""
    if isinstance(part, str):
        texts.append(part)
    elif isinstance(part, list):
        for item in part:
            _sort_part(item, texts, calls, results)
    elif isinstance(part, dict):
        if call := _call(part):
            calls.append(call)
        elif result := _result(part):
            results.append(result)
        else:
            text = _text(part.get("message_content", part))
            if isinstance(text, str) and _type(part) not in ("reasoning", "thinking"):
                texts.append(text)


def _text(part: object) -> object:
    """Return the text of a part; for a picture and the like a short one that only it has."""
    if not isinstance(part, dict):
        return part
    text = part.get("text", part.get("content"))
    if text is not None or not any(part.get(key) for key in _MEDIA_KEYS):
        return text
    content = canonical(part)
    if _REDACTED in content:
        return _REDACTED
    return f"<{_type(part)} {zlib.crc32(content.encode('utf-8', 'surrogatepass')):08x}>"


def _call(part: dict[str, Any]) -> ToolCall | None:
    for wrapper in _CALL_WRAPPERS:
        if isinstance(part.get(wrapper), dict):
            return _call({"type": "tool_call", **part[wrapper]})
    function = part.get("function")
    if isinstance(function, dict):
        part = {**part, **function, "type": "tool_call"}
    name = part.get("name") or part.get("toolName")
    is_call = _type(part) in _CALL_TYPES or ("args" in part and "id" in part)
    if not is_call or not isinstance(name, str):
        return None
    return ToolCall(_first(part, _CALL_ID_KEYS), name, arguments_of(_given(part, _ARGUMENT_KEYS)))


def _result(part: dict[str, Any]) -> ToolResult | None:
    for wrapper in _RESULT_WRAPPERS:
        if isinstance(part.get(wrapper), dict):
            return _result({"type": "tool_result", **part[wrapper]})
    if _type(part) not in _RESULT_TYPES:
        return None
    text, failed = result_of(_given(part, _RESULT_KEYS))
    if part.get("is_error") is True or part.get("status") == "error":
        failed = True
    keys = ("tool_use_id", "tool_call_id", "toolCallId", "toolUseId", "call_id", "id")
    return ToolResult(_first(part, keys), text, failed)


def _type(part: dict[str, Any]) -> str:
    return str(part.get("type", ""))


def _given(part: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((part[key] for key in keys if part.get(key) is not None), None)


def _first(part: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((str(part[key]) for key in keys if part.get(key)), None)
