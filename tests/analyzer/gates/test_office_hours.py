"""Minutes of waiting count in office hours, where a team has some."""

from datetime import datetime
from typing import Any

import pytest

from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.waiting import Waiting, unless_decided, waiting_for
from looptrace.analyzer.text.times import NS_PER_MINUTE
from looptrace.rules.contract import SettingError
from looptrace.rules.vocabulary import NS_PER_S

WEEK, ALWAYS, DAILY = "Mon-Fri 09:00-17:00", "Mon-Sun 00:00-24:00", "Mon-Sun 09:00-10:00"
BERLIN = "Europe/Berlin"


def ns(text: str) -> int:
    """Return nanoseconds since 1970."""
    return round(datetime.fromisoformat(text).timestamp()) * NS_PER_S


@pytest.mark.parametrize(
    ("hours", "zone", "minutes", "since", "due"),
    [
        ("", "UTC", 60, "2026-03-14T02:00:00Z", "2026-03-14T03:00:00Z"),
        (WEEK, "UTC", 60, "2026-03-13T10:00:00Z", "2026-03-13T11:00:00Z"),
        # A Friday evening goes on on Monday.
        (WEEK, "UTC", 60, "2026-03-13T16:30:00Z", "2026-03-16T09:30:00Z"),
        (WEEK, "UTC", 480, "2026-03-13T09:00:00Z", "2026-03-13T17:00:00Z"),
        (WEEK, "UTC", 481, "2026-03-13T09:00:00Z", "2026-03-16T09:01:00Z"),
        (WEEK, "UTC", 15, "2026-03-14T02:00:00Z", "2026-03-16T09:15:00Z"),
        (WEEK, "America/New_York", 60, "2026-03-13T02:00:00Z", "2026-03-13T14:00:00Z"),
        # The clocks go forward on 29 March.
        (
            "Mon-Sun 00:00-24:00",
            "Europe/Berlin",
            60,
            "2026-03-29T00:30:00Z",
            "2026-03-29T01:30:00Z",
        ),
        (
            "Mon-Sun 09:00-10:00",
            "Europe/Berlin",
            61,
            "2026-03-28T08:00:00Z",
            "2026-03-29T07:01:00Z",
        ),
        ("Sat-Sun 00:00-24:00", "UTC", 60, "2026-03-13T10:00:00Z", "2026-03-14T01:00:00Z"),
        ("Fri-Mon 09:00-10:00", "UTC", 200, "2026-03-13T00:00:00Z", "2026-03-16T09:20:00Z"),
        ("Wed 23:00-24:00", "UTC", 90, "2026-03-12T00:00:00Z", "2026-03-25T23:30:00Z"),
    ],
)
def test_minutes_count_in_office_hours(
    hours: str, zone: str, minutes: int, since: str, due: str
) -> None:
    """A gate of the night is not decided on before somebody could have seen it."""
    waiting = Waiting(decide_minutes=minutes, office_hours=hours, time_zone=zone)
    assert not waiting.is_due(minutes, ns(since), ns(due) - 1)
    assert waiting.is_due(minutes, ns(since), ns(due))
    assert not waiting.is_due(0, ns(since), 2**62)


def test_a_long_wait_in_few_hours_ends() -> None:
    """The most minutes in the shortest hours are years."""
    waiting = Waiting(decide_minutes=10_080, office_hours="Wed 09:00-10:00")
    since_ns = ns("2026-03-11T09:00:00Z")
    assert not waiting.is_due(10_080, since_ns, since_ns + 10_080 * NS_PER_MINUTE)
    assert waiting.is_due(10_080, since_ns, ns("2029-05-23T10:00:00Z"))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"office_hours": "9 to 5"}, "write days and times as Mon-Fri 09:00-17:00"),
        ({"office_hours": "Mon-Fri 17:00-09:00"}, "an hour or more"),
        ({"office_hours": "Mon-Fri 09:00-09:30"}, "an hour or more"),
        ({"office_hours": "Mon-Fri 09:00-24:30"}, "end on their day"),
        ({"office_hours": WEEK, "time_zone": "Mars/Base"}, "does not know"),
        ({"office_hours": WEEK, "time_zone": "../etc/passwd"}, "does not know"),
        ({"escalate_minutes": 5}, "^waiting.escalate_minutes and waiting.escalate_to need each"),
        ({"escalate_to": ("lead",)}, "need each other"),
        ({"decide_minutes": 9, "remind_minutes": 9}, "^waiting.decide_minutes must be more than"),
        ({"remind_minutes": -1}, "^waiting.remind_minutes is -1"),
    ],
)
def test_what_cannot_be_waited_for(given: dict[str, Any], why: str) -> None:
    """A mistake is named when the settings are read."""
    with pytest.raises(SettingError, match=why):
        Waiting(**given)


def test_people_and_agents_are_told_of_the_hours() -> None:
    """Both hear the hours in which the minutes count."""
    waiting = Waiting(decide_minutes=60, office_hours=WEEK, time_zone=BERLIN)
    hours = f"60 minutes of office hours ({WEEK} {BERLIN})"
    assert waiting.for_people == f"the task is cancelled after {hours}"
    assert waiting.for_agent == f"within {hours}, the task is cancelled"


def test_the_first_that_matches_a_gate_holds() -> None:
    """Without a filter all match; where none does, or nothing follows, nothing is said."""
    gate = GateEvent(
        *("e", "gate_opened", "t", 1, 1, "active", "active"), rule="cycle", agent="a", service="s"
    )
    other = Waiting(decide_minutes=5, rules=("hang",))
    own, every = Waiting(remind_minutes=9, rules=("cycle",)), Waiting(remind_minutes=9)
    assert waiting_for(gate, [other, own, every]) is own
    assert unless_decided(gate, [other, own]) == "a reminder comes after 9 minutes"
    assert waiting_for(gate, [other]) is None
    assert unless_decided(gate, [other]) == unless_decided(gate, [Waiting()]) == ""
    assert not Waiting(agents=("b",)).matches(gate)
    assert not Waiting(services=("t",)).matches(gate)
    assert not Waiting(rules=("cycle",), agents=("b",)).matches(gate)
