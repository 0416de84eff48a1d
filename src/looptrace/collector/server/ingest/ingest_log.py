"""The ingest log: acknowledged spans that are not in the store yet, in SQLite.

Spans are acknowledged when the transaction that holds them is committed and synced. A row has the
spans of all requests that were gathered in a block. Blocks that arrive meanwhile share the next
transaction, so that many need only one sync. A row stays until its spans were evaluated and are in
the store's files. Spans that are stored later than those around them are moved to rows of their
own.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.server.background.arrivals import Arrivals
from looptrace.collector.server.ingest.packed_spans import LOG, Postponed, packed, unpacked
from looptrace.collector.server.ingest.reserve import Reserve
from looptrace.collector.server.receiver.receiver_metrics import Instrument, counter, gauge
from looptrace.collector.server.receiver.sink import SinkFull
from looptrace.collector.store.layout import LOG_FILE, read_evaluated, write_evaluated
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.sqlite_file import connect, explained, is_read_only
from looptrace.collector.worker import Worker

_logger = logging.getLogger(__name__)

# Blocks that share a transaction; more would make the first of them wait.
_BLOCKS_A_COMMIT = 256
# The most bytes of one read, as they are packed.
_PIECE_BYTES_MAX = 64 << 20
# The time after which a sender should try again, while the store catches up.
RETRY_AFTER_S = 5
# How often a log that is blocked looks whether there is room again.
LOOK_EVERY_S = 1.0

_OLDEST = "SELECT min(received_ns) FROM requests WHERE seq > ?"
_ADD = "INSERT INTO requests (received_ns, spans, digest, body) VALUES (?, ?, ?, ?)"
_LISTED = "SELECT seq, spans, length(body) FROM requests WHERE seq > ? AND seq <= ? ORDER BY seq"
_READ = (
    "SELECT seq, digest, body, received_ns FROM requests WHERE seq > ? AND seq <= ? ORDER BY seq"
)
_LAST = "SELECT coalesce(max(seq), 0) FROM requests"
_SIZES = """
    SELECT coalesce(sum(length(body)), 0), coalesce(sum(spans), 0)
    FROM (SELECT spans, body FROM requests UNION ALL SELECT spans, body FROM postponed)
