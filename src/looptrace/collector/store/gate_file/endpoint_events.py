"""Events of a server itself, which only endpoints hear of: about others of them, and promises."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

EndpointEventType = Literal["endpoint_disabled", "endpoint_enabled"]


@dataclass(frozen=True, slots=True)
class EndpointEvent:
    """An endpoint was disabled, or enabled again."""

    id: str
    type: EndpointEventType
    endpoint: str
    at_ns: int
    reason: str
    waiting: int  # events for it


@dataclass(frozen=True, slots=True)
class PromiseEvent:
    """The promise of a learned limit did not hold, so that it only warns."""

    id: str
    type: Literal["promise_withdrawn"]
    rule: str
    selectors: dict[str, str]  # of the turns that the limit is for
    at_ns: int
    reason: str


ServerEvent: TypeAlias = EndpointEvent | PromiseEvent
# By the type of an event, as others are events of gates.
SERVER_EVENTS: Mapping[str, type[ServerEvent]] = {
    "endpoint_disabled": EndpointEvent,
    "endpoint_enabled": EndpointEvent,
    "promise_withdrawn": PromiseEvent,
}
