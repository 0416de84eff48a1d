"""Messages in the most common forms: GenAI's parts, and chats with tool calls.

JSON is decoded by a schema, and flat keys are read by their places. Other forms are left to
`messages`, which reads every form. A test checks that both ways agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from looptrace.analyzer.fields.flat_messages import FlatItem
from looptrace.analyzer.schema.message import Message, ToolCall, ToolResult
from looptrace.analyzer.text.payloads import arguments_of, is_redacted, result_of
from looptrace.analyzer.text.session_names import bounded_name

# Key sets of messages whose form is cached. A framework has about ten.
FORMS_KEPT = 1024
# A response that begins so may be its calls, written as a text.
CALLS_BEGIN = "["


class _Text(Struct, tag_field="type", tag="text", forbid_unknown_fields=True, gc=False):
    content: str


class _Call(Struct, tag_field="type", tag="tool_call", forbid_unknown_fields=True):
    name: str
    id: str | None = None
    arguments: Any = None


class _Result(Struct, tag_field="type", tag="tool_call_response", forbid_unknown_fields=True):
    id: str | None = None
    response: Any = None


class _Function(Struct, forbid_unknown_fields=True):
    name: str
    arguments: Any = None


class _FunctionCall(Struct, forbid_unknown_fields=True):
    function: _Function
    id: str | None = None
    type: str = "function"


_Part: TypeAlias = _Text | _Call | _Result


class _Plain(Struct, forbid_unknown_fields=True):
    """A message that names its role; a message with other keys is not of this form."""

    role: str
    parts: list[_Part] | UnsetType = UNSET
    content: str | None = None
    tool_calls: list[_FunctionCall] | None = None
    tool_call_id: str | None = None
    finish_reason: Any = None
    name: Any = None
    refusal: Any = None


_decode = msgspec.json.Decoder(_Plain).decode
_decode_list = msgspec.json.Decoder(list[_Plain]).decode


def read_plain(item: bytes, roles: Mapping[str, str]) -> Message | None:
    """Return the message in JSON, with its role renamed by `roles`; None if no form fits.

    Raises: msgspec.DecodeError: if it is no JSON.
    """
    try:
        return _read(_decode(item), roles)
    except msgspec.ValidationError:
        return None


def read_plain_list(text: str, roles: Mapping[str, str]) -> list[Message] | None:
    """Return the messages in a JSON array as `read_plain` does; None if no form fits one of them.

    Raises: msgspec.DecodeError: if it is no JSON.
    """
    try:
        read = [_read(plain, roles) for plain in _decode_list(text)]
    except msgspec.ValidationError:
        return None
    messages = [message for message in read if message is not None]
    return messages if len(messages) == len(read) else None


def _read(plain: _Plain, roles: Mapping[str, str]) -> Message | None:
    role = _role(plain.role, roles)
    if role == "tool" and plain.tool_call_id:
        return _result(plain.tool_call_id, plain.content)
    texts = [] if plain.content is None else [plain.content]
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for part in plain.parts or ():
        if isinstance(part, _Text):
            texts.append(part.content)
        elif isinstance(part, _Result):
            results.append(ToolResult(part.id or None, *result_of(part.response)))
        else:
            calls.append(_call(part.id, part.name, part.arguments))
    if plain.tool_calls:
        functions = ((asked.id, asked.function) for asked in plain.tool_calls)
        calls += [_call(call_id, each.name, each.arguments) for call_id, each in functions]
    return _message(role, texts, calls, results)


class _FlatForm(NamedTuple):
    """The places of a message's values in flat keys; a call has id, name and arguments."""

    role: int
    content: int | None
    tool_call_id: int | None
    calls: tuple[tuple[int | None, int, int | None], ...]


_FLAT_CALL = re.compile(
    r"\.message\.tool_calls\.(\d{1,3})\.tool_call\.(id|function\.(?:name|arguments))"
)


def read_plain_flat(item: FlatItem, roles: Mapping[str, str]) -> Message | None:
    """Return the message in flat keys; None if no form fits."""
    ends, values = zip(*item, strict=True)
    if not {str}.issuperset(map(type, values)) or (form := _flat_form(ends)) is None:
        return None
    texts = cast("tuple[str, ...]", values)
    role = _role(texts[form.role], roles)
    content = None if form.content is None else texts[form.content]
    if role == "tool" and form.tool_call_id is not None and texts[form.tool_call_id]:
        return _result(texts[form.tool_call_id], content)
    calls = [
        _call(
            None if call_id is None else texts[call_id],
            texts[name],
            None if arguments is None else texts[arguments],
        )
        for call_id, name, arguments in form.calls
    ]
    return _message(role, [] if content is None else [content], calls, [])


@lru_cache(maxsize=FORMS_KEPT)
def _flat_form(ends: tuple[str, ...]) -> _FlatForm | None:
    places: dict[str, int] = {end: place for place, end in enumerate(ends)}
    role = places.pop(".message.role", None)
    content, answered = (
        places.pop(".message.content", None),
        places.pop(".message.tool_call_id", None),
    )
    calls: dict[str, dict[str, int]] = {}
    for end, place in places.items():
        call = _FLAT_CALL.fullmatch(end)
        if call is None:
            return None
        calls.setdefault(call[1], {})[call[2]] = place
    named = [calls[number] for number in sorted(calls, key=int)]
    if role is None or any("function.name" not in c for c in named):
        return None
    in_order = ((c.get("id"), c["function.name"], c.get("function.arguments")) for c in named)
    return _FlatForm(role, content, answered, tuple(in_order))


def _role(role: str, roles: Mapping[str, str]) -> str:
    role = role.lower()
    return roles.get(role, role)


def _call(call_id: str | None, name: str, arguments: object) -> ToolCall:
    return ToolCall(call_id or None, bounded_name(name), arguments_of(arguments))


def _result(call_id: str, content: object) -> Message:
    return Message("tool", "", (), (ToolResult(call_id, *result_of(content)),))


def _message(
    role: str, texts: list[str], calls: list[ToolCall], results: list[ToolResult]
) -> Message | None:
    """Return a message; None if these forms do not say enough.

    That is a message without a role, a call without a name, a text that may be a call or the
    definition of a tool, or a message that may be silent.
    """
    if not role or (calls and not all(call.name for call in calls)):
        return None
    if role == "assistant" and any(text.startswith(CALLS_BEGIN) for text in texts):
        return None
    if role == "tool" and not results:  # It may be the definition of a tool.
        return None
    if results and not texts and role == "user":
        role = "tool"
    text = texts[0].strip() if len(texts) == 1 else "\n".join(texts).strip()
    if not text and not calls and not results:
        return None
    unknown = any(map(is_redacted, texts))
    return Message(role, None if unknown else text, tuple(calls), tuple(results))
