"""P1: the spans of a long session are stored later than others, and as if they had not been."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import polars as pl
import pytest

from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.settings.sections import default
from looptrace.collector.server.archiver import Archiver
from looptrace.collector.server.ingest import postponement
from looptrace.collector.server.ingest.ingest_log import IngestLog, spans_waiting
from looptrace.collector.server.ingest.packed_spans import Postponed, packed
from looptrace.collector.store import reader
from looptrace.collector.store.layout import LOG_FILE
from looptrace.collector.store.writer import Writer, ingest, writing
from tests.otlp import Trace, spans_in, tool_call
from tests.seeds import seeds

LOG_BYTES_MAX = 1 << 30
FOR_EVER_S = 1e9
CALLS = 4
TOOL = tool_call("run_tests", result="Error: 1 failed", error="TestError")


def trace_of(session: str, name: str, after_s: int = 0, links: tuple[str, ...] = ()) -> Trace:
    """Return a trace in which a test fails again and again."""
    at = datetime(2026, 3, 2, 9, tzinfo=UTC) + timedelta(seconds=after_s)
    trace = Trace(session, name=name, at=at.isoformat())
    root = trace.span("agent", links=[(other, "00" * 8) for other in links])
    for _ in range(CALLS):
        trace.span("call", root, TOOL)
    return trace


def spans_of(*traces: Trace) -> pl.DataFrame:
    """Return the spans of traces."""
    return spans_in(*(request for trace in traces for request in trace.requests()))


def accept(log: IngestLog, spans: pl.DataFrame) -> None:
    """Acknowledge spans, as one request."""
    asyncio.run(log.accept(spans))


class Server:
    """A log and an archiver that takes its rounds when it is told to."""

    def __init__(self, folder: Path, writer: Writer) -> None:
        self._writer = writer
        self.log = IngestLog(folder / LOG_FILE, LOG_BYTES_MAX)
        last_seq = self.log.last_seq
        self.archiver = Archiver(folder, default(), self.log, last_seq, lambda _: None)

    def round(self) -> None:
        """Store what is due."""
        self.archiver._round(self._writer)


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Serve a store, which is created; at the end the log has written all that it was told."""
    with SpanSpool() as none, writing(folder, default().policy) as writer:
        writer.ingest(none)
        server = Server(folder, writer)
        yield server
        server.log.close()


@pytest.fixture(autouse=True)
def _waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each session wait as soon as it has turns."""
    monkeypatch.setattr(postponement, "WAIT_S_A_SPAN", FOR_EVER_S)
    monkeypatch.setattr(postponement, "WAIT_S_MAX", FOR_EVER_S)


def rows(folder: Path) -> list[pl.DataFrame]:
    """Return what a store has, but for the order of buckets."""
    spans = pl.concat(reader.read_spans(folder)).sort("trace_id", "span_id")
    turns = pl.concat(reader.read_turns(folder)).sort("task", "turn", "span_id", "kind")
    found = reader.read_rows(folder, "findings", pl.lit(value=True)).sort("id")
    return [spans, turns, found]


def assert_same(folder: Path, spans: pl.DataFrame, beside: Path) -> None:
    """Check that a store is what an ingest of these spans makes."""
    ingest(spans, beside)
    for one, other in zip(rows(folder), rows(beside), strict=True):
        assert one.equals(other)


def test_only_the_session_that_is_there_waits_until_it_is_asked_for(tmp_path: Path) -> None:
    """A new session is shown soon, and a gate is shown with its turns."""
    first, second, other = trace_of("s", "1"), trace_of("s", "2", 60), trace_of("t", "1")
    with serving(tmp_path) as server:
        accept(server.log, spans_of(first))
        server.round()
        assert server.archiver.counts.seq == 1
        accept(server.log, spans_of(second, other))
        server.round()
        counts = server.archiver.counts
        assert (counts.spans, counts.spans_postponed) == (2 * (CALLS + 1), CALLS + 1)
        assert counts.seq == 1  # The second row is not stored as a whole.
        stored = pl.concat(reader.read_spans(tmp_path))["trace_id"]
        assert {*stored} == {first.trace_id, other.trace_id}
        server.archiver.ask({second.trace_id})
        server.round()
        assert (counts.seq, counts.spans_postponed) == (2, 0)
    assert spans_waiting(tmp_path) == 0
    assert_same(tmp_path, spans_of(first, second, other), tmp_path / "beside")


def test_a_session_that_is_too_large_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Many agents may send one session id; what the server takes for it should be no riddle."""
    monkeypatch.setattr("looptrace.collector.server.archiver.LARGE_SPANS", 2 * (CALLS + 1))
    with serving(tmp_path) as server:
        for session, name in (("s", "1"), ("t", "2"), ("s", "3")):
            accept(server.log, spans_of(trace_of(session, name)))
            server.archiver.ask()
            assert not caplog.messages
            server.round()
    assert caplog.messages == [f"{2 * (CALLS + 1)} spans are one session, which takes 0 MiB"]


