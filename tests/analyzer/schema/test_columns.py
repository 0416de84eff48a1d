"""The written table of coded and counted columns, held against real frames."""

from __future__ import annotations

import re
import time

import polars as pl
import pytest

from looptrace._core import PATTERNS
from looptrace.analyzer.detect.columns import encode_columns
from looptrace.analyzer.detect.counters import Counting, add_counters
from looptrace.analyzer.detect.single_columns import encode_turn
from looptrace.analyzer.fingerprint.waiting import SLEEPS
from looptrace.analyzer.schema.column import Column
from looptrace.analyzer.schema.columns import CODED, COUNTED
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.analyzer.testing.notation import turns_in
from looptrace.rules.turns import UNKNOWN

LINEAR_S = 2.0
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

WAITING = (
    'kubectl(get)->"status: Running" bash(sleep 30)->"" bash(sleep 30 && make)->"" job(7)->pending '
    """job(8)->"It is not ready yet." ci(7)->"{'status': 'queued'}" job(9)->"It runs." """
    "job(7)->done"
)
STATES = (
    *(
        "running",
        "Pending",
        "QUEUED",
        "waiting",
        "\u017ftarting",
        "started",
        "processing",
        "scheduled",
    ),
    *(
        "building",
        "deploying",
        "in progress",
        "in-progress",
        "inprogress",
        "not ready",
        "not_done yet",
    ),
    *("not finished", "status=running", "state: building", "done", "runs"),
)


def test_what_goes_on_and_what_only_waits_are_marked() -> None:
    """Rules leave a look at what goes on alone; what they left out by mistake nobody would miss."""
    coded = encode_columns(turns_in(WAITING))

    assert coded["unfinished"].to_list() == [True, False, False, True, True, True, False, False]
    assert coded["pauses"].to_list() == [False, True, False, False, False, False, False, False]


@pytest.mark.parametrize(
    "unit", ["status", '"command":"', "it ", "kubectl ", "- ", "sleep 1", "a ", "while ", "; do "]
)
@pytest.mark.parametrize("pattern", [SLEEPS, PATTERNS["waits"], PATTERNS["looks_at_file"]])
def test_hostile_texts_take_linear_time(pattern: str, unit: str) -> None:
    """Live, Python reads the patterns, which may take the square of the length."""
    text = unit * (400_000 // len(unit))
    start = time.process_time()
    re.search(pattern, text)

    assert time.process_time() - start < LINEAR_S


@pytest.mark.parametrize(
    "text",
    [
        *(PLAIN, RICH, SEARCHING, WAITING),
        f'say("{"on and " * 40}on") say("Again.") setup(a)->!boom',
        " ".join(f'job({n})->"{state}"' for n, state in enumerate(STATES)),
    ],
)
def test_one_turn_is_coded_as_many_are(text: str) -> None:
    """There are two ways for the sake of speed, and rules must not see which it was."""
    turns = turns_in(text).with_columns(task_kind=pl.lit("setup"))
    coded = encode_columns(turns)
    single = [encode_turn(turn, 0) for turn in turns.rows()]

    for column in CODED:
        values = [getattr(one, column.name.removesuffix("_code")) for one in single]
        if column.unit == "code":
            assert renamed(values) == renamed(coded[column.name].to_list()), column.name
        else:
            assert values == coded[column.name].to_list(), column.name


def renamed(codes: list[int]) -> list[int]:
    """Return codes by the order in which they come, because they differ between the two ways."""
    names = {UNKNOWN: 0}
    return [names.setdefault(code, len(names)) for code in codes]
