"""Waiting for a person has an end: what happens when nobody decides on a gate.

Times count from when a server first sees the gate open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.text.names import Name
from looptrace.rules.contract import check_bounds, numbers, refuse, setting

Default = Literal["cancel", "continue"]

MINUTES_MAX = 7 * 24 * 60
FILTER_MAX = 50
_FOLLOWS = {"cancel": "the task is cancelled", "continue": "it goes on with another approach"}


@dataclass(frozen=True, slots=True)
class Waiting:
    """What happens when nobody decides on a gate. An empty filter matches every gate.

    Raises:
        SettingError: if a value is wrong.
    """

    remind_minutes: int = setting(
        0, ge=0, le=MINUTES_MAX, doc="Minutes until webhooks are told again; 0 for never."
    )
    escalate_minutes: int = setting(
        0, ge=0, le=MINUTES_MAX, doc="Minutes until others are told; 0 for never."
    )
    escalate_to: Annotated[
        tuple[Name, ...],
        Meta(
            max_length=FILTER_MAX,
            description="Names of the webhooks notified then, regardless of their filters.",
        ),
    ] = ()
    decide_minutes: int = setting(
        0, ge=0, le=MINUTES_MAX, doc="Minutes until the default holds; 0 for never."
    )
    default: Annotated[
        Default,
        Meta(
            description="`cancel` stops the task; `continue` lets it go on with another approach."
        ),
    ] = "cancel"
    rules: Annotated[
        tuple[Name, ...], Meta(max_length=FILTER_MAX, description="Only gates of these rules.")
    ] = ()
    agents: Annotated[
        tuple[Name, ...], Meta(max_length=FILTER_MAX, description="Only gates of these agents.")
    ] = ()
    services: Annotated[
        tuple[Name, ...],
        Meta(max_length=FILTER_MAX, description="Only gates of these services (service.name)."),
    ] = ()

    def __post_init__(self) -> None:
        check_bounds("waiting", numbers(self))
        refuse(self._problems())

    def _problems(self) -> Iterator[str]:
        if bool(self.escalate_minutes) != bool(self.escalate_to):
            yield "waiting.escalate_minutes and waiting.escalate_to need each other."
        before = self.remind_minutes, self.escalate_minutes
        if self.decide_minutes and self.decide_minutes <= max(before):
            yield "waiting.decide_minutes must be more than the minutes of what comes before."

    def matches(self, opening: GateEvent) -> bool:
        """Return whether this holds for a gate."""
        names = self.rules, self.agents, self.services
        given = opening.rule, opening.agent, opening.service
        return all(not some or one in some for some, one in zip(names, given, strict=True))

    @property
    def for_people(self) -> str:
        """What happens and when: `told again after 15 minutes; the task is cancelled after 60`."""
        said: list[str] = []
        if self.remind_minutes:
            said.append(f"it is told again after {self.remind_minutes} minutes")
        if self.escalate_minutes:
            names = ", ".join(self.escalate_to)
            said.append(f"{names} is told after {self.escalate_minutes} minutes")
        if self.decide_minutes:
            said.append(f"{_FOLLOWS[self.default]} after {self.decide_minutes} minutes")
        return "; ".join(said)

    @property
    def for_agent(self) -> str:
        """What happens to the task, as a clause; "" for nothing."""
        if not self.decide_minutes:
            return ""
        return f"within {self.decide_minutes} minutes, {_FOLLOWS[self.default]}"


def waiting_for(opening: GateEvent, every: Iterable[Waiting]) -> Waiting | None:
    """Return the first of these that holds for a gate."""
    return next((each for each in every if each.matches(opening)), None)


def unless_decided(opening: GateEvent, every: Sequence[Waiting]) -> str:
    """Return what happens when nobody decides on a gate, for people; "" for nothing."""
    waiting = waiting_for(opening, every)
    return waiting.for_people if waiting else ""
