"""P25: a server that stops in the middle of its work says so in a line, and loses nothing."""

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.settings.sections import default
from looptrace.collector.server.archiver import Archiver
from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.server.live_detector import LiveDetector
from looptrace.collector.store.layout import LOG_FILE
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.writer import writing
from tests.otlp import Trace, spans_in
from tests.reliability.serving import until

END_S = 30.0
ROWS = 20


@pytest.fixture
def log(tmp_path: Path) -> IngestLog:
    """Return the log of a store, with a few requests."""
    with SpanSpool() as none, writing(tmp_path, default().policy) as writer:
        writer.ingest(none)
    log = IngestLog(tmp_path / LOG_FILE, 1 << 30)
    for number in range(ROWS):
        trace = Trace(f"s{number}")
        trace.span("call")
        asyncio.run(log.accept(spans_in(trace.request())))
    return log


def test_a_closed_log_says_so(log: IngestLog) -> None:
    """A reader that mistook a closed log for an empty one would lose unread spans."""
    log.close()
    for ask in (log.last_seq, lambda: log.read(0, 9), lambda: log.waiting_since_ns(0)):
        with pytest.raises(StoreError, match="is closed; the next start goes on with what it has"):
            ask()


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged as an error."""
    return [row.getMessage() for row in caplog.records if row.levelno >= logging.ERROR]


def test_storing_that_did_not_end_in_time_ends_without_a_traceback(
    tmp_path: Path, log: IngestLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Storing takes longer than a stop waits for it, and asks a log that was closed."""
    closed = threading.Event()

    def close(_: int) -> None:
        log.close()
        closed.set()

    archiver = Archiver(tmp_path, default(), log, lambda: ROWS, close)
    archiver.start()
    assert closed.wait(END_S)
    assert archiver.close(END_S)
    assert errors(caplog) == []


def test_judging_that_did_not_end_in_time_ends_without_a_traceback(
    tmp_path: Path, log: IngestLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Catching up takes longer than a stop waits for it."""
    detector = LiveDetector(tmp_path, default(), log, lambda _: log.close(), lambda _: None)
    detector.start(0)
    until(lambda: detector.counts.is_current)
    assert detector.close(END_S)
    assert errors(caplog) == []
