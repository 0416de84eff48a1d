"""An event of each type, as logs, reports, agents, spans and webhooks have it."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from looptrace.analyzer.gates.directives import OWN, notice_of
from looptrace.analyzer.gates.event_names import (
    ATTRIBUTES,
    NAMES,
    NAMES_BEFORE,
    WEBHOOK_TEXTS,
    WEBHOOK_VALUES,
)
from looptrace.analyzer.gates.events import EventType, Failure, GateEvent
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.report.json import event_object
from looptrace.analyzer.report.log_lines import log_record
from looptrace.analyzer.settings.webhook import FORMATS
from looptrace.collector.gate_attributes import attributes_of
from looptrace.collector.webhooks.event_links import EventLinks
from looptrace.collector.webhooks.formats import body_of
from looptrace.collector.webhooks.gate_texts import Telling

WRITTEN = Path(__file__).parent / "data/events_written.json"
ACTIONS = {"loop_detected": "warn", "pivot_issued": "pivot", "gate_opened": "gate"}
FAILURE = Failure(3, 1_700_000_000_000_000_000, "coder", "t", "s", "network", "T", "e", "ab", "cd")


def event_of(event_type: EventType) -> GateEvent:
    """Return an event whose every field has a value of its own."""
    return GateEvent(
        id="id",
        type=event_type,
        task="task <a>",
        at_ns=1_772_442_000_123_456_789,
        turn=7,
        status="paused_for_intervention",
        status_before="active",
        session="session",
        trace_id="0f" * 16,
        span_id="0e" * 8,
        agent="agent",
        service="service",
        action=ACTIONS.get(event_type),  # type: ignore[arg-type]
        rule="repeated_call",
        finding="finding",
        gate="gate",
        why="LADDER",
        attempts=5,
        loop_count=4,
        signature="signature",
        turn_first=2,
        reason="reason & more",
        pivots=1,
        retry_after_s=60,
        blockers=("key", "account"),
        decision="continue",
        note="note",
        history=(FAILURE,),
        exact=False,
        signature_coarse="coarse",
        task_before="task before",
        agent_before="agent before",
    )


def written(event: GateEvent) -> dict[str, Any]:
    """Return all that is written of an event; bodies as text, so that their order counts."""
    notice = notice_of(event, OWN)
    assert notice_of(event, OWN, ["talk"]).names == ("talk",)
    return {
        "notice": repr(notice),
        "log": json.dumps(log_record(event)),
        "report": json.dumps(event_object(event, None, OWN)),
        "attributes": json.dumps(attributes_of(notice)),
        "attributes with content": json.dumps(attributes_of(notice, content=True)),
        **{
            form: body_of(form, event, Telling(EventLinks("https://x/{gate}"), "k"))[0].decode()
            for form in FORMATS
        },
    }


@pytest.mark.parametrize("event_type", get_args(EventType))
def test_what_is_written_of_an_event_stays(event_type: EventType) -> None:
    """Receivers, dashboards and scripts read these bytes, and they cannot all be changed."""
    expected = json.loads(WRITTEN.read_text(encoding="utf-8"))

    assert written(event_of(event_type)) == expected[event_type]


def test_tables_name_types_and_fields_that_exist() -> None:
    """A type without names would end a server at its first event."""
    assert set(NAMES) == set(get_args(EventType))
    assert set(ATTRIBUTES.values()) <= set(GateNotice.__slots__)
    assert {*WEBHOOK_VALUES, *WEBHOOK_TEXTS, *NAMES_BEFORE} <= set(GateEvent.__slots__)
