"""What long texts look like from within."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrace.analyzer.fingerprint.chants import NONE, chant_of

LONG_CHARS = 20_000_000
SLOW_S = 5.0
LIST = "\n".join(f"{n}. Check the part number {n} of the login page." for n in range(200))
TABLE = "\n".join(f"| {n} | row of the table | {n * 7} |" for n in range(200))
CODE = "\n".join(f"    def test_{n}(self):\n        self.assertTrue(check({n}))" for n in range(99))
JSON = '{"rows": [' + '{"value": null}, ' * 200 + '{"value": 1}]}'


@given(st.text("abc ", min_size=1, max_size=40), st.integers(3, 60), st.text("xyz", max_size=9))
def test_what_chants_is_measured(words: str, times: int, before: str) -> None:
    """A text of one phrase is found to be one, whatever stands before it."""
    text = before + words * times
    found = chant_of(text)

    shown = text.rstrip()
    if found != NONE:
        length = round((found.chars + 1) / found.times)
        run = shown[len(shown) - found.chars :]
        assert any(run[part:] == run[:-part] for part in range(1, length + 1))
    elif words.strip():
        assert len(words * (times - 1)) < 40 + len(words)


@pytest.mark.parametrize("text", [LIST, TABLE, CODE, JSON, "", "x", "-" * 900, "= " * 900])
def test_long_work_does_not_chant(text: str) -> None:
    """Lists, tables, code and rulers repeat themselves only nearly, or without words."""
    assert chant_of(text).times <= 2


def test_a_chant_that_was_cut_off_is_one() -> None:
    """A model stops where its tokens end, which is in the middle of a word."""
    assert chant_of("Well. " + "I will look once more. " * 50 + "I will lo").times == 50


def test_time_does_not_grow_with_the_square() -> None:
    """A text that was made to be slow is not."""
    began = time.perf_counter()
    for text in ("a" * LONG_CHARS, "ab" * LONG_CHARS, "a" * LONG_CHARS + "b", LIST * 900):
        chant_of(text)

    assert time.perf_counter() - began < SLOW_S
