"""Chat messages in every shape that frameworks write: roles, texts, calls and results."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from looptrace.analyzer.fields.flat_messages import (
    HISTORIES_KEPT,
    HISTORY_CHARS_MAX,
    FlatItem,
    FlatMessages,
    built,
)
from looptrace.analyzer.fields.plain_messages import (
    CALLS_BEGIN,
    read_plain,
    read_plain_flat,
    read_plain_list,
)
from looptrace.analyzer.fingerprint.rounds import round_words
from looptrace.analyzer.schema.message import UNNAMED, Message, ToolCall, ToolResult
from looptrace.analyzer.text.message_envelopes import defines_tool, held_in, is_definition
from looptrace.analyzer.text.payloads import arguments_of, canonical, is_redacted, parsed, result_of
from looptrace.analyzer.text.session_names import bounded_name
from looptrace.bounded_dict import BoundedDict

# As many messages as a long conversation has. Messages with a picture are too long to be cached.
ITEMS_KEPT = 1024
ITEM_BYTES_KEPT = 1 << 16
# A shorter array holds hardly more than new messages, which are read faster than looked up.
NEW_CHARS_MAX = 2048

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
_CALL_WRAPPERS = ("toolUse", "function_call", "functionCall", "tool_call", "toolRequest")
_RESULT_TYPES = {"tool_call_response", "tool-result", "tool_result", "function_call_output"}
_REASONING = ("reasoning", "thinking")
_RESULT_WRAPPERS = (
    *("toolResult", "function_response", "functionResponse"),
    *("toolResponse", "tool_call_result"),
)
_TYPES = _CALL_TYPES | _RESULT_TYPES
_TELLING_NAMES = ("function_call_name", "tool.name")  # which only calls have
# A part with none of these types and none of these keys is neither a call nor a result.
_TELLING_KEYS = frozenset(
    {*_CALL_WRAPPERS, *_RESULT_WRAPPERS, "function", "args", "toolName", *_TELLING_NAMES}
)
_PART_KEYS = frozenset({*_CALL_WRAPPERS, *_RESULT_WRAPPERS, "tool.name"})
# An item of a conversation may have an id of its own beside the `call_id`.
_CALL_ID_KEYS = ("call_id", "id", "toolCallId", "toolUseId", "tool_use_id", "tool_call_id", "ref")
_ANSWERED_ID_KEYS = (
    *("tool_use_id", "tool_call_id", "toolCallId", "toolUseId", "call_id", "id", "ref"),
)
_NAME_KEYS = ("name", "toolName", "tool_name", *_TELLING_NAMES)
_ARGUMENT_KEYS = ("arguments", "args", "input", "function_call_arguments_json", "tool.args")
_RESULT_KEYS = ("response", "result", "output", "content")
# A message without these keys has no envelope.
_ENVELOPES = frozenset({"messages", "generations", "message", "args"})
# What has none of these keys is no message, but what a message says.
_SAID_KEYS = frozenset(
    {"role", "type", "content", "contents", "text", "parts", "message", "choices"}
)
# A part of a message with one of these keys holds a picture, a sound or a file.
_MEDIA_KEYS = ("image_url", "image", "input_audio", "audio", "file", "source", "inline_data")
_REDACTED = "__REDACTED__"  # OpenInference writes this, also instead of a large picture.


# An item of a list of messages: whether it is a part of a message, and the messages in it.
_Item: TypeAlias = tuple[bool, tuple[Message, ...]]


def messages_of(value: object, role: str, conversation: str | None = None) -> Sequence[Message]:
    """Return the messages that a span's attribute holds, whatever their shape.

    `role` is the role of messages that name none. If `conversation` names the conversation of this
    history, only the messages added since its last history are read.
    """
    if isinstance(value, FlatMessages):
        messages = _read_flat(value, role, conversation)
        if messages is not None:
            return messages
        return [_message({"content": value.values()}, role)]
    if isinstance(value, str) and value.startswith("["):
        messages = _read_history(value, role, conversation)
        if messages is not None:
            return messages
    return [_message(item, role) for item in _items(parsed(value))]


def _read_history(text: str, role: str, conversation: str | None) -> Sequence[Message] | None:
    """Read a JSON array as `_read_items` does; of an array that grew, only the addition is read."""
    if conversation is None or len(text) > HISTORY_CHARS_MAX:
        return _read_items(text, role)
    begin, known = _histories.pop((conversation, role), ("", ()))
    messages: Sequence[Message] | None = None
    if begin and text.startswith(begin) and text.startswith(",", len(begin)):
        added = _read_items("[" + text[len(begin) + 1 :], role)
        messages = (*known, *added) if added else None
    if messages is None:
        messages = _read_items(text, role)
    if messages and text.endswith("]"):
        _histories[conversation, role] = text[:-1], messages
    return messages


def _read_flat(flat: FlatMessages, role: str, conversation: str | None) -> Sequence[Message] | None:
    """Read flat messages, or only what was added to them; None for parts of one message."""
    known, messages, chars = _flat_histories.pop((conversation, role), _NO_FLAT_HISTORY)
    if flat.items[: len(known)] != known:
        known, messages, chars = _NO_FLAT_HISTORY
    added = [_read_flat_item(item, role) for item in flat.items[len(known) :]]
    if not messages and added and all(is_part for is_part, _ in added):
        return None
    messages = (*messages, *(message for _, read in added for message in read))
    # Only texts are cached, because 1 and true compare equal.
    chars += flat.chars(len(known))
    if conversation and messages and chars <= HISTORY_CHARS_MAX:
        _flat_histories[conversation, role] = flat.items, messages, chars
    return messages


def _read_flat_item(item: FlatItem, role: str) -> _Item:
    plain = read_plain_flat(item, _ROLES)
    return _read_value(built(item), role) if plain is None else (False, (plain,))


# The last history of each conversation: its text without the closing bracket, and its messages.
_histories: BoundedDict[tuple[str, str], tuple[str, Sequence[Message]]] = BoundedDict(
    HISTORIES_KEPT
)
_FlatHistory: TypeAlias = tuple[list[FlatItem], tuple[Message, ...], float]
_flat_histories: BoundedDict[tuple[str | None, str], _FlatHistory] = BoundedDict(HISTORIES_KEPT)
_NO_FLAT_HISTORY: _FlatHistory = ([], (), 0.0)


def _read_items(text: str, role: str) -> list[Message] | None:
    """Read a JSON array item by item; None if it is no array, or holds one message's parts."""
    try:
        new = read_plain_list(text, _ROLES) if len(text) <= NEW_CHARS_MAX else None
        if new is not None:
            return new
        return _joined(_read(bytes(item), role) for item in _decode_items(text))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def _joined(items: Iterable[_Item]) -> list[Message] | None:
    """Return the messages of all items; None if all are parts of one message."""
    read = list(items)
    if read and all(is_part for is_part, _ in read):
        return None
    return [message for _, messages in read for message in messages]


