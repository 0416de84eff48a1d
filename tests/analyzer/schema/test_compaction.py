"""Tables that are kept do not hold the texts of the tables that they were taken from."""

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from looptrace.analyzer.schema.compaction import compacted
from looptrace.analyzer.schema.findings import FINDING_SCHEMA
from looptrace.analyzer.schema.turns import TURN_SCHEMA

# Keeps one row in a hundred of ten tables of 20 MB each, and prints the megabytes that it grew by.
KEEPS = """
import sys
import polars as pl
from looptrace.analyzer.schema.compaction import compacted
def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
keep = compacted if sys.argv[1] == "compacted" else lambda rows: rows
kept, before_mb = [], resident_mb()
for number in range(10):
    texts = [f"{number} {row} " + "x" * 200 for row in range(100_000)]
    table = pl.DataFrame({"text": texts, "row": range(len(texts))})
    kept.append(keep(table.filter(pl.col("row") % 100 == 0)))
    del table, texts
print(resident_mb() - before_mb)
"""


def test_rows_stay_as_they_are() -> None:
    """All kinds of columns that turns and findings have, with rows and without."""
    for schema in (TURN_SCHEMA, FINDING_SCHEMA):
        unknown = pl.DataFrame([dict.fromkeys(schema)] * 2, schema)
        for rows in (unknown, unknown.clear()):
            assert_frame_equal(compacted(rows), rows)
    texts = pl.DataFrame({"task": ["a long name of a task"] * 9, "kind": ["tool"] * 9})
    texts = texts.with_columns(pl.col("kind").cast(TURN_SCHEMA["kind"])).filter(
        pl.int_range(9) % 2 == 0
    )
    assert_frame_equal(compacted(texts), texts)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux to ask for memory")
def test_few_rows_take_little_memory() -> None:
    """Without it they take that of all rows; if not, it is no longer needed."""
    grew_mb = {
        how: float(
            subprocess.check_output([sys.executable, "-c", KEEPS, how], env=dict(os.environ))
        )
        for how in ("compacted", "filtered")
    }
    assert grew_mb["compacted"] < grew_mb["filtered"] / 2
