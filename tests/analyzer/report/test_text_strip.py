"""The strip in text: a character a turn, readable without colour and in ASCII."""

import polars as pl
import pytest

from looptrace.analyzer.report.strips.text import text_strip
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from tests.analyzer.report.contents import event, finding, pytest_turns


def turns_of(count: int) -> pl.DataFrame:
    """Make a table of calls of the same test."""
    return pl.DataFrame(pytest_turns(count), TURN_SCHEMA, orient="row")


def test_repeats_failures_and_decisions_have_marks() -> None:
    """What is a colour on the page is a character here: large first, small repeat."""
    loop = finding("cycle", (2, 3, 4, 5), period=2)
    drawn = text_strip(
        turns_of(6), [loop], [event("gate_opened", 5, action="gate")], 80, ascii_only=False
    )

    columns = {line[:8].strip(): line[8:] for line in drawn[:-1]}
    assert columns["loop"] == " ABab"
    assert len(columns["turns"]) == turns_of(6).height
    assert columns["decided"].index("■") == 4
    assert "a repeats A" in drawn[-1]


@pytest.mark.parametrize("count", [1, 5, 30, 72, 73, 1_000])
def test_no_line_is_wider_than_the_terminal(count: int) -> None:
    """A long task has several turns in a column, and says how many."""
    drawn = text_strip(turns_of(count), [finding()], [], 80, ascii_only=True)

    assert all(line.isascii() for line in drawn)
    assert max(map(len, drawn[:-1])) <= 80
    assert ("turns a column" in drawn[-1]) == (turns_of(count).height > 72)


def test_no_turns_have_no_strip() -> None:
    """A finding without stored turns has only its sentence."""
    assert text_strip(turns_of(0), [finding()], [], 80, ascii_only=False) == []
