"""A message of a hook or a wrapper is the same in each round, but for its number and ids."""

from __future__ import annotations

import re

import pytest

from looptrace._core import is_brief
from looptrace.analyzer.fingerprint.rounds import ROUND_MASKS, round_words


@pytest.mark.parametrize(("pattern", "name", "examples", "others"), ROUND_MASKS)
def test_a_part_of_a_round_is_known_by_its_form(
    pattern: str, name: str, examples: tuple[str, ...], others: tuple[str, ...]
) -> None:
    """Each form has the examples that it was made for, and leaves other numbers alone."""
    form = re.compile(pattern, re.IGNORECASE)

    assert all(name in form.sub(name, text) for text in examples)
    assert not any(form.search(text) for text in others)


def test_few_words_may_be_a_persons() -> None:
    """Somebody who reads a text in parts asks for each of them so."""
    assert round_words("Go on, please.") is None
    assert round_words("You have not called the tool yet.")


def test_an_answer_is_brief_where_it_is_a_sentence_or_two() -> None:
    """A command or code is an act in words."""
    assert is_brief("All done here. Nothing is left.")
    assert not is_brief("ls -la")
    assert not is_brief("I run it: `ls`.")
    assert not is_brief("Part of a story. " * 30)
    assert not is_brief(None)
