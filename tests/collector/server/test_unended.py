"""Runs whose process says nothing more: a server counts the time since their last span."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.fields.dialect_table import SHIPPED
from looptrace.analyzer.settings.given import settings_of
from looptrace.collector.server import live_detector
from looptrace.collector.server.detection import unended
from looptrace.collector.server.detection.unended import UnendedTraces
from looptrace.collector.store import reader
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.server import test_catch_up
from tests.collector.server.test_catch_up import accept, detecting, logging
from tests.otlp import Attributes, Trace, spans_in, tool_call
from tests.reliability.serving import until

AGENT: Attributes = {"gen_ai.operation.name": "invoke_agent"}
TOOL: Attributes = tool_call("read", result="text")
AFTER_S = 600


def spans_of(trace: Trace, *, rooted: bool) -> pl.DataFrame:
    """Return a trace as one table, with or without its first span."""
    return spans_in(*trace.requests(parents_first=True)[0 if rooted else 1 :])


def run(ago_s: int = 0, *, rooted: bool = False, more: Attributes | None = None) -> pl.DataFrame:
    """Return a run whose last span is a result; its agent's span has come, or not."""
    trace = Trace("a", at=(datetime.now(UTC) - timedelta(seconds=ago_s)).isoformat())
    agent = trace.span("agent", attributes=AGENT)
    trace.span("execute_tool read", agent, {**TOOL, **(more or {})})
    return spans_of(trace, rooted=rooted)


def test_a_run_without_an_end_is_told_of_once_and_taken_back() -> None:
    """A silence that is over must not stay, and one must not grow the log for ever."""
    known, spans = UnendedTraces(SHIPPED, AFTER_S), run()
    known.note(spans, 0.0)

    assert known.due(AFTER_S - 1.0).is_empty()
    (silence,) = known.due(AFTER_S).iter_rows(named=True)
    assert silence["start_ns"] == spans["end_ns"].max()
    assert silence["end_ns"] - silence["start_ns"] == AFTER_S * 1_000_000_000
    assert "gen_ai.conversation.id" in json.loads(silence["attributes"])
    assert known.due(9 * AFTER_S).is_empty()
    known.note(run(rooted=True), 9.0 * AFTER_S)
    (over,) = known.due(9.0 * AFTER_S).iter_rows(named=True)
    assert (over["span_id"], over["attributes"]) == (silence["span_id"], "{}")
    assert over["end_ns"] > silence["end_ns"]
    assert known.due(99.0 * AFTER_S).is_empty()


@pytest.mark.parametrize("well", ["rooted", "reports", "off"])
def test_a_run_that_ended_or_reports_itself_is_left_alone(well: str) -> None:
    """The process knows better than the server whether its agent is at work."""
    known = UnendedTraces(SHIPPED, 0 if well == "off" else AFTER_S)
    more: Attributes = {"looptrace.open": True} if well == "reports" else {}
    known.note(run(rooted=well == "rooted", more=more), 0.0)

    assert known.due(9.0 * AFTER_S).is_empty()


def test_a_server_tells_of_a_run_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the server counts, and the event is that of any other loop."""
    monkeypatch.setattr(unended, "NS_PER_S", 10_000 * NS_PER_S)
    settings = settings_of({"server": {"unended_s": 1}})
    monkeypatch.setattr(test_catch_up, "SETTINGS", settings)
    monkeypatch.setattr(live_detector, "LOOK_EVERY_S", 0.05)
    with logging(tmp_path) as log, detecting(tmp_path, log, 0) as detector:
        accept(log, [run(ago_s=30)])
        until(lambda: detector.counts.events > 0)
    with reader.open_gates(tmp_path) as known:
        assert [(e.rule, e.action) for _, e in known.events()] == [("silent_agent", "warn")]
