"""SQLite files: their kinds and versions, and a connection with errors in one line."""

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from looptrace.collector.store.locks import StoreError
from looptrace.typed_json import decoded

T = TypeVar("T")

# How long to wait for another process that writes; one transaction takes milliseconds.
BUSY_TIMEOUT_S = 10

_PRIMARY_CODE = 0xFF


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one kind of file; `steps` are statements by the version from which they start.

    `if_damaged` says what to do with a file that cannot be read. A file that `shrinks` returns the
    space of deleted rows. The statements may call `functions`, each of one text.
    """

    application_id: int  # identifies the kind of file
    version: int
    tables: tuple[str, ...]
    if_damaged: str
    steps: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    shrinks: bool = False
    functions: Mapping[str, Callable[[str], str]] = field(default_factory=dict)


class SqliteFile:
    """One connection to a file; a subclass names its kind."""

    schema: ClassVar[Schema]

    def __init__(self, path: Path, sql: sqlite3.Connection) -> None:
        self.path = path
        self._sql = sql

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a file that is there.

        Raises:
            StoreError: if the file is empty, something else, of a newer version, or cannot be used.
        """
        return cls(path, connect(path, cls.schema, create=False))

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
        with explained(self.path, self.schema):
            return self._sql.execute(sql, values).fetchall()

    def _read(self, body: str, kind: type[T]) -> T:
        try:
            return decoded(body, kind)
        except msgspec.DecodeError as error:
            why = f"has content that cannot be read ({error}); {self.schema.if_damaged}"
            raise StoreError(f"{self.path}: {why}.") from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with explained(self.path, self.schema), self._sql:
            self._sql.execute("BEGIN IMMEDIATE")
            yield


def connect(
    path: Path, schema: Schema, *, one_thread: bool = True, create: bool = True
) -> sqlite3.Connection:
    """Connect to a file; `create` it, if it is absent or empty; in memory if it cannot be written.

    Raises:
        StoreError: if the file is something else, of a newer version, or cannot be used.
    """
    with explained(path, schema):
        is_fixed = is_read_only(path.parent)
        is_absent = not (path.is_file() and path.stat().st_size)
        mode = "mode=rwc" if create else "mode=rw"
        if is_fixed:
            mode = "mode=memory" if create and is_absent else _mode_fixed(path)
        sql = sqlite3.connect(
            f"{path.absolute().as_uri()}?{mode}",
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=one_thread,
        )
        try:
            if is_fixed and _pragma(sql, "user_version") in schema.steps:
                sql = _in_memory(sql, one_thread=one_thread)
            for name, function in schema.functions.items():
                sql.create_function(name, 1, function, deterministic=True)
            _prepare(path, sql, schema, create=create)
            if is_fixed:
                sql.execute("PRAGMA query_only = ON")  # A decision in memory would be lost.
        except BaseException:
            sql.close()
            raise
    return sql


def is_read_only(folder: Path) -> bool:
    """Return whether a folder is on a file system that is mounted to be read only."""
    if sys.platform == "win32":
        return False
    return folder.exists() and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _mode_fixed(path: Path) -> str:
    """Return how to open a file that cannot be written.

    Without an index of its log, which SQLite cannot make there, nobody else writes to it either.
    """
    has_index = Path(f"{path}-shm").exists()
    return "mode=ro" if has_index else "mode=ro&immutable=1"


def _in_memory(sql: sqlite3.Connection, *, one_thread: bool) -> sqlite3.Connection:
    """Return a copy of a database in memory, where it can be migrated."""
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=one_thread)
    with closing(sql):
        sql.backup(copy)
    return copy


def json_of(value: object) -> str:
    """Return a value as the JSON of a column."""
    return msgspec.json.encode(value).decode()


@contextmanager
def explained(path: Path, schema: Schema) -> Iterator[None]:
    """Turn errors of SQLite into one line.

    Raises:
        StoreError: in place of an error of SQLite, unless the statement itself is wrong.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
            raise
        advice = {
            sqlite3.SQLITE_BUSY: "another process is writing; try again",
            sqlite3.SQLITE_IOERR: "see whether the disk is full, then try again",
            sqlite3.SQLITE_CORRUPT: schema.if_damaged,
            sqlite3.SQLITE_NOTADB: schema.if_damaged,
        }.get(
            getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE,
            "check space and permissions, then try again",
        )
        raise StoreError(f"{path}: cannot be used ({error}); {advice}.") from error


def _prepare(path: Path, sql: sqlite3.Connection, schema: Schema, *, create: bool) -> None:
    """Check the kind of a file, make the tables of a new one, and migrate an old one."""
    if _is_new(sql):
        if not create:
            raise StoreError(f"{path}: is empty; {schema.if_damaged}.")
        if schema.shrinks:
            sql.execute("PRAGMA auto_vacuum = INCREMENTAL")
        sql.execute("PRAGMA journal_mode = WAL")
        with sql:
            sql.execute("BEGIN IMMEDIATE")
            if _is_new(sql):  # Another process may have created it meanwhile.
                _run(sql, schema.tables, schema.version)
                sql.execute(f"PRAGMA application_id = {schema.application_id}")
    if _pragma(sql, "application_id") != schema.application_id:
        raise StoreError(f"{path}: is the database of another program; name another file.")
    if _pragma(sql, "user_version") in schema.steps:
        with sql:
            sql.execute("BEGIN IMMEDIATE")
            while (version := _pragma(sql, "user_version")) in schema.steps:
                _run(sql, schema.steps[version], version + 1)
    if (version := _pragma(sql, "user_version")) != schema.version:
        raise StoreError(
            f"{path}: was written by another version of looptrace (schema {version}; known is "
            f"schema {schema.version}); update looptrace."
        )
    sql.execute("PRAGMA synchronous = FULL")
    sql.execute("PRAGMA foreign_keys = ON")


def _run(sql: sqlite3.Connection, statements: Sequence[str], version: int) -> None:
    for statement in statements:
        sql.execute(statement)
    sql.execute(f"PRAGMA user_version = {version}")


def _is_new(sql: sqlite3.Connection) -> bool:
    return not _pragma(sql, "application_id") and not _pragma(sql, "schema_version")


def _pragma(sql: sqlite3.Connection, name: str) -> int:
    return int(sql.execute(f"PRAGMA {name}").fetchone()[0])