def _read(item: bytes, role: str) -> _Item:
    return _read_kept(item, role) if len(item) <= ITEM_BYTES_KEPT else _read_item(item, role)


def _read_item(item: bytes, role: str) -> _Item:
    plain = read_plain(item, _ROLES)
    return _read_value(msgspec.json.decode(item), role) if plain is None else (False, (plain,))


def _read_value(value: object, role: str) -> _Item:
    return _is_part(value), tuple(_message(message, role) for message in _items(value))


# Each request repeats the conversation so far, so most messages have just been read.
_read_kept = lru_cache(maxsize=ITEMS_KEPT)(_read_item)


def _items(value: Any) -> list[Any]:
    """Find the messages inside the lists and envelopes around them."""
    if isinstance(value, dict) and value:
        held = held_in(value)
        if held is not value:
            return _items(held)
        return [] if is_definition(value) else [value]
    if isinstance(value, list):
        if value and all(map(_is_part, value)):
            return [{"content": value}]
        return [message for item in value for message in _items(item)]
    return [{"content": value}] if isinstance(value, str) and value else []


def _is_part(item: Any) -> bool:
    if not isinstance(item, dict) or "role" in item or "message" in item or "lc" in item:
        return False
    return "text" in item or not _PART_KEYS.isdisjoint(item)


