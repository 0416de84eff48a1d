"""P3: what a kill left unjudged leaves no gate open that an unbroken server would not have."""

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import polars as pl
import pytest

from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.settings.sections import default
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.server.live_detector import LiveDetector
from looptrace.collector.store import reader
from looptrace.collector.store.layout import GATES_FILE, LOG_FILE
from looptrace.collector.store.writer import writing
from tests.otlp import Trace, spans_in, tool_call
from tests.reliability.serving import until
from tests.seeds import seeds

LOG_BYTES_MAX = 1 << 30
DEADLINE_S = 30
CALLS = 6
PAGER = Webhook("pager", "https://pager.example/", "slack", actions=("gate",))
SETTINGS = replace(default(), webhooks=(PAGER,))
AGENT = {"gen_ai.operation.name": "invoke_agent"}
TOOL = tool_call("run_tests", result="Error: 1 failed", error="TestError")
TALK = {"gen_ai.conversation.id": "talk"}


def looping(name: str, named: str, other: str, at: datetime) -> list[pl.DataFrame]:
    """Return the spans of a trace that loops, by their ends, and is tied to others only so.

    It names the session with each span, or with the last one (`late`), or links to the trace
    `other` with the last one (`linked`), or with none.
    """
    trace = Trace(name, session_key=None, at=at.isoformat())
    links = [(other, "00" * 8)] if named == "linked" else []
    root = trace.span("agent", attributes=AGENT | (TALK if named != "linked" else {}), links=links)
    for _ in range(CALLS):
        trace.span("call", root, TOOL | (TALK if named == "early" else {}))
    return [spans_in(request) for request in trace.requests()]


def mixed(chance: Random) -> list[pl.DataFrame]:
    """Return the spans of a few traces; the last spans tie some of them together."""
    now = datetime.now(UTC)
    first = Trace("a", session_key=None).trace_id
    waiting = [
        looping(name, chance.choice(("early", "late", "linked")), first, now - timedelta(seconds=s))
        for name, s in zip("abc", chance.sample((90, 70, 50), 3), strict=True)
    ]
    spans = []
    while waiting := [each for each in waiting if each]:
        part = chance.choice(waiting)
        spans += [part.pop(0) for _ in range(chance.randint(1, len(part)))]
    return spans


@contextmanager
def logging(folder: Path) -> Iterator[IngestLog]:
    """Open the log of a store."""
    with SpanSpool() as none, writing(folder, SETTINGS.policy) as writer:
        writer.ingest(none)
    log = IngestLog(folder / LOG_FILE, LOG_BYTES_MAX)
    try:
        yield log
    finally:
        log.close()


def accept(log: IngestLog, spans: Sequence[pl.DataFrame]) -> None:
    """Acknowledge spans, as one request."""
    if spans:
        asyncio.run(log.accept(pl.concat(spans)))


@contextmanager
def detecting(folder: Path, log: IngestLog, after_seq: int) -> Iterator[LiveDetector]:
    """Judge what the log has, and what it gets meanwhile."""
    detector = LiveDetector(folder, SETTINGS, log, lambda _: None, lambda _: None)
    detector.start(after_seq)
    yield detector
    until(lambda: detector.counts.is_current and detector.counts.seq >= log.last_seq())
    assert detector.close(DEADLINE_S)
    assert detector.counts.failed == 0


def store(folder: Path, log: IngestLog, up_to_seq: int) -> int:
    """Store a part of the log; returns the row up to which it is stored."""
    with writing(folder, SETTINGS.policy) as writer:
        if logged := log.read(0, 1_000, up_to_seq):
            writer.add(logged.spans)
            log.drop(logged.seq)
            return logged.seq
    return 0


def gates(folder: Path) -> set[tuple[str | None, ...]]:
    """Return the gates that were not withdrawn: task, id, and what was decided."""
    with reader.open_gates(folder) as known:
        every = [*known.gates("open"), *known.gates("resolved")]
        return {(gate.task, gate.id, gate.status, gate.decision) for gate in every}


def by_task(folder: Path) -> set[tuple[str | None, ...]]:
    """Return the task of each gate that was not withdrawn, and what was decided."""
    return {(task, *stands) for task, _, *stands in gates(folder)}


def told_twice(folder: Path) -> Counter[tuple[str, str]]:
    """Return the repeated events of gates that had not changed."""
    last, twice = dict[str, str](), Counter[tuple[str, str]]()
    with closing(sqlite3.connect(folder / GATES_FILE)) as sql:
        told = sql.execute(
            "SELECT body ->> 'gate', type FROM events WHERE body ->> 'gate' <> '' ORDER BY seq"
        )
        for gate, kind in told:
            twice[gate, kind] += last.get(gate) == kind
            last[gate] = kind
    assert last
    return +twice


def decide(folder: Path, at_ns: int) -> None:
    """Resolve the open gates."""
    with reader.open_gates(folder) as known:
        for gate in known.gates("open"):
            known.resolve(gate.id, "continue", "Go on.", at_ns)


