"""Values as a span has them, and what is read of them."""

import json
from collections.abc import Mapping

from looptrace import _core
from looptrace.analyzer.fields.span_fields import span_fields_of_rows
from looptrace.analyzer.schema.message import Message
from looptrace.analyzer.schema.span_fields import SpanFields
from looptrace.analyzer.schema.spans import NO_ITEMS

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"


def fields_of(
    attributes: Mapping[str, object], events: str = NO_ITEMS, status: int = 0, trace: str = TRACE_ID
) -> SpanFields:
    """Return the fields of a span with these attributes."""
    span = (trace, "b7ad6b7169203331", None, "x", 1, 2, status, None, None, None)
    (fields,) = span_fields_of_rows([(*span, json.dumps(dict(attributes)), events, NO_ITEMS)])
    return fields


def messages_of(value: object, role: str, trace: str = TRACE_ID) -> tuple[Message, ...]:
    """Return the messages of a response's answer, for an assistant, or of what it was given."""
    is_answer = role == "assistant"
    key = "gen_ai.output.messages" if is_answer else "gen_ai.input.messages"
    fields = fields_of({"gen_ai.operation.name": "chat", key: value}, trace=trace)
    return (fields.answer if is_answer else fields.given) or ()


def arguments_of(value: object) -> str | None:
    """Return the arguments of a call."""
    return _core.arguments_of(_text(value))


def result_of(value: object) -> tuple[str | None, bool | None]:
    """Return the result of a call, and whether it says that the call failed."""
    return _core.result_of(_text(value))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
