"""Each form of waiting has the examples that it was made for, and leaves others alone."""

from __future__ import annotations

import re

import polars as pl
import pytest

from looptrace.analyzer.fingerprint.waiting import (
    NOTE_NAMES,
    OF_EXAMPLES,
    OF_OTHERS,
    PAUSE_NAMES,
    UNFINISHED,
    WATCH_ARGUMENTS,
    WATCH_NAMES,
    Form,
    is_unfinished,
)

CALLS = (NOTE_NAMES, *PAUSE_NAMES, *WATCH_NAMES, *WATCH_ARGUMENTS)


@pytest.mark.parametrize("form", CALLS, ids=lambda form: form.about)
def test_a_call_that_waits_is_known_by_its_form(form: Form) -> None:
    """Python and Rust read the same pattern in the same way."""
    texts = pl.Series([*form.examples, *form.others])
    expected = [True] * len(form.examples) + [False] * len(form.others)

    assert [bool(re.search(form.pattern, text)) for text in texts] == expected
    assert texts.str.contains(form.pattern).to_list() == expected


@pytest.mark.parametrize("form", UNFINISHED, ids=lambda form: form.about)
def test_a_result_that_goes_on_is_known_by_its_form(form: Form) -> None:
    """No form may need a word that the first look at a text does not know."""
    assert [is_unfinished(text) for text in form.examples] == [True] * len(form.examples)
    for text in form.others:
        assert not re.search(form.pattern, text, re.IGNORECASE | re.MULTILINE), text


def test_some_of_many_go_on_and_all_of_them_do_not() -> None:
    """A count of ten of ten would otherwise excuse an agent that looks for ever."""
    assert [is_unfinished(text) for text in OF_EXAMPLES] == [True] * len(OF_EXAMPLES)
    assert [is_unfinished(text) for text in OF_OTHERS] == [False] * len(OF_OTHERS)


def test_only_the_ends_of_a_long_result_speak_of_the_call() -> None:
    """A page of text has every word somewhere."""
    page = "The report has words of many kinds. " * 40

    assert is_unfinished(page + "\nstatus: running")
    assert is_unfinished("status: running\n" + page)
    assert not is_unfinished(page + "\nstatus: running\n" + page)
