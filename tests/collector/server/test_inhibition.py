"""An outage holds back the pages of the loops that it causes, all but the first."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.engine.outages import OutageSettings
from looptrace.collector.store import reader
from tests.collector.server import test_catch_up
from tests.collector.server.test_catch_up import accept, detecting, gates, logging
from tests.otlp import Trace, spans_in, tool_call
from tests.reliability.serving import until

SESSIONS = 5
TIMED_OUT = tool_call(
    "fetch", '{"page": "news"}', result="TimeoutError: request timed out", error="TimeoutError"
)


def timing_out(session: str, service: str, at: datetime) -> list[pl.DataFrame]:
    """Return the spans of a session that times out again and again, by their ends."""
    trace = Trace(session, service=service, at=at.isoformat())
    for _ in range(6):
        trace.span("execute_tool fetch", attributes=TIMED_OUT, status="error")
    return [spans_in(request) for request in trace.requests()]


@pytest.mark.parametrize(
    ("inhibits", "age_s", "paged"),
    [
        (True, 60, 1),
        (False, 60, SESSIONS),
        (True, 1_000, SESSIONS),  # It has long ended, and each gate still waits.
    ],
)
def test_of_the_gates_of_an_outage_the_first_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inhibits: bool, age_s: int, paged: int
) -> None:
    """Agents of two services meet it, and all of their gates are open."""
    settings = replace(test_catch_up.SETTINGS, outages=OutageSettings(inhibits=inhibits))
    monkeypatch.setattr(test_catch_up, "SETTINGS", settings)
    at = datetime.now(UTC) - timedelta(seconds=age_s)
    sessions = [timing_out(f"s{n}", ("shop", "bank")[n % 2], at) for n in range(SESSIONS)]
    # A server hears of the sessions at the same time.
    spans = [each for together in zip(*sessions, strict=True) for each in together]
    with logging(tmp_path) as log, detecting(tmp_path, log, 0):
        for each in spans:
            accept(log, [each])
        until(lambda: len(gates(tmp_path)) == SESSIONS)
    with reader.open_gates(tmp_path) as known:
        rows = known._rows(
            "SELECT silence IS NULL FROM outbox JOIN events ON id = event "
            "WHERE type = 'gate_opened'"
        )
        assert sum(is_sent for (is_sent,) in rows) == paged
        silences = known.silences()
        assert sum(each.held for each in silences) == SESSIONS - paged
        assert {gate.status for gate in known.gates()} == {"open"}
    assert len(silences) == (0 if paged > 1 else 2)  # One for each incident.
    assert all("timed out" not in each.why and "sessions met" in each.why for each in silences)
    assert all((each.who or "").startswith("outage ") for each in silences)
