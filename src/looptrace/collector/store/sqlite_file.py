"""The file of the gate store: its tables, its versions, and a connection to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from looptrace.collector.store.locks import StoreError

T = TypeVar("T")

# How long to wait for another process that writes; one transaction takes milliseconds.
BUSY_TIMEOUT_S = 10

_APPLICATION_ID = 0x6C6F6F70  # "loop"; says whose file it is.
_SCHEMA_VERSION = 3
_OUTBOX = (
    """
    CREATE TABLE outbox (
        event TEXT NOT NULL REFERENCES events (id),
        endpoint TEXT NOT NULL, -- name of the webhook
        created_ns INTEGER NOT NULL,
        next_try_ns INTEGER NOT NULL,
        tries INTEGER NOT NULL,
        error TEXT, -- of the last try
        dead_ns INTEGER, -- since when nothing is tried any more; null while something is
        PRIMARY KEY (event, endpoint)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX outbox_due ON outbox (endpoint, next_try_ns) WHERE dead_ns IS NULL",
    "CREATE INDEX outbox_dead ON outbox (endpoint, dead_ns) WHERE dead_ns IS NOT NULL",
    """
    CREATE TABLE endpoints (
        name TEXT PRIMARY KEY,
        delivered INTEGER NOT NULL DEFAULT 0, -- events
        dropped INTEGER NOT NULL DEFAULT 0, -- events that there was no room for
        failing_ns INTEGER, -- since when every try failed; null where the last one did not
        disabled_ns INTEGER,
        disabled_why TEXT
    ) STRICT
    """,
)
# No event is ever deleted, so that `seq` grows without AUTOINCREMENT, which would write for known
# events, too.
_SCHEMA = (
    """
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        type TEXT NOT NULL,
        task TEXT NOT NULL,
        agent TEXT NOT NULL,
        rule TEXT NOT NULL,
        finding TEXT NOT NULL,
        at_ns INTEGER NOT NULL,
        body TEXT NOT NULL -- the whole event as JSON
    ) STRICT
    """,
    "CREATE INDEX events_of_task ON events (task, seq)",
    """
    CREATE TABLE tasks (
        task TEXT PRIMARY KEY,
        status TEXT NOT NULL,
        pivot_count INTEGER NOT NULL,
        loop_count INTEGER NOT NULL,
        state TEXT NOT NULL, -- the whole state as JSON
        updated_ns INTEGER NOT NULL -- time of the last event
    ) STRICT
    """,
    """
    CREATE TABLE gates (
        id TEXT PRIMARY KEY,
        event TEXT NOT NULL UNIQUE REFERENCES events (id),
        task TEXT NOT NULL,
        rule TEXT NOT NULL,
        signature TEXT NOT NULL,
        why TEXT NOT NULL,
        loop_count INTEGER NOT NULL,
        opened_ns INTEGER NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('open', 'resolved', 'withdrawn')),
        resolved_ns INTEGER,
        decision TEXT,
        note TEXT,
        finding TEXT -- as it stood at the opening, as JSON; null where an earlier version opened it
    ) STRICT
    """,
    "CREATE UNIQUE INDEX open_gate_of_task ON gates (task) WHERE status = 'open'",
    "CREATE INDEX gates_by_signature ON gates (signature)",
    """
    CREATE TABLE pivots (
        event TEXT PRIMARY KEY REFERENCES events (id),
        task TEXT NOT NULL,
        pivot_count INTEGER NOT NULL,
        entropy_count INTEGER NOT NULL, -- attempts of the loop that triggered it
        at_ns INTEGER NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE resolutions (
        id TEXT PRIMARY KEY,
        gate TEXT NOT NULL REFERENCES gates (id),
        at_ns INTEGER NOT NULL,
        decision TEXT NOT NULL,
        note TEXT
    ) STRICT
    """,
    *_OUTBOX,
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_SCHEMA_VERSION}",
)

# What brings a file of a version to the next one.
_MIGRATIONS = {
    # The outbox had a row an event, and knew no endpoint that one could have been sent to.
    1: ("DROP TABLE outbox", *_OUTBOX, "PRAGMA user_version = 2"),
    2: ("ALTER TABLE gates ADD COLUMN finding TEXT", "PRAGMA user_version = 3"),
}


class GateFile:
    """One connection to the file of a gate store."""

    def __init__(self, path: Path, sql: sqlite3.Connection) -> None:
        self.path = path
        self._sql = sql

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a gate store; it is made where there is none.

        Raises:
            StoreError: if the file is something else, of a newer version, or cannot be used.
        """
        return cls(path, connected(path))

    def close(self) -> None:
        """End the connection."""
        self._sql.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _rows(self, sql: str, *values: str | int | None) -> Sequence[tuple[Any, ...]]:
        with _explained(self.path):
            return self._sql.execute(sql, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _explained(self.path), self._sql:
            self._sql.execute("BEGIN IMMEDIATE")
            yield


def connected(path: Path) -> sqlite3.Connection:
    """Connect to the file of a gate store; it is made where there is none.

    Raises:
        StoreError: if the file is something else, of a newer version, or cannot be used.
    """
    with _explained(path):
        sql = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        try:
            _prepare(path, sql)
        except BaseException:
            sql.close()
            raise
    return sql


def read_json(body: str, kind: type[T], path: Path) -> T:
    """Read what a column holds as JSON.

    Raises:
        StoreError: if it is something else.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise StoreError(f"{path}: holds what cannot be read ({error}); {_DAMAGED}.") from error


def _prepare(path: Path, sql: sqlite3.Connection) -> None:
    """Check whose file it is, make the tables where it is nobody's yet, and bring it up to date."""
    if _is_new(sql):
        sql.execute("PRAGMA journal_mode = WAL")
        with sql:
            sql.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA if _is_new(sql) else ():
                sql.execute(statement)
    if _pragma(sql, "application_id") != _APPLICATION_ID:
        raise StoreError(f"{path}: is a database of something else; give another place.")
    version = _pragma(sql, "user_version")
    if version in _MIGRATIONS:
        version = _migrated(sql)
    if version != _SCHEMA_VERSION:
        raise StoreError(
            f"{path}: was written by another version of looptrace (schema {version}; known is "
            f"schema {_SCHEMA_VERSION}); update looptrace."
        )
    sql.execute("PRAGMA synchronous = FULL")
    sql.execute("PRAGMA foreign_keys = ON")


def _migrated(sql: sqlite3.Connection) -> int:
    """Bring a file of an earlier version up to date; returns its version then."""
    with sql:
        sql.execute("BEGIN IMMEDIATE")
        # Another process may have done it meanwhile.
        while (version := _pragma(sql, "user_version")) in _MIGRATIONS:
            for statement in _MIGRATIONS[version]:
                sql.execute(statement)
    return version


def _is_new(sql: sqlite3.Connection) -> bool:
    return not _pragma(sql, "application_id") and not _pragma(sql, "schema_version")


def _pragma(sql: sqlite3.Connection, name: str) -> int:
    return int(sql.execute(f"PRAGMA {name}").fetchone()[0])


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Put what keeps the file from being used on one line."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
            raise
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        advice = _ADVICE.get(code, "check space and permissions, then try again")
        raise StoreError(f"{path}: cannot be used ({error}); {advice}.") from error


_PRIMARY_CODE = 0xFF
_DAMAGED = "move it away: the next ingest finds the gates anew, without what people decided"
_ADVICE = {
    sqlite3.SQLITE_BUSY: "another process is writing; try again",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
}
