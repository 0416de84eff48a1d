"""Waiting for a person has an end: what happens when nobody decides on a gate.

Times count from when a server first sees the gate open, within office hours where there are some.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple
from zoneinfo import ZoneInfo

from msgspec import Meta

from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.text.names import Name
from looptrace.analyzer.text.times import NS_PER_MINUTE
from looptrace.rules.contract import SettingError, check_bounds, numbers, refuse, setting
from looptrace.rules.vocabulary import NS_PER_S

Default = Literal["cancel", "continue"]

MINUTES_MAX = 7 * 24 * 60
FILTER_MAX = 50
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_OFFICE = re.compile(
    rf"(?P<first>{'|'.join(_DAYS)})(?:-(?P<last>{'|'.join(_DAYS)}))? "
    r"(?P<begin>[01]\d|2[0-3]):(?P<begin_minute>[0-5]\d)-"
    r"(?P<end>[01]\d|2[0-4]):(?P<end_minute>[0-5]\d)"
)
_HOUR_MINUTES, _DAY_MINUTES = 60, 24 * 60
_FOLLOWS = {"cancel": "the task is cancelled", "continue": "it goes on with another approach"}


class OfficeHours(NamedTuple):
    """Days of the week (0 is Monday), and minutes of these days in a time zone."""

    days: frozenset[int]
    begin_minute: int
    end_minute: int
    zone: ZoneInfo

    def of(self, day: datetime) -> tuple[int, int] | None:
        """Return the begin and the end of the hours of a local day, None for a day without any."""
        if day.weekday() not in self.days:
            return None
        midnight = datetime.combine(day.date(), time())
        minutes = (timedelta(minutes=each) for each in (self.begin_minute, self.end_minute))
        begin, end = ((midnight + each).replace(tzinfo=self.zone).timestamp() for each in minutes)
        return round(begin * NS_PER_S), round(end * NS_PER_S)


@lru_cache(maxsize=100)
def office_hours_of(text: str, zone: str) -> OfficeHours:
    """Read `Mon-Fri 09:00-17:00`.

    Raises:
        SettingError: if it is something else, is less than an hour, or no such time zone is known.
    """
    found = _OFFICE.fullmatch(text)
    if found is None:
        raise SettingError(
            f"waiting.office_hours is {text!r}; write days and times as Mon-Fri 09:00-17:00."
        )
    first, last = (_DAYS.index(found[name] or found["first"]) for name in ("first", "last"))
    days = frozenset((first + n) % len(_DAYS) for n in range((last - first) % len(_DAYS) + 1))
    begin, end = (
        int(found[name]) * _HOUR_MINUTES + int(found[f"{name}_minute"]) for name in ("begin", "end")
    )
    if not begin + _HOUR_MINUTES <= end <= _DAY_MINUTES:
        raise SettingError("waiting.office_hours must last an hour or more, and end on their day.")
    try:
        return OfficeHours(days, begin, end, ZoneInfo(zone))
    except (KeyError, ValueError, OSError) as error:
        why = f"waiting.time_zone is {zone!r}, which this system does not know; write UTC or a "
        raise SettingError(f"{why}name such as Europe/Berlin.") from error


@lru_cache(maxsize=10_000)
def _reached_ns(hours: OfficeHours, since_ns: int, minutes: int) -> int:
    """Return when so many minutes of office hours have passed since a moment."""
    left_ns = minutes * NS_PER_MINUTE
    day = datetime.fromtimestamp(since_ns / NS_PER_S, UTC).astimezone(hours.zone)
    while True:
        begin_ns, end_ns = hours.of(day) or (0, 0)
        begin_ns = max(begin_ns, since_ns)
        if begin_ns + left_ns <= end_ns:
            return begin_ns + left_ns
        left_ns -= max(0, end_ns - begin_ns)
        day += timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What happens when nobody decides on a gate. An empty filter matches every gate.

    Raises:
        SettingError: if a value is wrong.
    """

    remind_minutes: int = setting(
        0, ge=0, le=MINUTES_MAX, doc="Minutes until webhooks are notified again; 0 for never."
    )
    escalate_minutes: int = setting(
        0, ge=0, le=MINUTES_MAX, doc="Minutes until others are notified; 0 for never."
    )
    escalate_to: Annotated[tuple[Name, ...], Meta(max_length=FILTER_MAX)] = setting(
        (), doc="Names of the webhooks notified then, regardless of their filters."
    )
    decide_minutes: int = setting(
        0, ge=0, le=MINUTES_MAX, doc="Minutes until the default holds; 0 for never."
    )
    default: Default = setting(
        "cancel", doc="`cancel` stops the task; `continue` lets it go on with another approach."
    )
    office_hours: str = setting(
        "",
        doc="Days and times, as `Mon-Fri 09:00-17:00`, in which these minutes count; "
        "empty for always.",
    )
    time_zone: str = setting("UTC", doc="The time zone of the office hours, as `Europe/Berlin`.")
    rules: Annotated[tuple[Name, ...], Meta(max_length=FILTER_MAX)] = setting(
        (), doc="Only gates of these rules."
    )
    agents: Annotated[tuple[Name, ...], Meta(max_length=FILTER_MAX)] = setting(
        (), doc="Only gates of these agents."
    )
    services: Annotated[tuple[Name, ...], Meta(max_length=FILTER_MAX)] = setting(
        (), doc="Only gates of these services (service.name)."
    )

    def __post_init__(self) -> None:
        check_bounds("waiting", numbers(self))
        refuse(self._problems())

    def _problems(self) -> Iterator[str]:
        if bool(self.escalate_minutes) != bool(self.escalate_to):
            yield "waiting.escalate_minutes and waiting.escalate_to need each other."
        before = self.remind_minutes, self.escalate_minutes
        if self.decide_minutes and self.decide_minutes <= max(before):
            yield "waiting.decide_minutes must be more than the minutes of what comes before."
        try:
            _ = self._hours
        except SettingError as error:
            yield str(error)

    @property
    def _hours(self) -> OfficeHours | None:
        return office_hours_of(self.office_hours, self.time_zone) if self.office_hours else None

    def due_ns(self, minutes: int, since_ns: int) -> int | None:
        """Return when so many minutes will have passed, in office hours; None for 0 minutes."""
        if not minutes:
            return None
        hours = self._hours
        if hours is None:
            return since_ns + minutes * NS_PER_MINUTE
        return _reached_ns(hours, since_ns, minutes)

    def is_due(self, minutes: int, since_ns: int, now_ns: int) -> bool:
        """Return whether so many minutes have passed."""
        due_ns = self.due_ns(minutes, since_ns)
        return due_ns is not None and due_ns <= now_ns

    @property
    def _when(self) -> str:
        """In which hours minutes count, as a clause; "" for always."""
        return (
            f" of office hours ({self.office_hours} {self.time_zone})" if self.office_hours else ""
        )

    def matches(self, opening: GateEvent) -> bool:
        """Return whether this holds for a gate."""
        names = self.rules, self.agents, self.services
        given = opening.rule, opening.agent, opening.service
        return all(not some or one in some for some, one in zip(names, given, strict=True))

    @property
    def for_people(self) -> str:
        """What happens and when: `a reminder comes after 15 minutes; …`."""
        said: list[str] = []
        if self.remind_minutes:
            said.append(f"a reminder comes after {self.remind_minutes} minutes")
        if self.escalate_minutes:
            names = ", ".join(self.escalate_to)
            said.append(f"{names} gets it after {self.escalate_minutes} minutes")
        if self.decide_minutes:
            said.append(f"{_FOLLOWS[self.default]} after {self.decide_minutes} minutes")
        return "; ".join(said) + (self._when if said else "")

    @property
    def for_agent(self) -> str:
        """What happens to the task, as a clause; "" for nothing."""
        if not self.decide_minutes:
            return ""
        return f"within {self.decide_minutes} minutes{self._when}, {_FOLLOWS[self.default]}"


def waiting_for(opening: GateEvent, every: Iterable[Waiting]) -> Waiting | None:
    """Return the first of these that holds for a gate."""
    return next((each for each in every if each.matches(opening)), None)


def unless_decided(opening: GateEvent, every: Sequence[Waiting]) -> str:
    """Return what happens when nobody decides on a gate, for people; "" for nothing."""
    waiting = waiting_for(opening, every)
    return waiting.for_people if waiting else ""
