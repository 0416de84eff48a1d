"""Damaged, foreign and full stores, and two who use one at once."""

import os
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
import pytest

from looptrace.collector.store import layout, reader, writer
from looptrace.collector.store.locks import StoreError, reading
from looptrace.collector.store.sql import connection
from looptrace.collector.store.sql.connection import ask_typed, connect
from looptrace.collector.store.tables import parquet, removal
from tests.collector.store.stored import content, files_of, late_ties, looping, spans_of, working

WRITER_WAITS_S = 0.5


def test_two_ingests_at_once_are_refused(tmp_path: Path) -> None:
    """Two writers would undo each other's files."""
    writer.ingest(late_ties(), tmp_path)
    fcntl = pytest.importorskip("fcntl")
    with (tmp_path / "looptrace-store.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="another ingest or a server is using"):
            writer.ingest(late_ties(), tmp_path)
    assert writer.ingest(late_ties(), tmp_path).spans_new == 0


def test_no_file_is_replaced_while_it_is_read(tmp_path: Path) -> None:
    """An engine opens a file several times, and would mix the old one with the new one."""
    pytest.importorskip("fcntl")
    writer.ingest(spans_of(working("s1")), tmp_path)
    before = content(tmp_path)
    thread = Thread(target=writer.ingest, args=(late_ties(), tmp_path))
    with reading(tmp_path):
        thread.start()
        thread.join(timeout=WRITER_WAITS_S)
        assert thread.is_alive()
        assert content(tmp_path) == before
    thread.join()
    assert content(tmp_path) != before


@pytest.mark.parametrize("table", list(parquet.TABLES))
@pytest.mark.parametrize("damage", ["garbage", "empty", "cut off", "foreign"])
def test_a_damaged_file_is_named(stored: Path, table: str, damage: str) -> None:
    """A user must learn which file to move away, and not see a traceback."""
    victim = max((p for p in files_of(stored) if table in p.parts), key=lambda p: p.stat().st_size)
    whole = victim.read_bytes()
    damaged = {"garbage": b"\x00garbage" * 99, "empty": b"", "cut off": whole[: len(whole) // 2]}
    if damage == "foreign":
        pl.DataFrame({"colour": ["red"]}).write_parquet(victim)
    else:
        victim.write_bytes(damaged[damage])
    with pytest.raises(StoreError, match="cannot be read") as caught:
        writer.ingest(late_ties(), stored)
    message = str(caught.value)
    assert str(victim) in message
    assert "move it away" in message
    assert "\n" not in message


def test_a_full_disk_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ingest that cannot write says so, and what is stored stays readable."""
    writer.ingest(spans_of(working("s1")), tmp_path)
    before = content(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="No space left on device"):
            writer.ingest(late_ties(), tmp_path)
    assert content(tmp_path) == before
    assert not list(tmp_path.rglob(".data*"))


@pytest.mark.parametrize(
    ("marker", "why"),
    [
        (f'{{"schema": {layout.SCHEMA_VERSION + 1}, "buckets": 16}}', "update looptrace"),
        ('{"schema": 3, "buckets": 8}', "update looptrace"),
        ("{}", "cannot be read"),
        ("[]", "cannot be read"),
        ("\x00", "cannot be read"),
    ],
)
def test_a_store_of_another_version_is_refused(stored: Path, marker: str, why: str) -> None:
    """Writing into a layout that this version does not know would ruin it."""
    (stored / "looptrace-store.json").write_text(marker)
    for use in (lambda: list(reader.read_turns(stored)), lambda: connect(stored)):
        with pytest.raises(StoreError, match=why):
            use()
    with pytest.raises(StoreError, match=why):
        writer.ingest(late_ties(), stored)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """A mistyped path must not fill another folder with files."""
    (tmp_path / "thesis.txt").write_text("Chapter 1")
    with pytest.raises(StoreError, match="not a store"):
        writer.ingest(late_ties(), tmp_path)
    with pytest.raises(StoreError, match="is not a store"):
        list(reader.read_turns(tmp_path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(StoreError, match="cannot be used"):
        writer.ingest(late_ties(), tmp_path / "thesis.txt")


def test_an_answer_comes_although_a_table_loses_its_last_file(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention may delete the only days with findings while a query is at work."""
    pytest.importorskip("fcntl")
    days = sorted({parquet.day_of(path) for path in files_of(stored)})
    thread = Thread(target=removal.delete_days, args=(stored, days))

    def connected(*stores: Path, **options: Any) -> Any:
        opened = connect(*stores, **options)
        thread.start()
        thread.join(timeout=WRITER_WAITS_S)
        return opened

    monkeypatch.setattr(connection, "connect", connected)
    with ask_typed(stored, "SELECT count(*) > 0 FROM findings") as answer:
        thread.join()
        assert next(answer.batches) == [(True,)]
    assert list(files_of(stored)) == []


def test_only_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    """The report of the damage may be late: the file was rewritten meanwhile."""
    writer.ingest(spans_of(looping("s1")), tmp_path)
    (file,) = (tmp_path / "turns").glob("day=2*/*/data.parquet")
    whole = file.read_bytes()
    assert not removal.set_aside(tmp_path, file)
    assert file.read_bytes() == whole
    file.write_bytes(whole[:100])
    assert removal.set_aside(tmp_path, file)
    assert not file.exists()
