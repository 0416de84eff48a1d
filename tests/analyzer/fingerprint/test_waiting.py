"""Each form of waiting has the examples that it was made for, and leaves others alone."""

from __future__ import annotations

import re

import polars as pl

from looptrace._core import is_unfinished
from looptrace.analyzer.fingerprint.waiting import NOTE_NAMES


def test_tools_for_notes_are_known_by_their_form() -> None:
    """Python and Rust read the same pattern in the same way."""
    texts = pl.Series([*NOTE_NAMES.examples, *NOTE_NAMES.others])
    expected = [True] * len(NOTE_NAMES.examples) + [False] * len(NOTE_NAMES.others)

    assert [bool(re.search(NOTE_NAMES.pattern, text)) for text in texts] == expected
    assert texts.str.contains(NOTE_NAMES.pattern).to_list() == expected


def test_only_the_ends_of_a_long_result_speak_of_the_call() -> None:
    """A page of text has every word somewhere."""
    page = "The report has words of many kinds. " * 40

    assert is_unfinished(page + "\nstatus: running")
    assert is_unfinished("status: running\n" + page)
    assert not is_unfinished(page + "\nstatus: running\n" + page)
