"""The archiver: a thread that moves spans from the ingest log into the store's files.

It also deletes days that are too old, a day after it has said so. The spans of a long session wait
in the log for a while (`postponement`).
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.normalize.span_ties import tie_rows, with_ties
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.text.times import utc_s
from looptrace.collector.server.background.memory import trim_memory
from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.server.ingest.postponement import AskedTraces, WaitingSpans
from looptrace.collector.server.receiver.receiver_metrics import number
from looptrace.collector.store.locks import DamagedFileError, StoreError
from looptrace.collector.store.retention import CAUSES, KeptTimes, Retention, texts_of
from looptrace.collector.store.tables.removal import set_aside
from looptrace.collector.store.writer import Writer, writing
from looptrace.collector.worker import Worker
from looptrace.rules.vocabulary import NS_PER_S

_logger = logging.getLogger(__name__)

# Spans that are stored at once: more would take more memory, fewer would take longer in all.
SPANS_A_ROUND = 20_000
# So many spans are stored at once where they come without a pause, and so many where none came for
# a moment, which is a good time for it. Fewer wait for `store_every_s`, because each round takes
# some time however few spans it stores.
MANY_SPANS, SOME_SPANS = SPANS_A_ROUND // 2, 1_000
# Storing may take this share of the time, so that receiving and detection go on: more of it where
# no span waits longer for the rules than this, and all where none waits and none came for a moment.
BUSY_SHARE_MAX, KEEPING_UP_SHARE_MAX, ALL_OF_THE_TIME = 0.2, 0.5, 1.0
KEEPING_UP_S = 1.0
LOOK_S = 0.1
# When the log is as full as this, storing may take all of the time, before the log is full.
URGENT_SHARE = 0.25
EXPIRE_EVERY_S = 3_600
# A session of so many spans, or sessions that are tied together, are a mistake, such as one id for
# all agents. All of the spans are in memory while some are stored, and take so many bytes each.
LARGE_SPANS, BYTES_A_SPAN = 100_000, 8_000
# The pause after a failure, such as a full disk.
RETRY_S = 5.0


@dataclass(slots=True)
class ArchiverCounts:
    """Counts of the archiver, which other threads read."""

    seq: int = number("Row of the log up to which all spans are in the store.", "gauge")
    spans: int = number("Spans written to the store.")
    spans_postponed: int = number("Spans of long sessions that wait in the log.", "gauge")
    rounds: int = number("Writes to the store.")
    last_write_timestamp_seconds: float = number(
        "Time of the last write to the store; 0 before it.", "gauge"
    )
    failed: int = number("Failed writes; each is tried again.")
    is_blocked: int = number("1 while the store cannot be written.", "gauge")
    damaged_files: int = number("Damaged files of the store, set aside.")


class Archiver:
    """A thread that writes spans to the store after detection, and keeps other writers out."""

    def __init__(
        self,
        store_dir: Path,
        settings: Settings,
        log: IngestLog,
        detected_seq: Callable[[], int],
        on_ready: Callable[[int], None],
    ) -> None:
        """Store the spans of `log` up to the row that `detected_seq` returns.

        `on_ready` is called with the last stored row, once the store has the findings of these
        settings.
        """
        self.counts = ArchiverCounts()
        self.retention = Retention()  # as of the last look
        self.expired: Counter[str] = Counter(dict.fromkeys(CAUSES, 0))  # days by cause
        self._dir = store_dir
        self._settings = settings
        self._log = log
        self._limits = settings.server
        by_service = {name: each.days for each in settings.retention for name in each.services}
        self._kept = KeptTimes(settings.server.retention_days, by_service)
        self._detected_seq = detected_seq
        self._on_ready = on_ready
        self._asked = AskedTraces()
        self._read_seq = 0  # row of the log up to which all spans are stored or wait
        self._dialects = settings.policy.dialects
        self._waiting = WaitingSpans(self._dialects)
        self._worker = Worker("looptrace-archiver", self._run)

    def version(self) -> tuple[int, int]:
        """Return what changes with each round of storing, and where days are deleted."""
        return self.counts.rounds, self.expired.total()

    def start(self) -> None:
        """Lock the store; return when it is locked.

        Raises:
            StoreError: if the store cannot be used, or another process writes to it.
        """
        self._worker.start_ready()

    def ask(self, traces: Collection[str] | None = None) -> None:
        """Store soon, in a fifth of the time, because somebody wants to look at it.

        The spans of these traces, or of all, do not wait then.
        """
        self._asked.add(traces)

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._worker.is_alive

    def close(self, timeout_s: float) -> bool:
        """End; return whether there was time for it. Unstored spans stay in the log."""
        return self._worker.close(timeout_s)

    def _run(self) -> Generator[float, None, None]:
        settings = self._settings
        with writing(self._dir, settings.policy, settings.webhooks) as writer:
            yield 0.0
            while not self._is_mended(writer):
                yield RETRY_S
                if self._worker.is_closing:
                    return
            self._on_ready(self.counts.seq)
            yield from self._go_on(writer)

    def _is_mended(self, writer: Writer) -> bool:
        """Evaluate the store again if needed, with the spans of the log; return whether it worked.

        Otherwise the detector evaluates the spans of the log, beside new ones.
        """
        is_due = writer.needs_ingest()
        try:
            if not is_due:
                writer.finish_add()  # The detector reads the turns of the store.
            else:
                self._ingest(writer, self._log.last_seq())
        except (StoreError, OSError) as error:
            self._failed(error)
            if is_due:
                return False
            with suppress(StoreError):  # The stored findings are those of these settings.
                writer.give_up_ingest()
        return True

    def _ingest(self, writer: Writer, last_seq: int) -> None:
        """Ingest the store and the log together: the events of a task depend on all its turns."""
        _logger.info(
            "the whole store is evaluated again, with %d spans of the log", self._log.spans
        )
        with SpanSpool() as spool:
            seq = 0
            while logged := self._log.read(seq, SPANS_A_ROUND, last_seq):
                spool.add(logged.spans)
                seq = logged.seq
            for loss in writer.ingest(spool).losses:
                _logger.warning("%s", loss)
            self._read_seq = last_seq
            self._log.drop(last_seq)
            self._done(spool.spans)

    def _go_on(self, writer: Writer) -> Generator[float, None, None]:
        expire_s = time.monotonic()
        while not self._worker.is_closing:
            began_s = time.monotonic()
            try:
                self._round(writer)
                trim_memory()
                if began_s >= expire_s:
                    expire_s = began_s + EXPIRE_EVERY_S
                    self._expire(writer)
                self.counts.is_blocked = 0
                yield from self._until_due(began_s, time.monotonic())
            except (StoreError, OSError) as error:
                self._failed(error)
                self._worker.pause(RETRY_S)

    def _until_due(self, began_s: float, ended_s: float) -> Generator[float, None, None]:
        """Wait until it is time for another round, after the last one began and ended."""
        while not self._worker.is_closing:
            now_s = time.monotonic()
            spans = self._log.spans - self.counts.spans_postponed
            is_quiet = self._log.arrivals.have_ended(now_s)
            is_old = now_s - began_s >= self._limits.store_every_s
            is_due = spans >= (SOME_SPANS if is_quiet else MANY_SPANS) or is_old
            if is_due or self._asked.is_new:
                share_max = self._share_max(is_quiet=is_quiet) if is_due else BUSY_SHARE_MAX
                if now_s - ended_s >= (ended_s - began_s) * (1 / share_max - 1):
                    return
            yield LOOK_S

    def _is_urgent(self) -> bool:
        return bool(self._log.bytes > self._log.bytes_max * URGENT_SHARE)

    def _share_max(self, *, is_quiet: bool) -> float:
        """Return the share of the time that storing may take now."""
        since_ns = self._log.waiting_since_ns(self._detected_seq())
        if self._is_urgent() or (is_quiet and since_ns is None):
            return ALL_OF_THE_TIME
        waits_s = 0.0 if since_ns is None else (time.time_ns() - since_ns) / NS_PER_S
        return KEEPING_UP_SHARE_MAX if waits_s < KEEPING_UP_S else BUSY_SHARE_MAX

    def _round(self, writer: Writer) -> None:
        """Store new spans, up to SPANS_A_ROUND, and those that waited until now."""
        asked = self._asked.take()  # Before the log is read, which then has what was asked for.
        logged = self._log.read(self._read_seq, SPANS_A_ROUND, self._detected_seq())
        spans = logged.spans if logged else SPAN_SCHEMA.to_frame()
        came, asked = with_ties(spans, self._dialects), None if self._is_urgent() else asked
        groups = self._groups(came, writer)
        plan = self._waiting.plan(came, self._read_seq, groups, asked, time.monotonic())
        made: Mapping[str, int] = {}
        if plan.now.height or writer.has_decisions():
            made = writer.add(plan.now)
            self._warn_of_large(groups, made)
        self._asked.done()
        self._waiting.carry_out(plan, made, time.monotonic())
        if logged or plan.stored:
            self._read_seq = logged.seq if logged else self._read_seq
            self._log.drop(self._read_seq, plan.postponed, plan.stored)
            self._done(plan.now.height)

    def _groups(self, came: pl.DataFrame, writer: Writer) -> Mapping[str, str]:
        """Return the group of each trace of new and waiting spans, and of all that they tie."""
        ties = pl.concat([tie_rows(came), self._waiting.ties])
        return writer.groups(ties) if ties.height else {}

    def _warn_of_large(self, groups: Mapping[str, str], made: Mapping[str, int]) -> None:
        """Log groups that are so large that they can only be a mistake."""
        sizes = Counter[str]()
        for trace_id, spans in made.items():
            sizes[groups.get(trace_id, trace_id)] += spans
        for spans in sizes.values():
            if spans >= LARGE_SPANS:
                mib = spans * BYTES_A_SPAN >> 20
                _logger.warning("%d spans are one session, which takes %d MiB", spans, mib)

    def _failed(self, error: StoreError | OSError) -> None:
        _logger.warning("%s", error)
        self.counts.failed += 1
        self.counts.is_blocked = 1
        if isinstance(error, DamagedFileError):
            self.set_aside(error)

    def set_aside(self, error: DamagedFileError) -> None:
        """Set a damaged file aside, from any thread, so that other files can be read.

        Where it cannot be renamed, the next reader tries again.
        """
        try:
            is_aside = set_aside(self._dir, error.path)
        except StoreError as problem:
            _logger.warning("%s", problem)
            return
        if is_aside:
            _logger.error("%s was damaged and set aside", error.path)
            self.counts.damaged_files += 1

    def _done(self, spans: int) -> None:
        self.counts.seq = self._waiting.stored_seq(self._read_seq)
        self.counts.spans_postponed = len(self._waiting)
        if spans:
            self.counts.spans += spans
            self.counts.rounds += 1
            self.counts.last_write_timestamp_seconds = time.time()

    def _expire(self, writer: Writer) -> None:
        for loss in writer.find_again():
            _logger.warning("%s", loss)
        before = self.retention
        self.retention, gone = writer.expire(
            self._kept, self._limits.retention_bytes_max, time.time_ns()
        )
        self.expired.update(day.cause for day in gone)
        for text in texts_of(gone):
            _logger.info("deleted %s", text)
        if self.retention.announced != before.announced:
            first = utc_s(self.retention.deletes_ns) if self.retention.announced else ""
            for text in texts_of(self.retention.announced):
                _logger.warning("to be deleted, the first on %s: %s", first, text)