@pytest.mark.parametrize(
    ("is_decided", "statuses", "decision"),
    [(False, ["open", "withdrawn"], "withdrawn"), (True, ["resolved", "resolved"], "continue")],
)
def test_a_trace_that_is_named_before_a_kill_keeps_no_gate(
    tmp_path: Path, statuses: list[str], decision: str, *, is_decided: bool
) -> None:
    """P3: its session already has one; the decision on the other ends it, with an event."""
    at = datetime.now(UTC) - timedelta(seconds=60)
    *spans, last = [*looping("a", "early", "", at), *looping("b", "late", "", at)]
    with logging(tmp_path) as log:
        with detecting(tmp_path, log, 0):
            accept(log, spans)
        (of_trace,) = (gate for task, gate, *_ in gates(tmp_path) if task != "talk")
        accept(log, [last])
        if is_decided:
            decide(tmp_path, time.time_ns())
        with detecting(tmp_path, log, 0):
            pass
    with reader.open_gates(tmp_path) as known:
        assert sorted(gate.status for gate in known.gates()) == statuses
        ends = [e for _, e in known.events() if e.gate == of_trace and e.type == "gate_resolved"]
    assert [end.decision for end in ends] == [decision]
    assert told_twice(tmp_path) == Counter()


@pytest.mark.parametrize("is_decided", [False, True])
@pytest.mark.parametrize("seed", seeds(32))
def test_a_kill_before_judging_leaves_no_second_gate(
    tmp_path: Path, seed: int, *, is_decided: bool
) -> None:
    """P3: at any point between the last evaluated span and the last of the log, stored or not.

    A server that is not killed has the same gates for the same spans and decisions.
    """
    chance, now_ns = Random(seed), time.time_ns()
    spans = mixed(chance)
    judged = chance.randint(CALLS, len(spans))
    logged = chance.randint(judged, len(spans))
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    with logging(killed) as log:
        with detecting(killed, log, 0):
            accept(log, spans[: judged // 2])
            accept(log, spans[judged // 2 : judged])
        before = gates(killed)
        stored = store(killed, log, chance.randint(0, 2))
        accept(log, spans[judged:logged])
        if is_decided:
            decide(killed, now_ns)
        with detecting(killed, log, stored) as detector:
            until(lambda: detector.counts.is_current)
            accept(log, spans[logged:])
    with logging(whole) as log, detecting(whole, log, 0) as detector:
        accept(log, spans[:judged])
        if is_decided:
            until(lambda: detector.counts.seq)
            decide(whole, now_ns)
        accept(log, spans[judged:])
    assert before or judged < 3 * CALLS
    # A gate keeps the id that was told first, when its task may have had another name.
    assert by_task(killed) == by_task(whole)
    assert told_twice(killed) == Counter()


@pytest.mark.parametrize("seed", seeds(16))
def test_stored_tasks_are_read_when_they_get_spans(tmp_path: Path, seed: int) -> None:
    """P3: a restart on a store with an empty log decides as a server that went on."""
    chance = Random(seed)
    spans = mixed(chance)
    judged = chance.randint(CALLS, len(spans) - 1)
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    with logging(stopped) as log:
        with detecting(stopped, log, 0):
            accept(log, spans[:judged])
        stored = store(stopped, log, log.last_seq())
        with detecting(stopped, log, stored) as detector:
            until(lambda: detector.counts.is_current)
            assert detector.counts.tasks == 0
            for each in spans[judged:]:
                accept(log, [each])
    with logging(whole) as log, detecting(whole, log, 0):
        accept(log, spans[:judged])
        for each in spans[judged:]:
            accept(log, [each])
    assert by_task(stopped) == by_task(whole)
    assert told_twice(stopped) == Counter()


@pytest.mark.parametrize("is_logged", [False, True])
@pytest.mark.parametrize("is_decided", [False, True])
def test_a_gate_of_long_ago_outlasts_a_restart(
    tmp_path: Path, *, is_logged: bool, is_decided: bool
) -> None:
    """P3: its turns are not read again; more spans, in the log or later, leave it as it is."""
    now = datetime.now(UTC)
    old = looping("a", "early", "", now - timedelta(days=3))
    (new, *_) = looping("b", "early", "", now - timedelta(seconds=60))
    with logging(tmp_path) as log:
        with detecting(tmp_path, log, 0):
            accept(log, old)
        before = gates(tmp_path)
        stored = store(tmp_path, log, log.last_seq())
        if is_decided:
            decide(tmp_path, time.time_ns())
        accept(log, [new] if is_logged else [])
        with detecting(tmp_path, log, stored) as detector:
            until(lambda: detector.counts.is_current)
            accept(log, [] if is_logged else [new])
            until(
                lambda: (
                    not is_decided or all(status == "resolved" for *_, status, _ in gates(tmp_path))
                )
            )
    ((task, gate, *_),) = before
    ended = ("resolved", "continue") if is_decided else ("open", None)
    assert gates(tmp_path) == {(task, gate, *ended)}
    assert told_twice(tmp_path) == Counter()


@pytest.mark.parametrize("before", [2, 3])
def test_an_outage_over_a_restart_is_told_once(tmp_path: Path, before: int) -> None:
    """P3: the failures of before the start count, and an outage that they made is not new."""
    now, down = datetime.now(UTC) - timedelta(seconds=60), "503 Service Unavailable"
    failure = TOOL | {"error.type": "ConnectionError", "gen_ai.tool.call.result": down}
    spans = []
    for number in range(4):
        trace = Trace(f"s{number}", at=(now + timedelta(seconds=number)).isoformat())
        trace.span("call", attributes=failure, status="error")
        spans.append(spans_in(trace.request()))
    with logging(tmp_path) as log:
        with detecting(tmp_path, log, 0) as detector:
            accept(log, spans[:before])
        assert detector.counts.outages == (before == 3)
        stored = store(tmp_path, log, log.last_seq())
        with detecting(tmp_path, log, stored) as detector:
            accept(log, spans[before:])
        assert detector.counts.outages == (before == 2)
