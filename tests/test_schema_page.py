"""The page of the store's schema is true: all columns are on it, and nulls are where it says."""

from pathlib import Path

import pytest

from docs.schema_page import TABLES, described
from looptrace.analyzer.schema.columns import CODED, COUNTED
from looptrace.analyzer.settings.sections import default
from looptrace.collector.files.reader import read_spans
from looptrace.collector.store import writer
from looptrace.collector.store.sql.connection import connect
from tests.paths import ROOT


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of the examples, and of what frameworks write."""
    folder = tmp_path_factory.mktemp("store")
    spans = read_spans([str(ROOT / "examples/traces"), str(ROOT / "tests/framework_traces")]).spans
    writer.ingest(spans, folder, default().policy)
    return folder


def test_every_column_that_sql_sees_has_a_sentence() -> None:
    """A column without one would be guessed at, and a sentence without one be a lie."""
    written = {table: [each.name for each in columns] for table, (_, columns) in TABLES.items()}

    assert {table: list(types) for table, types in described().items()} == written
    sentences = [each for _, columns in TABLES.values() for each in columns]
    bare = [each.name for each in (*sentences, *CODED, *COUNTED) if "" in each[2:]]
    assert bare == []


@pytest.mark.parametrize("table", TABLES)
def test_only_columns_that_say_so_are_null(store: Path, table: str) -> None:
    """SQL that trusts "never" must not lose rows to a null."""
    never = [column.name for column in TABLES[table][1] if column.null is None]
    nulls = ", ".join(f"count(*) - count({name})" for name in never)
    with connect(store) as connection:
        sql = f"SELECT {nulls} FROM {table}"  # noqa: S608 - All parts are constants.
        (counts,) = connection.execute(sql).fetchall()

    assert dict(zip(never, counts, strict=True)) == dict.fromkeys(never, 0)
