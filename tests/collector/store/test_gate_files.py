"""Gate stores of newer versions, damaged, busy and full ones."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from looptrace.collector.store import sqlite_file
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.locks import StoreError
from tests.collector.store.recorded_gates import CALL, assert_sound, content, recorded


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("CREATE TABLE recipes (name TEXT)")


def _newer(path: Path) -> None:
    GateStore.open(path).close()
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("PRAGMA user_version = 99")


def _damaged(path: Path) -> None:
    with GateStore.open(path) as gates:
        recorded(gates, f"{CALL} x5")
    data = bytearray(path.read_bytes())
    data[100:4096] = os.urandom(3996)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_foreign, "database of another program"),
        (_newer, "schema 99.*update looptrace"),
        (_damaged, "malformed.*move it away"),
        (lambda path: path.write_bytes(b"Chapter 1. " * 999), "not a database.*move it away"),
        (Path.mkdir, "cannot be used"),
    ],
)
def test_a_file_that_cannot_be_used_is_left_alone(
    tmp_path: Path, make: Callable[[Path], object], why: str
) -> None:
    """One line names it and says what to do, and what it holds stays."""
    path = tmp_path / "gates.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError, match=why) as caught, GateStore.open(path) as gates:
        list(gates.events())
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_state_that_is_none_is_named(gates: GateStore) -> None:
    """Somebody may have edited the file."""
    recorded(gates, f"{CALL} x5")
    with closing(sqlite3.connect(gates.path)) as sql, sql:
        sql.execute("UPDATE tasks SET state = '{}'")
    with pytest.raises(StoreError, match="cannot be read"):
        gates.state("t")


def test_a_writer_waits_for_another_and_then_says_so(
    gates: GateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes may resolve and record at the same time."""
    monkeypatch.setattr(sqlite_file, "BUSY_TIMEOUT_S", 0.1)
    with closing(sqlite3.connect(gates.path)) as other, GateStore.open(gates.path) as mine:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process is writing"):
            recorded(mine, f"{CALL} x5")
        other.execute("ROLLBACK")
        recorded(mine, f"{CALL} x5")
    assert len(gates.gates()) == 1


def test_a_full_disk_loses_nothing(gates: GateStore) -> None:
    """Nothing of a transaction that cannot be written is there, and the next one works."""
    resource = pytest.importorskip("resource")
    recorded(gates, f"{CALL} x5", "t1")
    before = content(gates.path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    full = Path(f"{gates.path}-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (full, limits[1]))
    try:
        with pytest.raises(StoreError, match="whether the disk is full"):
            recorded(gates, f"{CALL} x5", "t2")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert content(gates.path) == before
    recorded(gates, f"{CALL} x5", "t2")
    assert_sound(gates.path)
    assert len(gates.gates("open")) == 2
