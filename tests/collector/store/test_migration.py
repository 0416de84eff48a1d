"""`data/store_1.tar.xz` holds the spans of `late_ties`, stored by the version before schema 2."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from looptrace.collector.store import layout, reader, writer
from looptrace.collector.store.sql.connection import ask_typed
from looptrace.collector.store.tables import parquet
from tests.collector.store.stored import content, files_of, fresh, killed_stores, late_ties

ARCHIVE = Path(__file__).parent / "data/store_1.tar.xz"
TIES = "SELECT DISTINCT session, task, task_parent, linked_traces FROM spans"


@pytest.fixture
def store_1(tmp_path: Path) -> Path:
    """Unpack a store of the first schema."""
    shutil.unpack_archive(ARCHIVE, tmp_path / "store_1", filter="data")
    return tmp_path / "store_1"


def assert_readable(folder: Path) -> None:
    """Read all spans, as looptrace and as SQL do."""
    assert pl.concat(reader.read_spans(folder)).height == late_ties().height
    turns = pl.concat(reader.read_turns(folder)).height
    counted = {
        "SELECT count(name) FROM spans": late_ties().height,
        "SELECT count(task) FROM turns": turns,
    }
    for sql, rows in counted.items():
        with ask_typed(folder, sql) as answer:
            assert list(next(answer.batches)) == [(rows,)]
    assert turns > 0


def test_the_next_ingest_migrates_a_store_of_the_version_before(
    tmp_path: Path, store_1: Path
) -> None:
    """It can be read before, and equals a new one afterwards."""
    assert_readable(store_1)
    assert json.loads((store_1 / "looptrace-store.json").read_bytes())["schema"] == 1
    writer.ingest(late_ties().clear(), store_1)
    assert layout.require_store(store_1) == layout.SCHEMA_VERSION
    assert content(store_1) == fresh(tmp_path / "fresh", late_ties())
    spans = [path for path in files_of(store_1) if path.parts[-4] == "spans"]
    assert {pl.read_parquet_schema(path) == parquet.STORED_SPAN_SCHEMA for path in spans} == {True}
    turns = [path for path in files_of(store_1) if path.parts[-4] == "turns"]
    assert {pl.read_parquet_schema(path) == parquet.TABLES["turns"] for path in turns} == {True}
    with ask_typed(store_1, TIES) as answer:
        ties = next(answer.batches)
    assert ("shopping", None, None, []) in ties
    assert (None, "job", None, []) in ties


def test_a_migration_that_is_killed_goes_on_with_the_next_ingest(
    tmp_path: Path, store_1: Path
) -> None:
    """A partly migrated store is read like any other."""
    expected = fresh(tmp_path / "fresh", late_ties())
    for folder in killed_stores(store_1, writer.prepare):
        assert_readable(folder)
        writer.ingest(late_ties().clear(), folder)
        assert content(folder) == expected
        assert layout.require_store(folder) == layout.SCHEMA_VERSION
