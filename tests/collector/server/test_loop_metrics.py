"""Loops and gates in numbers: what the store says, and no content in labels or lines of the log."""

import logging
from pathlib import Path

import pytest

from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector.server.background.loop_answers import LoopAnswers
from looptrace.collector.server.detection.counts import DetectorCounts, Shown
from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.server.loop_metrics import LoopMetrics, log_events
from looptrace.collector.server.metrics import Metrics, of_store, of_webhooks
from looptrace.collector.server.receiver.receiver_metrics import Durations
from looptrace.collector.store import reader, writer
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.store.stored import looping, spans_of
from tests.reliability.test_metrics import samples

HOOK = Webhook("a", "https://127.0.0.1/", secrets=("env:SECRET",))


def shown(store: Path, answers: LoopAnswers | None = None) -> dict[str, float]:
    """Read what Prometheus would read of a store, with other answers than those of now."""
    log = IngestLog(store / "looptrace-store.log.db", 1_000_000)
    try:
        if answers is None:
            answers = LoopAnswers(store, lambda: 1, None)
            answers.look()
        loops = LoopMetrics(store, log, DetectorCounts(), Shown(), answers)
        metrics = Metrics(loops.instruments(), {})
        page = samples(metrics.page())
        metrics.close(1)
        return page
    finally:
        log.close()


def test_the_store_is_counted(tmp_path: Path) -> None:
    """Gates by how they stand, the time to resolution, and what loops have cost."""
    writer.ingest(spans_of(looping("s1"), looping("s2")), tmp_path)
    with reader.open_gates(tmp_path) as gates:
        first, _ = gates.gates("open")
        gates.resolve(first.id, "not_a_loop", None)
    writer.ingest(spans_of(looping("s1"), looping("s2")), tmp_path)
    page = shown(tmp_path)
    with reader.open_gates(tmp_path) as gates:
        resolved = gates.gate(first.id).gate

    assert page["looptrace_gates_open"] == 1
    assert page['looptrace_gates_resolved_total{decision="not_a_loop"}'] == 1
    assert page["looptrace_loops_stored"] == 2
    assert page["looptrace_loops_seconds"] > 0
    assert page["looptrace_gates_oldest_open_seconds"] > 0
    waited_s = ((resolved.resolved_ns or 0) - resolved.opened_ns) / NS_PER_S
    assert page["looptrace_gates_resolution_seconds_sum"] == pytest.approx(waited_s)
    assert page['looptrace_gates_resolution_seconds_bucket{le="+Inf"}'] == 1
    assert page['looptrace_gates_resolution_seconds_bucket{le="10"}'] == (waited_s <= 10)


def test_a_store_without_loops_has_its_numbers(tmp_path: Path) -> None:
    """A panel of a server that is well shows zeros, and no error."""
    writer.prepare(tmp_path)
    page = shown(tmp_path)

    assert page["looptrace_gates_open"] == page["looptrace_detection_lag_seconds"] == 0
    assert page["looptrace_gates_resolution_seconds_count"] == 0


def test_a_scrape_asks_the_store_nothing(tmp_path: Path) -> None:
    """A query of a large store takes seconds: what was answered last is shown, or nothing yet."""
    versions = iter(range(9))
    writer.ingest(spans_of(looping("s1")), tmp_path)
    answers = LoopAnswers(tmp_path, lambda: next(versions), None)
    assert "looptrace_loops_stored" not in shown(tmp_path, answers)
    answers.look()
    writer.ingest(spans_of(looping("s2")), tmp_path)
    assert shown(tmp_path, answers)["looptrace_loops_stored"] == 1
    answers.look()
    assert shown(tmp_path, answers)["looptrace_loops_stored"] == 2


def test_a_line_of_the_log_has_ids_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log has no content: neither the task's name, nor what repeats."""
    writer.ingest(spans_of(looping("secret-task")), tmp_path)
    with reader.open_gates(tmp_path) as gates:
        events = [event for _, event in gates.events()]
    with caplog.at_level(logging.INFO, "looptrace"):
        log_events(events)

    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == len(events) > 0
    assert any(line.startswith("gate_opened: rule ") for line in lines)
    assert "secret-task" not in "".join(lines)
    assert "total is" not in "".join(lines)


def test_durations_are_counted_up_to_each_bound() -> None:
    """A bound belongs to its bucket, each bucket has those before, and the last one has all."""
    durations = Durations((0.01, 0.1))
    for duration_s in (0.01, 0.02, 5.0):
        durations.add(duration_s)
    assert durations.read() == {("0.01",): 1, ("0.1",): 2, ("+Inf",): 3, ("sum",): 5.03}


def test_a_store_says_what_room_it_has_and_what_waits(tmp_path: Path) -> None:
    """The oldest event that waits for an endpoint has an age; a store without any has none."""
    store = tmp_path / "s"
    writer.ingest(spans_of(looping("s1")), store, webhooks=[HOOK])
    values = {each.name: each.read() for each in [*of_store(store), *of_webhooks(store, dict)]}
    assert values["looptrace.store.free_bytes"][()] > 0
    assert values["looptrace.webhooks.waiting"]["a",] >= 1
    assert values["looptrace.webhooks.oldest_waiting_seconds"]["a",] > 0
