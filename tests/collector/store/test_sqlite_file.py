"""The shared base of the gate store and the ingest log: kinds of files, and versions."""

import sqlite3
from pathlib import Path

import pytest

from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.store.gate_file.tables import GateFile
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.sqlite_file import Schema, connect

FIRST = Schema(0x74657374, 1, ("CREATE TABLE words (word TEXT) STRICT",), "move it away")
THIRD = Schema(
    0x74657374,
    3,
    ("CREATE TABLE words (word TEXT, count INTEGER, place TEXT) STRICT",),
    "move it away",
    steps={
        1: ("ALTER TABLE words ADD COLUMN count INTEGER",),
        2: ("ALTER TABLE words ADD COLUMN place TEXT",),
    },
)


def test_a_file_goes_through_all_steps_and_keeps_its_rows(tmp_path: Path) -> None:
    """A file that skipped a release must not lose what it holds."""
    path = tmp_path / "a.db"
    with connect(path, FIRST) as sql:
        sql.execute("INSERT INTO words VALUES ('again')")
    with connect(path, THIRD) as sql:
        assert sql.execute("SELECT * FROM words").fetchall() == [("again", None, None)]
        assert sql.execute("PRAGMA user_version").fetchone() == (3,)


def test_a_step_that_fails_changes_nothing(tmp_path: Path) -> None:
    """Half a migration would be a file that no version can read."""
    path = tmp_path / "a.db"
    connect(path, FIRST).close()
    broken = Schema(
        FIRST.application_id, 3, (), "move it away", {1: THIRD.steps[1], 2: ("NO SQL",)}
    )
    with pytest.raises(StoreError, match="cannot be used"):
        connect(path, broken)
    with connect(path, FIRST) as sql:
        assert sql.execute("PRAGMA user_version").fetchone() == (1,)


@pytest.mark.parametrize("version", [0, 9])
def test_a_file_of_another_version_is_refused(tmp_path: Path, version: int) -> None:
    """An older looptrace must not write to what a newer one made."""
    path = tmp_path / "a.db"
    with connect(path, FIRST) as sql:
        sql.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(
        StoreError, match=rf"schema {version}; known is schema 1\); update looptrace"
    ):
        connect(path, FIRST)


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """A mistyped path must not turn another database into one of looptrace's."""
    path = tmp_path / "other.db"
    sqlite3.connect(path).execute("CREATE TABLE theirs (row TEXT)").connection.close()
    before = path.read_bytes()
    for opened in (GateFile.open, lambda path: IngestLog(path, 1)):
        with pytest.raises(StoreError, match="database of another program"):
            opened(path)
    assert path.read_bytes() == before


def test_a_gate_file_is_no_ingest_log(tmp_path: Path) -> None:
    """Both lie in one folder, so that one may be copied in the place of the other."""
    path = tmp_path / "gates.db"
    GateStore.open(path).close()
    with pytest.raises(StoreError, match="database of another program"):
        IngestLog(path, 1)
