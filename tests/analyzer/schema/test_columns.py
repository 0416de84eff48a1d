"""The written table of coded and counted columns, held against real frames."""

import polars as pl
import pytest

from looptrace._core import PLACES
from looptrace.analyzer.detect.counters import RESETS, Counting, add_counters
from looptrace.analyzer.detect.persons import SPEAKERS
from looptrace.analyzer.schema.column import Column
from looptrace.analyzer.schema.columns import CODED, COUNTED
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.analyzer.testing.notation import turns_in
from looptrace.rules.turns import CUTS, KINDS, STATUSES

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
    counted = add_counters(turns, Counting())

    assert turns.schema == TURN_SCHEMA
    assert added(turns, counted) == {each.name: each.dtype for each in (*CODED, *COUNTED)}


@pytest.mark.parametrize("column", [*CODED, *COUNTED], ids=lambda column: column.name)
def test_only_columns_that_say_so_have_nulls(column: Column) -> None:
    """A null that nobody wrote down would be taken for a number by some rule."""
    counted = add_counters(turns_in(RICH), Counting())

    assert (counted[column.name].null_count() > 0) == (column.null is not None)


WAITING = (
    'kubectl(get)->"status: Running" bash(sleep 30)->"" bash(sleep 30 && make)->"" job(7)->pending '
    """job(8)->"It is not ready yet." ci(7)->"{'status': 'queued'}" job(9)->"It runs." """
    "job(7)->done"
)


def test_what_goes_on_and_what_only_waits_are_marked() -> None:
    """Rules leave a look at what goes on alone; what they left out by mistake nobody would miss."""
    coded = add_counters(turns_in(WAITING), Counting())

    assert coded["unfinished"].to_list() == [True, False, False, True, True, True, False, False]
    assert coded["pauses"].to_list() == [False, True, False, False, False, False, False, False]


def test_the_core_knows_the_same_names() -> None:
    """A place that means another name there would make a message a reset, or a call a response."""
    names = {"kind": KINDS, "status": STATUSES, "cut": CUTS, "speaker": SPEAKERS, "reset": RESETS}

    assert {name: tuple(places) for name, places in PLACES.items()} == names
