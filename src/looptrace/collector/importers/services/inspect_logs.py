"""Evaluation logs of Inspect as JSON: each sample is a conversation, and a task of its own.

The messages are those of UKGovernmentBEIS/inspect_ai@018b364 src/inspect_ai/model/_chat_message.py,
whose calls have the name of a function as text.
"""

from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.rows.messages import ApiMessage
from looptrace.collector.importers.services.conversations import conversation_rows
from looptrace.collector.importers.spans import mapping


def rows_of(record: dict[str, Any]) -> list[SpanRow]:
    """Return the rows of a log or a sample. Raises one of RECORD_ERRORS."""
    model = mapping(record.get("eval")).get("model")
    rows: list[SpanRow] = []
    for sample in record["samples"] or () if "samples" in record else [record]:
        rows += conversation_rows(list(map(_plain, sample["messages"])), model=model)
    return rows


def _plain(message: ApiMessage) -> ApiMessage:
    """Return a message as OpenAI has it; an error of a call says that it failed."""
    asked = [
        {"id": call.get("id"), "name": call["function"], "arguments": call.get("arguments")}
        for call in message.get("tool_calls") or ()
    ]
    error = mapping(message.get("error"))
    failed = {"status": "error", "content": error.get("message")} if error else {}
    return {**message, **({"tool_calls": asked} if asked else {}), **failed}
