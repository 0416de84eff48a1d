"""One message of a conversation, in any dialect: its text, its calls, its results."""

import msgspec

# The name of a call that has none.
UNNAMED = "unnamed"


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A tool call that a model asked for; its arguments are canonical, None if unknown."""

    call_id: str | None
    name: str
    arguments: str | None


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """What a tool returned to the model; `failed` is None if the message does not say."""

    call_id: str | None
    text: str | None
    failed: bool | None


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message of a conversation; the text is None if it was redacted.

    A message is `silent` if it shows that it says nothing: an empty text, no parts, or nothing but
    reasoning. A message without a text may come from a writer that records no texts.
    """

    role: str
    text: str | None
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    silent: bool = False
