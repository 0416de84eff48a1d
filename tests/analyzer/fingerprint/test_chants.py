"""What long texts look like from within."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrace._core import chant_of

LONG_CHARS = 20_000_000
SLOW_S = 5.0
LIST = "\n".join(f"{n}. Check the part number {n} of the login page." for n in range(200))
TABLE = "\n".join(f"| {n} | row of the table | {n * 7} |" for n in range(200))
CODE = "\n".join(f"    def test_{n}(self):\n        self.assertTrue(check({n}))" for n in range(99))
NESTED = "".join("no " * n + "yes " for n in range(900, 0, -1))
JSON = '{"rows": [' + '{"value": null}, ' * 200 + '{"value": 1}]}'


@given(st.text("abc ", min_size=1, max_size=40), st.integers(3, 60), st.text("xyz", max_size=9))
def test_what_chants_is_measured(words: str, times: int, before: str) -> None:
    """A text of one phrase is found to be one, whatever stands before it."""
    text = before + words * times
    repeats, chars = chant_of(text)

    shown = text.rstrip()
    if repeats:
        length = chars // repeats
        run = shown[max(len(shown) - chars, 0) :].lstrip("xyz")
        assert any(run[part:] == run[:-part] for part in range(1, length + 1))
    elif words.strip():
        assert len(words * (times - 1)) < 40 + len(words)


@pytest.mark.parametrize("text", [LIST, TABLE, CODE, JSON, "", "x", "-" * 900, "= " * 900])
def test_long_work_does_not_chant(text: str) -> None:
    """Lists, tables, code and rulers repeat themselves only nearly, or without words."""
    assert chant_of(text)[0] <= 2


@pytest.mark.parametrize("between", [" ", "\n", "\n\n", ", ", ". ", " - "])
@pytest.mark.parametrize("before", ["", "So: ", "Well.\n\n"])
@pytest.mark.parametrize(
    "words", ["I will look once more", "0 1 1 0 1 2 3 and so on, to 0", "7 1 8"]
)
def test_each_of_the_words_is_counted(words: str, before: str, between: str) -> None:
    """What stands between words does not stand after the last; the least number is enough."""
    for times in (20, 21):
        assert chant_of(before + between.join([words] * times))[0] == times
        assert chant_of(before + (words + between) * times)[0] == times


@pytest.mark.parametrize("inner", [5, 14, 15, 40])
@pytest.mark.parametrize("first", [True, False])
def test_words_may_hold_a_repetition(inner: int, first: bool) -> None:
    """The repetition within them is shorter than what is said again and again."""
    parts = ["stop it. ", "no " * inner]
    words = "".join(parts if first else parts[::-1])
    assert chant_of(words * 20)[0] == 20


def test_a_chant_that_was_cut_off_is_one() -> None:
    """A model stops where its tokens end, which is in the middle of a word."""
    assert chant_of("Well. " + "I will look once more. " * 50 + "I will lo")[0] == 50


def test_time_does_not_grow_with_the_square() -> None:
    """A text that was made to be slow is not."""
    began = time.process_time()
    for text in ("a" * LONG_CHARS, "ab" * LONG_CHARS, NESTED, "a" * LONG_CHARS + "b", LIST * 900):
        chant_of(text)

    assert time.process_time() - began < SLOW_S