def test_it_waits_for_a_time_that_grows_with_it_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody may ask for it, and a session of a few spans is hardly ever late."""
    monkeypatch.setattr(postponement, "WAIT_S_A_SPAN", 2.0)
    monkeypatch.setattr(postponement, "WAIT_S_MAX", 12.0)
    now_s = [100.0]
    monkeypatch.setattr("looptrace.collector.server.archiver.time.monotonic", lambda: now_s[0])
    with serving(tmp_path) as server:
        waited_s = []
        for number in range(4):
            accept(server.log, spans_of(trace_of("s", str(number), 60 * number)))
            began_s = now_s[0]
            server.round()
            while server.archiver.counts.spans_postponed:
                now_s[0] += 1
                server.round()
            waited_s.append(now_s[0] - began_s)
    assert waited_s == [0, 2 * (CALLS + 1), 12, 12]


def test_what_is_asked_for_a_moment_before_it_is_evaluated_does_not_wait(tmp_path: Path) -> None:
    """The rules tell of a gate before they say up to which row of the log they have come."""
    second = trace_of("s", "2", 60)
    with serving(tmp_path) as server:
        accept(server.log, spans_of(trace_of("s", "1")))
        server.round()
        server.archiver.ask({second.trace_id})
        server.round()
        accept(server.log, spans_of(second))
        server.round()
        assert server.archiver.counts.spans_postponed == 0
        accept(server.log, spans_of(trace_of("s", "3", 120)))
        server.round()
        assert server.archiver.counts.spans_postponed == CALLS + 1


def test_a_restart_loses_nothing_that_waits(tmp_path: Path) -> None:
    """The row of its request is gone by then."""
    spans = spans_of(trace_of("s", "1"), trace_of("s", "2", 60))
    with serving(tmp_path) as server:
        accept(server.log, spans.head(CALLS + 1))
        server.round()
        accept(server.log, spans.tail(CALLS + 1))
        server.round()
    assert spans_waiting(tmp_path) == CALLS + 1
    with serving(tmp_path) as server:
        logged = server.log.read(0, LOG_BYTES_MAX)
        assert logged is not None
        assert logged.spans.equals(spans.tail(CALLS + 1))
        server.round()
    assert spans_waiting(tmp_path) == 0
    assert_same(tmp_path, spans, tmp_path / "beside")


def test_a_full_disk_loses_nothing_that_waits(tmp_path: Path) -> None:
    """The log cannot write the spans that wait; their request stays until it can."""
    path, spans = tmp_path / LOG_FILE, spans_of(trace_of("s", "1"))
    log = IngestLog(path, LOG_BYTES_MAX)
    with closing(sqlite3.connect(path)) as sql, sql:
        sql.execute(
            "CREATE TRIGGER full BEFORE INSERT ON postponed BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    accept(log, spans)
    log.drop(1, [Postponed(1, packed(spans))])
    accept(log, spans)
    with closing(sqlite3.connect(path)) as sql, sql:
        assert sql.execute("SELECT count(*) FROM requests").fetchone() == (2,)
        sql.execute("DROP TRIGGER full")
    log.drop(2)
    log.close()
    with closing(sqlite3.connect(path)) as sql:
        assert sql.execute("SELECT count(*) FROM requests").fetchone() == (0,)
        assert sql.execute("SELECT number, spans FROM postponed").fetchall() == [(1, spans.height)]


def test_a_log_of_an_earlier_version_is_taken_over(tmp_path: Path) -> None:
    """An update meets a log with acknowledged spans."""
    path, spans = tmp_path / LOG_FILE, spans_of(trace_of("s", "1"))
    log = IngestLog(path, LOG_BYTES_MAX)
    accept(log, spans)
    log.close()
    with closing(sqlite3.connect(path)) as sql, sql:
        sql.execute("DROP TABLE postponed")
        sql.execute("PRAGMA user_version = 1")
    assert spans_waiting(tmp_path) == spans.height
    log = IngestLog(path, LOG_BYTES_MAX)
    logged = log.read(0, LOG_BYTES_MAX)
    log.close()
    assert logged is not None
    assert logged.spans.equals(spans)


@pytest.mark.parametrize("seed", seeds(16))
def test_what_waited_is_stored_as_if_it_had_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Sessions go on, links and names join them late, and servers are started again."""
    chance = Random(seed)
    monkeypatch.setattr(postponement, "WAIT_S_A_SPAN", chance.choice([1e-6, 1e-4, FOR_EVER_S]))
    monkeypatch.setattr(postponement, "BYTES_MAX", chance.choice([4_000, 1 << 20]))
    monkeypatch.setattr(postponement, "TRACES_MAX", chance.choice([1, 100]))
    traces = [trace_of(f"s{n % 3}", str(n), 60 * n) for n in range(6)]
    joining = trace_of("s3", "joining", 600, tuple(chance.choice(traces).trace_id for _ in "ab"))
    spans = spans_of(*traces, joining)
    if chance.random() < 0.5:
        spans = spans.sample(fraction=1, shuffle=True, seed=seed)
    parts = iter(list(spans.iter_slices(chance.choice([2, 5, 9]))))
    while True:
        with serving(tmp_path / "store") as server:
            for part in parts:
                accept(server.log, part)
                if chance.random() < 0.2:
                    server.archiver.ask({chance.choice(traces).trace_id})
                if chance.random() < 0.7:
                    server.round()
                if chance.random() < 0.1:
                    break
            else:
                server.archiver.ask()
                server.round()
                break
    assert spans_waiting(tmp_path / "store") == 0
    assert_same(tmp_path / "store", spans, tmp_path / "beside")
