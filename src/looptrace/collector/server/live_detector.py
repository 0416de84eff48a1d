"""The live engine of a server: it runs the rules on committed spans, and records events."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import polars as pl

from looptrace.analyzer.engine.live import Fed
from looptrace.analyzer.engine.live_spans import LiveSpans
from looptrace.analyzer.engine.live_task import HORIZON_S
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.resolutions import resolution_turns, with_decisions
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.schema.turns import TURN_SCHEMA, TurnTuple
from looptrace.analyzer.settings.sections import Settings
from looptrace.collector.server.detection.backlog import (
    BACKLOG_SPANS,
    Backlog,
    TasksOfTraces,
    logged_names,
    names_of,
)
from looptrace.collector.server.detection.counts import DetectorCounts, Shown
from looptrace.collector.server.detection.event_records import EventRecords
from looptrace.collector.server.detection.outage_notices import OutageNotices
from looptrace.collector.server.detection.stored_tasks import StoredTasks
from looptrace.collector.server.detection.unended import UnendedTraces
from looptrace.collector.server.ingest.ingest_log import IngestLog, Logged
from looptrace.collector.server.shards.shared_budgets import SharedBudgets
from looptrace.collector.server.shards.spending import SpendingNews
from looptrace.collector.store import reader
from looptrace.collector.store.buckets.spending import stored_spending
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.locks import DamagedFileError, StoreError
from looptrace.collector.store.unanswered import attend
from looptrace.collector.worker import Worker
from looptrace.rules.vocabulary import NS_PER_S

_logger = logging.getLogger(__name__)

# The pause between two looks at the log, so that spans that arrive together are evaluated together.
# After a longer look the pause is as long as the look, because most of its cost does not depend on
# the spans.
TICK_S = 0.1
# The interval of looking for decisions that another process wrote into the store.
LOOK_EVERY_S = 1.0
# The interval of looking for gates on which nobody decides.
ATTEND_EVERY_S = 5.0
# Spans that are evaluated at once; request threads wait while they become rows.
SPANS_A_TICK = 2_000
# The interval of looking for idle tasks.
FORGET_EVERY_S = 3_600
# Tasks of turns that came too late are evaluated anew in at most this share of the time.
MEND_SHARE_MAX = 0.1
# How often it is counted how much of the spans was understood.
UNDERSTOOD_EVERY_S = 2.0
# A trace that was active this long before a start may go on after it.
TRACES_GO_ON_S = 3_600


class LiveDetector:
    """A thread that runs the rules on the spans of the log, and records events.

    The store holds all earlier results, and those of a task are read when it goes on. So a restart
    repeats no event and forgets nothing.
    """

    def __init__(
        self,
        store_dir: Path,
        settings: Settings,
        log: IngestLog,
        on_events: Callable[[Sequence[GateEvent]], None],
        on_damaged: Callable[[DamagedFileError], None],
    ) -> None:
        """Run the rules on the spans of `log`.

        This thread calls `on_events` after new events, and `on_damaged` with a file of the store
        that cannot be read, which it sets aside.
        """
        self._on_damaged = on_damaged
        self.counts = DetectorCounts()
        self.shown = Shown()
        self._worker = Worker("looptrace-detector", self._run, wake=log.committed)
        self.news = SpendingNews(self.wake)
        pause = self._worker.pause
        shown = (self.counts, self.shown, self.news)
        self._begin = partial(_Detection, store_dir, settings, log, *shown, pause, on_events)
        self._store_dir = store_dir
        self._webhooks = settings.webhooks

    def start(self, after_seq: int) -> None:
        """Begin after this row of the log; the store has the earlier spans, with findings."""
        self.counts.seq = after_seq
        if not self._worker.is_closing:
            self._worker.start()

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._worker.is_alive

    def wake(self) -> None:
        """Look for decisions at once."""
        self._worker.wake()

    def close(self, timeout_s: float) -> bool:
        """Process the committed spans, and end; return whether there was time for it."""
        return self._worker.close(timeout_s)

    def _run(self) -> Generator[float, None, None]:
        with reader.open_gates(self._store_dir, self._webhooks) as gates:
            began_s, detection = time.monotonic(), None
            while detection is None:
                if self._worker.is_closing:
                    return
                detection = self._caught_up(gates)
            _logger.info("caught up after %.1f s", time.monotonic() - began_s)
            while True:
                began_s = time.monotonic()
                try:
                    while detection.tick():
                        began_s = time.monotonic()
                except StoreError as error:
                    self._report(error)
                took_s = time.monotonic() - began_s
                yield LOOK_EVERY_S
                self._worker.pause(max(TICK_S, took_s))

    def _caught_up(self, gates: GateStore) -> _Detection | None:
        """Return the working state once caught up; None where catching up must begin again."""
        try:
            detection = self._begin(gates)
            for _ in detection.catch_up():
                if self._worker.is_closing:
                    return None
        except StoreError as error:
            self._report(error)
            self._worker.pause(LOOK_EVERY_S)
            return None
        return detection

    def _report(self, error: StoreError) -> None:
        if isinstance(error, DamagedFileError):
            self._on_damaged(error)
        else:
            _logger.warning("%s", error)


class _Detection:
    """The working state of the thread."""

    def __init__(
        self,
        store_dir: Path,
        settings: Settings,
        log: IngestLog,
        counts: DetectorCounts,
        shown: Shown,
        news: SpendingNews,
        pause: Callable[[float], bool],
        on_events: Callable[[Sequence[GateEvent]], None],
        gates: GateStore,
    ) -> None:
        self._dir = store_dir
        self._log, self._gates, self._counts = log, gates, counts
        self._shown, self._shown_s = shown, 0.0
        self._on_events = on_events
        tasks_max = settings.server.tasks_max
        self._sameness, self._dialects = settings.policy.sameness, settings.policy.dialects
        self._left_out = settings.policy.rule_set.left_out
        self._live = LiveSpans(settings.policy, self._recall, tasks_max)
        ledger = self._live.engine.ledger
        self._budgets = None
        if settings.policy.budgets.limits:
            is_shared = bool(settings.shards.urls)
            self._budgets = SharedBudgets(ledger, gates, news, is_shared=is_shared)
            ledger.take(stored_spending(store_dir))
        self._live.traces.join(gates.session_names())
        self._records = EventRecords(gates, counts, tasks_max, pause, on_events)
        decided, pending = gates.resolutions(), gates.pending()
        # Decisions that the stored findings do not include.
        self._pending = [each for each in decided if each.trace_id in pending]
        self._seen = {each.id for each in decided if each.trace_id not in pending}
        self._replayed = TasksOfTraces()  # until it has caught up
        now_ns = time.time_ns()
        goes_on_s = settings.policy.rule_set.counting.idle_s + HORIZON_S
        self._stored = StoredTasks(store_dir, now_ns - goes_on_s * NS_PER_S)
        self._outages = OutageNotices(settings.outages, self._stored, gates, counts)
        self._stored_until_ns = now_ns + goes_on_s * NS_PER_S
        self._traces_since_ns = now_ns - TRACES_GO_ON_S * NS_PER_S
        self._touched: set[str] = set()  # the traces of which all turns are in the backlog
        self._replayed_traces: Collection[str] = ()  # while turns of these are made again
        self._opened_by = dict(gates.tasks_and_traces())
        self._forget_s = time.monotonic() + FORGET_EVERY_S
        self._mend_s = time.monotonic()  # not before this
        self._unended = UnendedTraces(self._dialects, settings.server.unended_s)
        self._waiting, self._attend_s = settings.waiting, time.monotonic()

    def _recall(self, task: str) -> TaskState:
        """Return the state of a task that is not in memory; its turns make it where they are read.

        A gate of before them is kept.
        """
        state = self._gates.state(task)
        if not self._replayed_traces:
            return state
        is_before = state.gate and self._opened_by.get(task) not in self._replayed_traces
        return state if is_before else TaskState(task)

    def catch_up(self) -> Iterator[None]:
        """Process spans from before the start, beside new ones; yields between steps.

        The log is read in pieces. In the last one the newest tasks come first, and new spans are
        evaluated beside it.
        """
        end_seq, read_seq = self._log.last_seq(), self._counts.seq
        self._counts.backlog_spans = self._log.spans
        _logger.info("catching up with %d spans of the log", self._log.spans)
        stored = self._read_touched(logged_names(self._log, read_seq, end_seq, self._dialects))
        yield
        piece = self._log.read(read_seq, BACKLOG_SPANS, end_seq)
        while piece or stored.height:
            backlog = Backlog(
                pl.concat([stored, piece.spans] if piece else [stored]), self._dialects
            )
            is_last = not (piece and piece.has_more)
            read_seq, stored = piece.seq if piece else read_seq, stored.clear()
            while backlog.spans_left:
                came = self._log.read(read_seq, SPANS_A_TICK) if is_last else None
                self._replay(backlog, came, is_last=is_last)
                read_seq = came.seq if came else read_seq
                self._counts.backlog_spans = backlog.spans_left
                yield
            piece = self._log.read(read_seq, BACKLOG_SPANS, end_seq)
        self._records.add_later()
        # A server that was killed before recorded gates of tasks that the replay does not have.
        self._records.withdraw(self._replayed.left(self._gates.tasks_and_traces()))
        self._replayed = TasksOfTraces()
        # The others are of tasks that were quiet for long, and are evaluated as new ones.
        self._seen.update(each.id for each in self._pending if each.trace_id in self._touched)
        self._counts.seq = max(read_seq, self._counts.seq)
        self._counts.is_current = 1
        self._on_events([])  # The evaluated spans may be stored now.

    def _read_touched(self, names: set[str]) -> pl.DataFrame:
        """Return the stored spans of tasks that go on in the backlog.

        More may be known about their turns now. All other tasks are read when they get spans.
        """
        ties = self._stored.ties_of(names | {each.trace_id for each in self._pending})
        spans = self._stored.spans(self._stored.with_older(ties))
        self._stored.note_read(ties)
        self._touched = {*names, *spans["trace_id"]}
        return spans

    def _read_stored(self, names: Collection[str]) -> None:
        """Give the engine the stored turns of tasks to which names of new spans lead.

        All of them were evaluated and recorded when they were stored. The spans of traces that may
        go on are given to it too.
        """
        ties = self._stored.ties_of(names)
        if ties.is_empty():
            return
        unseen = {each.id for each in self._gates.resolutions()} - self._seen
        turns = self._stored.turns(ties)
        turns = turns.filter(~pl.col("call_id").is_in(list(unseen)).fill_null(value=False))
        decided = [each for each in self._gates.resolutions() if each.id in self._seen]
        spans = self._stored.spans(ties.filter(pl.col("end_ns") > self._traces_since_ns))
        self._stored.note_read(ties)
        with self._replaying(set(turns["trace_id"])):
            self._records.note_states(
                self._live.feed(with_decisions(turns, decided, self._sameness)).states
            )
        if not self._counts.is_current:
            self._replayed.add(turns)
        self._records.note_versions(spans)
        self._live.know(spans)

    @contextmanager
    def _replaying(self, traces: Collection[str]) -> Iterator[None]:
        self._replayed_traces = traces
        try:
            yield
        finally:
            self._replayed_traces = ()

    def _replay(self, backlog: Backlog, came: Logged | None, *, is_last: bool) -> None:
        """Process some of the backlog, with all known turns of its tasks, and then new spans."""
        new = came.spans if came else SPAN_SCHEMA.to_frame()
        spans = backlog.take(SPANS_A_TICK, new).sort("end_ns")
        self._records.note_versions(spans)
        self._unended.note(spans, time.monotonic())
        with self._failing(self._counts.seq), self._replaying(self._touched):
            rows = self._live.replay(spans.iter_slices(SPANS_A_TICK))
            turns = pl.DataFrame(rows, TURN_SCHEMA, orient="row")
            fed = self._live.feed(with_decisions(turns, self._gates.resolutions(), self._sameness))
            self._outages.take(rows)
            self._note_fed(len(rows), fed, is_whole=is_last)
            self._replayed.replace(turns)
        with self._failing(self._counts.seq):
            news = self._note_taken(new)
            self._replayed.add(pl.DataFrame(news, TURN_SCHEMA, orient="row"))
        self._counts.spans += spans.height + new.height

    def _attend(self) -> None:
        """See to gates on which nobody decides."""
        if not self._waiting or time.monotonic() < self._attend_s:
            return
        seq = self._gates.last_seq()
        attend(self._gates, self._waiting, time.time_ns())
        if self._gates.last_seq() > seq:
            self._on_events([])
        self._attend_s = time.monotonic() + ATTEND_EVERY_S

    def tick(self) -> bool:
        """Process the waiting spans; return whether there are more than fit in one step."""
        self._attend()
        if self._budgets and self._budgets.hear():
            self._note_fed(0, self._live.feed(TURN_SCHEMA.to_frame()))
        self._unended.put_due(self._log, time.monotonic())
        said = [each for each in self._gates.resolutions() if each.id not in self._seen]
        logged = self._log.read(self._counts.seq, SPANS_A_TICK)
        if said:
            self._read_stored({each.trace_id for each in said})
            turns = resolution_turns(said, self._sameness)
            self._note_fed(turns.height, self._live.feed(turns))
            self._seen.update(each.id for each in said)
        if logged is not None:
            self._take(logged)
        if self._live.engine.late_tasks and time.monotonic() > self._mend_s:
            began_s = time.monotonic()
            with self._failing(self._counts.seq):
                self._note_fed(0, self._live.mend())
            ended_s = time.monotonic()
            self._mend_s = ended_s + (ended_s - began_s) * (1 / MEND_SHARE_MAX - 1)
        if time.monotonic() > self._shown_s:
            self._shown.understood = self._live.traces.understood()
            self._shown_s = time.monotonic() + UNDERSTOOD_EVERY_S
        if time.monotonic() > self._forget_s:
            self._live.forget(time.time_ns())
            if time.time_ns() > self._stored_until_ns:
                self._stored.forget()
            self._outages.forget(time.time_ns())
            self._forget_s = time.monotonic() + FORGET_EVERY_S
        if self._budgets:
            self._budgets.tell()
        return logged is not None and logged.has_more

    def _take(self, logged: Logged) -> None:
        with self._failing(logged.seq):
            self._note_taken(logged.spans)
        self._counts.seq = logged.seq
        self._counts.spans += logged.spans.height
        for received_ns in logged.received_ns:
            self._shown.detected.add(max(0.0, (time.time_ns() - received_ns) / NS_PER_S))

    @contextmanager
    def _failing(self, seq: int) -> Iterator[None]:
        """Log and count failures: a span that fails must not stop all others."""
        try:
            yield
        except StoreError:
            raise
        except Exception:
            _logger.exception("the rules failed on rows up to %d of the log", seq)
            self._counts.failed += 1

    def _note_taken(self, spans: pl.DataFrame) -> Sequence[TurnTuple]:
        self._unended.note(spans, time.monotonic())
        if self._stored.has_more:
            self._read_stored(names_of(spans, self._dialects))
        self._records.note_versions(spans)
        turns, fed = self._live.take(spans)
        self._outages.take(turns)
        self._note_fed(len(turns), fed)
        return turns

    def _note_fed(self, turns: int, fed: Fed, *, is_whole: bool = True) -> None:
        """Record the events of turns, and later those of incomplete tasks."""
        self._records.add(fed, self._live.traces.joined_anew(), is_whole=is_whole)
        self._counts.turns += turns
        self._show()

    def _show(self) -> None:
        counts, live, traces = self._counts, self._live.engine, self._live.traces
        counts.late, counts.tasks, counts.tasks_evicted = live.late, len(live), live.evicted
        counts.traces, counts.traces_dropped = len(traces), traces.dropped
        counts.rules_left_out = len(self._left_out or ())
        counts.events_alone = self._live.log_events.lost
