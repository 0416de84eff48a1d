"""The written table of coded and counted columns, held against real frames."""

from __future__ import annotations

import polars as pl
import pytest

from looptrace.analyzer.detect.columns import encode_columns, encode_few
from looptrace.analyzer.detect.counters import Counting, add_counters
from looptrace.analyzer.schema.columns import CODED, COUNTED, Column
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.analyzer.testing.notation import turns_in

PLAIN = 'read(a)->text x2 say("Done.")'
# Something in every column: phases, figures, attempts, failures, searches, waits, a person, steps.
RICH = (
    '#fix run_tests(a)->!"boom" progress(tests_failed=3, coverage=80) #test [search(a)->none '
    'search(a)->none] ~90 fetch(b)->!"429 Too Many Requests" progress(tests_failed=1, markers=1) '
    '#fix user("Go on.") $part attempt(blocked, "key") $ attempt(done)->work read(a)->text'
)


def added(before: pl.DataFrame, after: pl.DataFrame) -> dict[str, pl.DataType]:
    """Return the columns that a stage added, with their types."""
    return {name: dtype for name, dtype in after.schema.items() if name not in before.columns}


@pytest.mark.parametrize("text", [PLAIN, RICH])
def test_every_column_is_written_down_with_its_type(text: str) -> None:
    """Whoever reads or adds a column finds it in one table, and the table is true."""
    turns = turns_in(text)
    coded = encode_columns(turns)
    counted = add_counters(coded, Counting())

    assert turns.schema == TURN_SCHEMA
    assert added(turns, coded) == {column.name: column.dtype for column in CODED}
    assert added(coded, counted) == {column.name: column.dtype for column in COUNTED}


@pytest.mark.parametrize("column", [*CODED, *COUNTED], ids=lambda column: column.name)
def test_only_columns_that_say_so_have_nulls(column: Column) -> None:
    """A null that nobody wrote down would be taken for a number by some rule."""
    counted = add_counters(encode_columns(turns_in(RICH)), Counting())

    assert (counted[column.name].null_count() > 0) == (column.null is not None)


SEARCHING = 'query(a)->"0 rows" search(b)->"3 rows" grep(c)->ok list(d)->? $part attempt(done) $'


@pytest.mark.parametrize(
    "text", [PLAIN, RICH, SEARCHING, f'say("{"on and " * 40}on") say("Again.") setup(a)->!boom']
)
def test_few_turns_are_coded_as_many_are(text: str) -> None:
    """There are two ways for the sake of speed, and rules must not see which it was."""
    turns = turns_in(text).with_columns(task_kind=pl.lit("setup"))
    coded = encode_columns(turns)
    few = encode_few({name: turns[name].to_list() for name in turns.columns})

    assert {column.name: few[column.name].tolist() for column in CODED} == {
        column.name: coded[column.name].to_list() for column in CODED
    }
