"""Evaluation logs of Inspect as JSON: each sample is a conversation, and a task of its own.

The messages are those of UKGovernmentBEIS/inspect_ai@018b364 src/inspect_ai/model/_chat_message.py,
whose calls have the name of a function as text. The usage of a response stands in an event with the
id of its message (inspect-ai 0.3.285, recorded).
"""

from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.rows.messages import ApiMessage
from looptrace.collector.importers.saved.conversations import conversation_rows
from looptrace.collector.importers.spans import mapping, objects

# What was cached is counted beside the rest of the input.
_USAGE = (
    ("input_tokens", "input_tokens"),
    ("output_tokens", "output_tokens"),
    ("input_tokens_cache_read", "cache_read_input_tokens"),
    ("input_tokens_cache_write", "cache_creation_input_tokens"),
)


def rows_of(record: dict[str, Any]) -> list[SpanRow]:
    """Return the rows of a log or a sample. Raises one of RECORD_ERRORS."""
    model = mapping(record.get("eval")).get("model")
    rows: list[SpanRow] = []
    for sample in record["samples"] or () if "samples" in record else [record]:
        used = dict(map(_usage, objects(sample.get("events"))))
        told = [_plain(message, used.get(message.get("id"))) for message in sample["messages"]]
        rows += conversation_rows(told, model=model)
    return rows


def _usage(event: dict[str, Any]) -> tuple[object, dict[str, Any]]:
    """Return the id of an event's response, and its usage as Anthropic has it."""
    output = mapping(event.get("output"))
    answer = mapping(next(iter(objects(output.get("choices"))), {}).get("message"))
    usage = mapping(output.get("usage"))
    return answer.get("id"), {own: usage[name] for name, own in _USAGE if name in usage}


def _plain(message: ApiMessage, usage: dict[str, Any] | None) -> ApiMessage:
    """Return a message as OpenAI has it; an error of a call says that it failed."""
    asked = [
        {"id": call.get("id"), "name": call["function"], "arguments": call.get("arguments")}
        for call in message.get("tool_calls") or ()
    ]
    error = mapping(message.get("error"))
    failed = {"status": "error", "content": error.get("message")} if error else {}
    spent = {"usage": usage} if usage else {}
    return {**message, **({"tool_calls": asked} if asked else {}), **failed, **spent}
