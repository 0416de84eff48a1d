"""Promises have tests, and the tests of reliability have a promise."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs/promises.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| (P\d+) \| (.*)$", PAGE, re.MULTILINE))
_TEST = re.compile(r"`([\w/]+\.py)(?:::(\w+))?`")
_PROMISE = re.compile(r"\bP\d+\b")


def documented(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of a file and of each of its tests."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "name", ""), ast.get_docstring(node) or ""


def test_all_promises_are_there() -> None:
    """Their numbers are in the docstrings of tests, and never change."""
    assert list(ROWS) == [f"P{number}" for number in range(1, 33)]


@pytest.mark.parametrize("promise", ROWS)
def test_a_promise_names_tests_that_exist(promise: str) -> None:
    """In the second cell; a promise without a test is a wish."""
    named = _TEST.findall(ROWS[promise].split(" | ")[1])

    assert named
    for file, name in named:
        assert not name or name in dict(documented(TESTS / file)), f"{file}::{name}"


@pytest.mark.parametrize(
    "path", sorted((TESTS / "reliability").glob("test_*.py")), ids=lambda path: path.name
)
def test_a_test_of_reliability_names_a_promise(path: Path) -> None:
    """And the promise names the file, so that the page shows all that stands behind it."""
    named = {found for _, text in documented(path) for found in _PROMISE.findall(text)}

    assert named
    file = f"reliability/{path.name}"
    assert sorted(promise for promise in named if file not in ROWS.get(promise, "")) == []
