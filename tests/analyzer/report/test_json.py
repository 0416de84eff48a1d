"""The report as JSON, and its schema."""

import json
import re
from dataclasses import asdict, replace
from typing import Any

import pytest

from looptrace.analyzer.gates.events import Failure
from looptrace.analyzer.report.html import html_report
from looptrace.analyzer.report.json import json_report
from looptrace.analyzer.report.wording import WHY_TEXTS
from looptrace.analyzer.schema.spans import Skipped
from looptrace.rules.contract import ACTIONS
from tests.analyzer.report.contents import (
    HOSTILE,
    OPENED,
    OPINION,
    REASON,
    RESET,
    RESOLVED,
    TRACE,
    WARNED,
    analysis,
    finding,
    hostile_analysis,
)
from tests.paths import ROOT
from tests.schemas import conflicts, undescribed

DOCS = ROOT / "docs"


SCHEMA = "findings.schema.json"


def full_report() -> Any:
    """Write and read back a report in which no list is empty."""
    skipped = (Skipped("night.jsonl:3", "not JSON"),)
    failed = Failure(9, 0, "coder", "run_tests()", "s", "other", "E", "secret", TRACE, "f" * 16)
    gate = replace(OPENED, history=(failed,), blockers=("no key",))
    content = analysis(finding(), skipped=skipped, events=(WARNED, gate, RESOLVED, RESET))
    return json.loads(json_report(content, {"gate 10": OPINION}))


def test_json_report_keeps_to_the_documented_schema() -> None:
    """Programs are written against the schema, so the output has its fields and no others."""
    assert conflicts(full_report(), SCHEMA) == []


def test_schema_check_sees_each_kind_of_conflict() -> None:
    """A check that finds nothing must be one that can find something."""
    report = full_report()
    report["spans"] = "38"
    report["turns"] = -1
    report["schema"] = 2
    report["findings"][0]["action"] = "stop"
    report["findings"][0]["turns"][0]["extra"] = 1
    report["events"][0]["why"] = "BECAUSE"
    report["events"][1]["history"][0]["error"] = "secret"
    report["events"][1]["opinion"]["no_progress"] = "yes"
    del report["skipped"][0]["why"]

    assert set(conflicts(report, SCHEMA)) == {
        "$.spans: '38' is not of type 'integer'",
        "$.turns: -1 is less than the minimum of 0",
        "$.schema: 1 was expected",
        f"$.findings[0].action: 'stop' is not one of {list(ACTIONS)}",
        "$.findings[0].turns[0]: Additional properties are not allowed ('extra' was unexpected)",
        f"$.events[0].why: 'BECAUSE' is not one of {[*WHY_TEXTS, None]}",
        "$.events[1].history[0]: Additional properties are not allowed ('error' was unexpected)",
        "$.events[1].opinion.no_progress: 'yes' is not of type 'boolean', 'null'",
        "$.skipped[0]: 'why' is a required property",
    }


def test_documented_example_keeps_to_the_schema() -> None:
    """People copy the example before they read the table."""
    text = (DOCS / "json-schema.md").read_text("utf-8")
    example = re.search(r"```json\n(.*?)```", text, re.DOTALL)

    assert example is not None
    assert conflicts(json.loads(example[1]), SCHEMA) == []


def test_schema_describes_every_field() -> None:
    """The schema is the only list of the fields, so each has a sentence in it."""
    assert undescribed(SCHEMA) == []


def test_json_report_says_what_was_found() -> None:
    """Each value is where the schema puts it, and not only of the right type."""
    report = full_report()

    assert [report[key] for key in ("sessions", "tasks", "turns", "spans")] == [1, 3, 12, 38]
    assert report["tokens"] == {
        "input": 12_345,
        "output": 2_100,
        "cached": 9_000,
        "cache_write": 0,
        "reasoning": 0,
    }
    assert report["unknown"] == {"arguments": 0, "results": 0, "calls": 0}
    assert report["skipped"] == [{"where": "night.jsonl:3", "why": "not JSON"}]
    (found,) = report["findings"]
    assert found["reason"] == REASON
    cost = {"seconds": 46.2, "input_tokens": 690, "output_tokens": 100, "money": None}
    assert found["cost"] == cost
    assert [(turn["turn"], turn["role"]) for turn in found["turns"]][:2] == [
        (2, "first"),
        (4, "repeat"),
    ]


@pytest.mark.requirement("A14")
def test_json_report_has_every_event_with_its_directive() -> None:
    """Log shippers read from here what came about, with task, agent, time, reason and history."""
    warned, gate, resolved, reset = full_report()["events"]

    types = [one["type"] for one in (warned, gate, resolved, reset)]
    assert types == ["loop_detected", "gate_opened", "gate_resolved", "counter_reset"]
    assert {one["at"] for one in (warned, gate)} == {"2026-03-02T09:00:00.123456Z"}
    assert warned["directive"].endswith("do something else.")
    assert resolved["directive"].endswith("than before.")  # No note is quoted.
    assert reset["directive"] is None
    assert (gate["why"], gate["loop_count"], gate["history"][0]["turn"]) == ("LADDER", 4, 9)
    assert gate["opinion"] == asdict(OPINION) | {"no_opinion": None}
    assert (reset["reason"], reset["loop_count"]) == ("person", 4)


def test_json_report_keeps_what_was_said_to_itself() -> None:
    """A report that goes to a log must not carry a person's words or the text of an error."""
    talkative = replace(RESOLVED, note="secret")
    text = json_report(analysis(finding(), events=(talkative,)))

    assert "secret" not in text
    assert "secret" not in json.dumps(full_report())


@pytest.mark.parametrize("hostile", HOSTILE)
def test_json_report_is_utf8_and_loses_nothing(hostile: str) -> None:
    """JSON is read by programs and printed on terminals; only a lone surrogate cannot be kept."""
    text = json_report(hostile_analysis(hostile))

    report = json.loads(text.encode())
    kept = hostile.replace("\ud800", "\ufffd")
    assert report["skipped"] == [{"where": kept, "why": kept}]
    assert report["findings"][0]["task"] == kept
    assert all(line.isprintable() for line in text.splitlines())


def test_reports_are_the_same_every_time() -> None:
    """The same input gives the same bytes, so that reports can be compared."""
    content = analysis(finding(), finding("cycle", (1, 2, 3, 4), period=2), finding(task="b"))
    shuffled = replace(content, turns=content.turns.reverse())

    assert json_report(content) == json_report(shuffled)
    assert html_report(content) == html_report(shuffled)
