"""A span as it is stored, in readable JSON."""

import json  # a text may hold half a surrogate pair, which msgspec refuses
from collections.abc import Mapping
from typing import Any

from looptrace.analyzer.text.payloads import parsed

# Columns of a span whose texts are JSON themselves.
_NESTED = ("attributes", "events", "links")
# Names of attributes that hold what a model was given and said, in any dialect.
_MESSAGES = ("message", "prompt", "completion", "system_instructions")


def raw_texts(span: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the messages, the attributes and the whole of a span, each with its title."""
    whole = {name: parsed(value) if name in _NESTED else value for name, value in span.items()}
    attributes = whole["attributes"] if isinstance(whole["attributes"], dict) else {}
    messages = {
        name: parsed(value)
        for name, value in attributes.items()
        if any(part in name for part in _MESSAGES)
    }
    texts = [("Messages", messages), ("Raw attributes", attributes), ("The span as JSON", whole)]
    return [(title, _readable(value)) for title, value in texts if value]


def _readable(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