def _message(item: Any, default_role: str) -> Message:
    for inner in ("kwargs", "data"):
        if inner in item and isinstance(item[inner], dict) and "content" in item[inner]:
            item = {**item[inner], "role": item[inner].get("type", default_role)}
    role = str(item.get("role") or item.get("type") or default_role).lower()
    role = _ROLES.get(role, role)
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    if _type(item) in _TYPES or ("toolName" in item and "role" not in item):
        _sort_part(item, texts, calls, results)
        return Message(_role_of(calls, results), "", tuple(calls), tuple(results))
    content = item.get("content", item.get("text"))
    # The id of an event that has the message of a tool is that of the call.
    answered = item.get("tool_call_id") or ("event.name" in item and item.get("id"))
    if role == "tool" and answered:
        text, failed = result_of(content)
        says_failed = True if item.get("status") == "error" else failed
        results.append(ToolResult(str(answered), text, says_failed))
    else:
        _sort_parts(item, role, texts, calls, results)
    if results and not texts and role == "user":
        role = "tool"
    if not (texts or calls or results) and _SAID_KEYS.isdisjoint(item):
        texts.append(canonical(item))  # an object that the model was asked for
    text = None if any(map(is_redacted, texts)) else "\n".join(texts).strip()
    silent = text == "" and not calls and not results and _is_silent(item)
    return Message(role, text, tuple(calls), tuple(results), silent)


def _sort_parts(
    item: dict[str, Any],
    role: str,
    texts: list[str],
    calls: list[ToolCall],
    results: list[ToolResult],
) -> None:
    """Sort the parts of a message into its texts, calls and results."""
    # OpenInference may write a text both as `content` and as the only part of `contents`.
    content = item.get("content", item.get("text"))
    said = item.get("contents") if content is None else content
    asked = item if item.get("function_call_name") else item.get("tool_calls")
    for part in (_calls_in(said, role), item.get("parts"), asked):
        if part is not None:
            _sort_part(part, texts, calls, results)
    if not calls:  # LangChain keeps what the API answered beside what it made of it.
        for part in _asked_beside(item):
            _sort_part(part, [], calls, results)


def _calls_in(said: Any, role: str) -> Any:
    """Return the calls that a response has as JSON in its text, as Koog writes them; else all."""
    if role != "assistant" or not isinstance(said, str) or not said.startswith(CALLS_BEGIN):
        return said
    calls = parsed(said)
    is_calls = isinstance(calls, list) and all(isinstance(c, dict) and _call(c) for c in calls)
    return calls if calls and is_calls else said


def _asked_beside(item: dict[str, Any]) -> list[Any]:
    """Return the calls that a message has beside its content, in the form of OpenAI's API."""
    beside = item.get("additional_kwargs")
    holders = (item, beside if isinstance(beside, dict) else {})
    asked = [holder.get("tool_calls") for holder in holders[1:]]
    old = [holder.get("function_call") for holder in holders]
    return [*filter(None, asked), *({"function_call": call} for call in old if call)]


def _is_silent(item: dict[str, Any]) -> bool:
    """Return whether a message without a text shows that it has none."""
    said = [item[key] for key in ("content", "contents", "parts") if item.get(key) is not None]
    parts = [part for value in said for part in (value if isinstance(value, list) else [value])]
    thinks = (isinstance(part, dict) and _is_thought(part) for part in parts)
    empty = (_text(part) == "" for part in parts)
    return bool(said) and all(map(any, zip(thinks, empty, strict=True)))


