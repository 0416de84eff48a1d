"""One message of a conversation, whatever dialect told it: its text, its calls, its results."""

from __future__ import annotations

import msgspec


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A tool call that a model asked for; arguments are canonical, None where unknown."""

    call_id: str | None
    name: str
    arguments: str | None


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """What a tool gave back to the model; `failed` is None where the message does not say."""

    call_id: str | None
    text: str | None
    failed: bool | None


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message of a conversation; the text is None where it was redacted.

    A message is `silent` that shows that it says nothing: an empty text, no parts, or nothing but
    reasoning. One without a text may be written by who records no texts.
    """

    role: str
    text: str | None
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    silent: bool = False
