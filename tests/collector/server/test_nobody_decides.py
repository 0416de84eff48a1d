"""A server sees to gates on which nobody decides."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from looptrace.analyzer.gates import waiting
from looptrace.analyzer.gates.waiting import Waiting
from looptrace.collector.server import live_detector
from looptrace.collector.store import reader
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.server import test_catch_up
from tests.collector.server.test_catch_up import accept, detecting, gates, logging, looping
from tests.reliability.serving import until


def test_a_server_reminds_and_decides_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision takes effect as that of a person does."""
    monkeypatch.setattr(waiting, "NS_PER_MINUTE", NS_PER_S // 10)
    monkeypatch.setattr(live_detector, "ATTEND_EVERY_S", 0.0)
    seen_to = (Waiting(remind_minutes=1, decide_minutes=20),)
    settings = replace(test_catch_up.SETTINGS, waiting=seen_to)
    monkeypatch.setattr(test_catch_up, "SETTINGS", settings)
    spans = looping("a", "early", "", datetime.now(UTC) - timedelta(seconds=60))

    with logging(tmp_path) as log, detecting(tmp_path, log, 0):
        accept(log, spans)
        until(lambda: {status for *_, status, _ in gates(tmp_path)} == {"resolved"})
    with reader.open_gates(tmp_path) as known:
        (gate,) = known.gates()
        types = [event.type for _, event in known.events() if event.gate == gate.id]
    assert (gate.decision, gate.resolved_by) == ("cancel", "default")
    assert types == ["gate_opened", "gate_unanswered", "gate_resolved"]
