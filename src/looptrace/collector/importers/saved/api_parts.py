"""Parts of messages of a model's API, in the form that the core reads."""

from collections.abc import Iterable
from typing import Any

from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.importers.rows.messages import ApiMessage
from looptrace.collector.importers.spans import mapping, text_of


def text_part(text: object) -> dict[str, Any]:
    """Return a part with a text."""
    return {"type": "text", "text": text_of(text) or ""}


def call_part(call_id: object, name: object, given: object) -> dict[str, Any]:
    """Return the part of a call, whose arguments may be JSON in a text."""
    return {"type": "tool_use", "id": call_id, "name": str(name), "input": parsed(given)}


def given_message(text: object, role: str = "user", **told: Any) -> ApiMessage:
    """Return a message to the model, with what is known of it, such as its time."""
    return {"role": role, "content": text, **told}


def answer_message(text: object, calls: Iterable[dict[str, Any]] = (), **told: Any) -> ApiMessage:
    """Return a response of the model: its text, and its calls."""
    said = [text_part(text)] if text else []
    return {"role": "assistant", "content": [*said, *calls], **told}


def result_message(call_id: object, result: object, *, failed: bool, **told: Any) -> ApiMessage:
    """Return the message with the result of a call, or with its error."""
    part = {"type": "tool_result", "tool_use_id": call_id, "content": text_of(result)}
    return {"role": "user", "content": [{**part, "is_error": failed}], **told}


def joined_texts(value: object) -> str | None:
    """Return a text, or the texts of the parts in a list."""
    if not isinstance(value, list):
        return text_of(value)
    texts = [part if isinstance(part, str) else mapping(part).get("text") for part in value]
    return "\n".join(text for text in texts if isinstance(text, str))
