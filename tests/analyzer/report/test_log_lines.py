"""Gate events as records of a log."""

from typing import Any

import pytest

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.report.log_lines import log_record
from looptrace.analyzer.testing.notation import turns_in


def records(text: str) -> list[dict[str, Any]]:
    """Return the log records of the events of turns in the notation."""
    return [log_record(event) for event in detect(turns_in(text)).events]


@pytest.mark.requirement("A14")
def test_records_have_the_fields_that_are_asked_for() -> None:
    """A loop, a gate and a reset, each with task, agent and time."""
    found, _ = records('@A run(a)->same x3 user("Use b.")')
    gate, resolved, reset = records('@A run(a)->!"boom" x3 user("Use b.")')
    common = {"task": "example", "agent": found["agent"], "time": found["time"]}
    assert found["time"].endswith("+00:00")
    assert {**found, **common} == found
    assert found["event"] == "loop_detected"
    assert (found["loop_count"], found["exact"], found["agent"]) == (2, True, "A")
    assert found["signature"]
    assert "3 times" in found["reasoning"]

    assert gate["event"] == "gate_triggered"
    assert (gate["loop_count"], gate["why"]) == (2, "LADDER")
    assert [failure["error"] for failure in gate["failure_history"]] == ["boom"] * 3

    assert (resolved["event"], resolved["gate"]) == ("gate_resolved", gate["gate"])
    assert resolved["note"] == "Use b."
    assert (reset["event"], reset["reason"]) == ("loop_counter_reset", "person")
    assert reset["previous_count"] == 2
    assert all(
        {"task", "agent", "time"} <= set(record) for record in (found, gate, resolved, reset)
    )


@pytest.mark.requirement("A14")
def test_a_pivot_is_a_loop_that_was_detected_and_likeness_is_not_exact() -> None:
    """A reader of the log counts loops, whatever the agent had to do."""
    (pivot,) = records('say("No way.", given=error) x3')
    assert (pivot["event"], pivot["action"], pivot["exact"]) == ("loop_detected", "pivot", True)
    (talks,) = records('say("Now I would look at part {n}.", given="Go on.") x8')
    assert talks["exact"] is False
