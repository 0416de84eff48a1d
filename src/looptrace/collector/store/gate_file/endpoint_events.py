"""Events about endpoints themselves, which only other endpoints hear of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

EndpointEventType = Literal["endpoint_disabled", "endpoint_enabled"]
ENDPOINT_EVENTS: tuple[EndpointEventType, ...] = get_args(EndpointEventType)


@dataclass(frozen=True, slots=True)
class EndpointEvent:
    """An endpoint was disabled, or enabled again."""

    id: str
    type: EndpointEventType
    endpoint: str
    at_ns: int
    reason: str
    waiting: int  # events for it