"""
_DROP = "DELETE FROM requests WHERE seq <= ?"
_DROP_POSTPONED = "DELETE FROM postponed WHERE number = ?"
_POSTPONE = "INSERT INTO postponed VALUES (?, ?, ?, ?, ?)"
# An earlier process had evaluated these spans; a start evaluates all that are not stored.
_TAKE_BACK = (
    """
    INSERT INTO requests (received_ns, spans, digest, body)
    SELECT received_ns, spans, digest, body FROM postponed ORDER BY number
    """,
    "DELETE FROM postponed",
)
_SET_ASIDE = (
    "INSERT INTO damaged SELECT * FROM requests WHERE seq = ?",
    "DELETE FROM requests WHERE seq = ?",
)
SEQ_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Append:
    """Spans that wait for their transaction, and the request that waits for it."""

    spans: pl.DataFrame
    done: Callable[[Exception | None], None]


@dataclass(frozen=True, slots=True)
class _Drop:
    """Rows that are no longer needed, but for some spans; and earlier ones that are stored now."""

    seq: int
    postponed: Sequence[Postponed]
    stored: Sequence[int]


@dataclass(frozen=True, slots=True)
class Logged:
    """Spans of the log, the number of their last row, and whether more rows follow."""

    seq: int
    spans: pl.DataFrame
    has_more: bool
    received_ns: Sequence[int] = ()  # of each row


def spans_waiting(store_dir: Path) -> int:
    """Return the number of spans that a server of this store took and may not have stored yet.

    Raises:
        StoreError: if the log cannot be read.
    """
    path = store_dir / LOG_FILE
    if not path.exists():
        return 0
    with explained(path, LOG), closing(connect(path, LOG, create=False)) as sql:
        spans: int = sql.execute(_SIZES).fetchone()[1]
        return spans


def log_of(store_dir: Path, bytes_max: int) -> IngestLog:
    """Open the log of a store, or create it; a log that was lost is reported.

    Raises:
        StoreError: if the file is something else or cannot be used.
    """
    path, noted = store_dir / LOG_FILE, read_evaluated(store_dir)
    if noted.is_served and not (path.is_file() and path.stat().st_size):
        _logger.warning(
            "%s: was lost; spans that were acknowledged and not stored yet cannot be found again",
            path,
        )
    log = IngestLog(path, bytes_max)
    if log.is_fixed:
        _logger.warning(
            "%s: is on a read-only file system; spans and decisions are refused until it can be "
            "written and the server is started again",
            store_dir,
        )
    elif not noted.is_served:
        write_evaluated(store_dir, noted._replace(is_served=True))
    return log


class IngestLog:
    """The log of one store, for one process."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        """Open the log, or create it; a full disk only blocks it, and a read-only one for good.

        Raises:
            StoreError: if the file is something else or cannot be used.
        """
        self.path, self.bytes_max = path, bytes_max
        self.is_fixed = is_read_only(path.parent)
        self.is_blocked = self.is_fixed  # whether nothing can be written now
        self.damaged = 0  # rows that could not be read and were set aside
        self.arrivals = Arrivals()
        self.committed = threading.Event()  # set when there is something new
        self._queue: queue.SimpleQueue[_Append | _Drop | None] = queue.SimpleQueue()
        self._drops: list[_Drop] = []  # until they are written
        self._reading = threading.Lock()
        self._is_closed = False
        self._reserve = Reserve(path.parent)
        self._has_taken_back = False
        self._reader = connect(path, LOG, one_thread=False)
        with explained(path, LOG):
            if not self.is_fixed:
                self._unblock(self._reader)
            self.bytes, self.spans = self._reader.execute(_SIZES).fetchone()
        self._worker = Worker("looptrace-log", self._write)
        if not self.is_fixed:
            self._worker.start()

    def instruments(self) -> list[Instrument]:
        """Return the instruments of what waits in the log."""
        return [
            gauge(
                "looptrace.log.bytes",
                "Acknowledged bytes that are not in the store yet.",
                lambda: self.bytes,
            ),
            gauge(
                "looptrace.log.spans",
                "Acknowledged spans that are not in the store yet.",
                lambda: self.spans,
            ),
            gauge(
                "looptrace.log.is_blocked",
                "1 while the log cannot be written; senders must try again later.",
                lambda: self.is_blocked,
            ),
            counter(
                "looptrace.log.damaged",
                "Damaged requests of the log, set aside.",
                lambda: self.damaged,
            ),
        ]

    async def accept(self, spans: pl.DataFrame) -> None:
        """Commit spans; see `Sink`."""
        if self.bytes > self.bytes_max:
            raise SinkFull(RETRY_AFTER_S)
        if self.is_blocked:
            raise self._unwritable("it is read-only" if self.is_fixed else "there is no room")
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[None] = loop.create_future()

        def done(error: Exception | None) -> None:
            with suppress(RuntimeError):  # The loop may have ended with the server.
                loop.call_soon_threadsafe(_settle, waiting, error)

        self.put(spans, done)
        await waiting

    def put(self, spans: pl.DataFrame, done: Callable[[Exception | None], None]) -> None:
        """Commit spans; another thread calls `done` with what was wrong, or None."""
        self._queue.put(_Append(spans, done))

    def last_seq(self) -> int:
        """Return the number of the last row, 0 where there is none.

        Raises:
            StoreError: if the file cannot be read.
        """
        return int(self._rows(_LAST)[0][0])

    def waiting_since_ns(self, after_seq: int) -> int | None:
        """Return the arrival of the oldest row after a number, None where there is none.

        Raises:
            StoreError: if the file cannot be read.
        """
        since_ns: int | None = self._rows(_OLDEST, after_seq)[0][0]
        return since_ns

    def read(self, after_seq: int, spans_max: int, up_to_seq: int = SEQ_MAX) -> Logged | None:
        """Return the spans after a number, None where there are none.

        They are the spans of at least one row, and of more up to `spans_max` in all. Rows that
        cannot be read are set aside and counted.

        Raises:
            StoreError: if the file cannot be read.
        """
        last_seq, has_more = self._end_of_piece(after_seq, spans_max, up_to_seq)
        if last_seq == after_seq:
            return None
        rows = self._rows(_READ, after_seq, last_seq)
        tables = [SPAN_SCHEMA.to_frame()]
        for seq, check, body, _ in rows:
            table = unpacked(check, body)
            if table is None:
                self._set_aside(seq)
            else:
                tables.append(table)
        return Logged(last_seq, pl.concat(tables), has_more, [row[-1] for row in rows])

    def drop(
        self, seq: int, postponed: Sequence[Postponed] = (), stored: Sequence[int] = ()
    ) -> None:
        """Delete the rows up to this number.

        Spans of theirs that are `postponed` get rows of their own, until their numbers are
        `stored`.
        """
        self._queue.put(_Drop(seq, postponed, stored))

    def close(self) -> None:
        """Commit the waiting spans, and end."""
        self._queue.put(None)
        self._worker.close(None)
        with self._reading:
            self._is_closed = True
            self._reader.close()

    def _unblock(self, sql: sqlite3.Connection) -> None:
        """Accept spans if there is room, and what an earlier process postponed is in its place."""
        try:
            self._reserve.hold()
            if not self._has_taken_back:
                self._take_back(sql)
            if self.is_blocked:
                _logger.info("%s: can be written again; spans are accepted.", self.path)
            self.is_blocked = False
        except (OSError, sqlite3.OperationalError) as error:
            self._block(error)

    def _block(self, error: Exception) -> StoreError:
        problem = self._unwritable(error)
        if not self.is_blocked:
            _logger.warning("%s Until then no span is accepted.", problem)
        self.is_blocked = True
        self._reserve.give_up()
        return problem

    def _unwritable(self, reason: object) -> StoreError:
        return StoreError(
            f"{self.path}: cannot be written ({reason}); check space and permissions."
        )

    def _take_back(self, sql: sqlite3.Connection) -> None:
        if sql.execute("SELECT 1 FROM postponed LIMIT 1").fetchone():
            with sql:
                sql.execute("BEGIN IMMEDIATE")
                for statement in _TAKE_BACK:
                    sql.execute(statement)
        self._has_taken_back = True

    def _end_of_piece(self, after_seq: int, spans_max: int, up_to_seq: int) -> tuple[int, bool]:
        """Return the number of the last row of a piece of the log, and whether more rows follow."""
        spans, size, end = 0, 0, after_seq
        with self._asking() as reader:
            for seq, spans_more, size_more in reader.execute(_LISTED, (after_seq, up_to_seq)):
                spans, size = spans + spans_more, size + size_more
                if end > after_seq and (spans > spans_max or size > _PIECE_BYTES_MAX):
                    return end, True
                end = seq
        return end, False

    def _rows(self, sql: str, *values: int) -> Sequence[tuple[Any, ...]]:
        with self._asking() as reader:
            return reader.execute(sql, values).fetchall()

    @contextmanager
    def _asking(self) -> Iterator[sqlite3.Connection]:
        with self._reading, explained(self.path, LOG):
            if self._is_closed:  # The server ends before a part of it has ended.
                raise StoreError(
                    f"{self.path}: is closed; the next start goes on with what it has."
                )
            yield self._reader

    def _set_aside(self, seq: int) -> None:
        self.damaged += 1
        _logger.error("row %d of the ingest log is damaged and was set aside", seq)
        for statement in _SET_ASIDE:
            self._rows(statement, seq)

    def _write(self) -> None:
        """Commit spans as they arrive, all waiting ones at once."""
        sql = connect(self.path, LOG)
        goes_on = True
        while goes_on:
            items: list[_Append | _Drop | None] = []
            with suppress(queue.Empty):  # A log that is blocked looks again after a while.
                items = [self._queue.get(timeout=LOOK_EVERY_S if self.is_blocked else None)]
            if self.is_blocked:
                self._unblock(sql)
            while len(items) < _BLOCKS_A_COMMIT and not self._queue.empty():
                items.append(self._queue.get())
            goes_on = None not in items
            self._append(sql, [item for item in items if isinstance(item, _Append)])
            self._forget(sql, [item for item in items if isinstance(item, _Drop)])
        sql.close()

    def _append(self, sql: sqlite3.Connection, items: list[_Append]) -> None:
        if not items:
            return
        problem: StoreError | None = None
        rows = [packed(item.spans) for item in items]
        try:
            with sql:
                sql.execute("BEGIN IMMEDIATE")
                sql.executemany(_ADD, rows)
            self.bytes += sum(len(row[-1]) for row in rows)
            self.spans += sum(row[1] for row in rows)
            self.arrivals.note(time.monotonic())
            self.committed.set()
        except sqlite3.Error as error:
            problem = self._block(error)
        for item in items:
            item.done(problem)

    def _forget(self, sql: sqlite3.Connection, drops: list[_Drop]) -> None:
        self._drops += drops
        if not drops or not self._has_taken_back:  # Numbers of an earlier process are in use.
            return
        try:
            with sql:
                sql.execute("BEGIN IMMEDIATE")
                for each in self._drops:
                    sql.executemany(
                        _POSTPONE, [(part.number, *part.row) for part in each.postponed]
                    )
                    sql.executemany(_DROP_POSTPONED, [(number,) for number in each.stored])
                    sql.execute(_DROP, (each.seq,))
            self._drops.clear()
            sql.execute("PRAGMA incremental_vacuum").fetchall()
            self.bytes, self.spans = sql.execute(_SIZES).fetchone()
        except sqlite3.Error as error:
            # No row is lost, and the next call does this, too.
            _logger.warning("%s: cannot be trimmed (%s)", self.path, error)


def _settle(waiting: asyncio.Future[None], error: Exception | None) -> None:
    if waiting.done():  # The sender has gone.
        return
    if error is None:
        waiting.set_result(None)
    else:
        waiting.set_exception(error)