def _role_of(calls: list[ToolCall], results: list[ToolResult]) -> str:
    return "assistant" if calls else "tool" if results else "user"


def _sort_part(
    part: Any, texts: list[str], calls: list[ToolCall], results: list[ToolResult]
) -> None:
    """Add a part of a message to the texts, the calls or the results."""
    if isinstance(part, str):
        texts.append(part)
    elif isinstance(part, list):
        for item in part:
            _sort_part(item, texts, calls, results)
    elif isinstance(part, dict):
        is_text = _TELLING_KEYS.isdisjoint(part) and _type(part) not in _TYPES
        if not is_text and (call := _call(part)):
            calls.append(call)
        elif not is_text and (result := _result(part)):
            results.append(result)
        else:
            text = _text(part.get("message_content", part))
            if isinstance(text, str) and not _is_thought(part):
                texts.append(text)


def _is_thought(part: dict[str, Any]) -> bool:
    """Return whether a part is the model's reasoning; Google marks it by a flag."""
    return _type(part) in _REASONING or part.get("thought") is True


def _text(part: object) -> object:
    """Return the text of a part; a picture, a sound or a file gets a short text of its own."""
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
    if not _TELLING_KEYS.isdisjoint(part):
        for wrapper in _CALL_WRAPPERS:
            if isinstance(part.get(wrapper), dict):
                return _call({"type": "tool_call", **part[wrapper]})
        function = part.get("function")
        if defines_tool(function):
            return None
        if isinstance(function, dict):
            part = {**part, **function, "type": "tool_call"}
    name = next((part[key] for key in _NAME_KEYS if part.get(key)), None)
    is_call = _type(part) in _CALL_TYPES or ("args" in part and "id" in part)
    if "toolName" in part and not _type(part):
        is_call = not any(key in part for key in ("result", "output"))
    is_call = is_call or any(name in part for name in _TELLING_NAMES)
    if not is_call:
        return None
    call_id, arguments = _first(part, _CALL_ID_KEYS), arguments_of(_given(part, _ARGUMENT_KEYS))
    if not isinstance(name, str):
        name = UNNAMED if call_id or arguments is not None else ""
    return ToolCall(call_id, bounded_name(name), arguments) if name else None


def _result(part: dict[str, Any]) -> ToolResult | None:
    if not _TELLING_KEYS.isdisjoint(part):
        for wrapper in _RESULT_WRAPPERS:
            if isinstance(part.get(wrapper), dict):
                return _result({"type": "tool_result", **part[wrapper]})
    if _type(part) not in _RESULT_TYPES:
        return None
    text, failed = result_of(_given(part, _RESULT_KEYS))
    if True in (part.get("is_error"), part.get("error")) or part.get("status") == "error":
        failed = True
    origin = part.get("origin")  # Haystack shows the whole call.
    asked = origin if isinstance(origin, dict) else part
    return ToolResult(_first(asked, _ANSWERED_ID_KEYS), text, failed)


def _type(part: dict[str, Any]) -> str:
    return str(part.get("type", ""))


def _given(part: dict[str, Any], keys: tuple[str, ...]) -> Any:
    for key in keys:
        if (value := part.get(key)) is not None:
            return value
    return None


def _first(part: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    for key in keys:
        if value := part.get(key):
            return str(value)
    return None


def comes_again(given: tuple[Message, ...]) -> str | None:
    """Return the words of the last message if it follows an answer, and came before; else None.

    A hook, a goal or a wrapper puts it into each round; ids and numbers of rounds do not count.
    """
    if len(given) <= 2 or given[-1].role != "user" or given[-1].results or not given[-1].text:
        return None
    before = given[-2]
    if before.role != "assistant" or before.calls or not before.text:
        return None
    words = round_words(given[-1].text)
    earlier = (m.text for m in given[:-2] if m.role == "user" and m.text and not m.results)
    return words if words and any(round_words(text) == words for text in earlier) else None
