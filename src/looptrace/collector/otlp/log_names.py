"""Which log records say something of a span: GenAI events, exceptions, and AgentCore's records.

This module imports nothing, because an agent's process uses it too.
"""

from collections.abc import Mapping
from typing import Any

EVENT_NAME = "event.name"  # The attribute with an event's name, before records had a field for it.
_PREFIX, _EXCEPTION = "gen_ai.", "exception"
# What AgentCore's records have in their bodies, under the name of the scope of the span.
_DIRECTIONS = ("input", "output")


def is_genai_event(name: str, body: object) -> bool:
    """Return whether a log record is a GenAI event, by its name or what its body holds."""
    return name.startswith(_PREFIX) or (isinstance(body, Mapping) and _tells_both(body))


def is_event_of_span(name: str, body: object) -> bool:
    """Return whether a log record says something of the span that it names."""
    return name == _EXCEPTION or is_genai_event(name, body)


def _tells_both(body: Mapping[str, Any]) -> bool:
    held = [body.get(direction) for direction in _DIRECTIONS]
    return any(isinstance(each, Mapping) and "messages" in each for each in held)
