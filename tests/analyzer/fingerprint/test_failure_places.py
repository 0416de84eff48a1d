"""Failures in the forms of many tools: places are no part of them, words, types and files are."""

import json
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.fingerprint.equivalence import NOTHING
from looptrace.analyzer.fingerprint.fingerprints import policy_of
from looptrace.analyzer.schema.turns import numbered
from tests.drivers import batch, live
from tests.turn_rows import turns_with

# What tools print, in our own words. `<line>`, `<col>`, `<quote>` and `<below>` (marks below a
# quote) move; `<type>`, `<words>` and `<file>` are what a failure is.
FAILURES = (Path(__file__).parent / "data/failures.txt").read_text(encoding="utf-8")
OUTPUT = dict(block.split("\n", 1) for block in re.split("^=== ", FAILURES, flags=re.MULTILINE)[1:])
REAL = {"type": "Type", "words": "rate", "file": "cart"}
OTHERS = {"type": "Range", "words": "price", "file": "order"}
# What an edit moves, from one try to the next.
TRIES = [
    {"line": 9, "col": 5, "quote": "return user.rates();", "below": "^", "progress": ""},
    {"line": 45, "col": 12, "quote": "let a = user.rates(7);", "below": "       ^~~~~~"},
    {"line": 147, "col": 7, "quote": "if (a) { use(user) }", "below": "  ~~~~^~~"},
]
FIRST_TIME = {
    "progress": "    Updating crates.io index\n   Compiling tinyvec v1.6.0\n",
    "gradle": "Starting a Gradle Daemon, 1 busy\n> Task :classes UP-TO-DATE\n",
}
LINEAR_S = 2.0  # of one core, so that a loaded machine does not count


def printed(tool: str, attempt: int, **other: str) -> str:
    """Return what a tool prints at an attempt, with other words, another type or another file."""
    text, moved = OUTPUT[tool], TRIES[attempt % len(TRIES)]
    line = int(str(moved["line"])) + attempt
    values = REAL | moved | {"line": line, "line2": line + 12, "line3": line + 1} | other
    values |= FIRST_TIME if attempt == 0 else dict.fromkeys(FIRST_TIME, "")
    for name, value in values.items():
        text = text.replace(f"<{name}>", str(value))
    return text


def compared(*texts: str) -> list[str]:
    """Return what failures are compared by."""
    return [policy_of(NOTHING).masked(text, error=True) for text in texts]


def rounds(texts: Sequence[str], task: str) -> pl.DataFrame:
    """Return the turns of a task that runs a build, meets an error and edits, again and again."""
    calls: list[dict[str, Any]] = []
    for n, text in enumerate(texts):
        calls += [
            {"name": "build", "arguments": "{}", "failed": True, "result": text},
            {"name": "edit_file", "arguments": f'{{"text":{n}}}', "result": f"changed {n}"},
        ]
    return turns_with(*(dict.fromkeys(("task", "session", "trace_id"), task) | c for c in calls))


def rules_by_task(tables: Iterable[pl.DataFrame]) -> dict[str, set[str]]:
    """Return the rules that fire in each task, in batch and live alike."""
    turns = numbered(pl.concat(tables)).sort("end_ns", "task")
    stored = batch(turns.sort("task", "end_ns"))
    assert sorted(live(turns, seed=1), key=str) == sorted(stored, key=str)
    rules = {task: set[str]() for task in turns["task"].unique()}
    for finding in stored:
        rules[finding.task].add(finding.rule)
    return rules


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("tool", OUTPUT)
def test_one_error_elsewhere_is_the_same(tool: str) -> None:
    """Lines, columns, quotes and marks move with every edit, and what a build says first."""
    texts = compared(*(printed(tool, attempt) for attempt in range(3)))

    assert texts == texts[:1] * 3
    assert not {"9", "45", "147"} & set(texts[0].split())


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("part", OTHERS)
@pytest.mark.parametrize("tool", OUTPUT)
def test_another_error_at_the_same_place_is_another(tool: str, part: str) -> None:
    """Another type, other words and another file are each another failure."""
    one, other = compared(printed(tool, 1), printed(tool, 1, **{part: OTHERS[part]}))

    assert one != other


@pytest.mark.parametrize("tool", OUTPUT)
def test_output_in_json_and_of_windows_is_the_same(tool: str) -> None:
    """Shell tools wrap what was printed in an object; Windows ends lines otherwise."""
    for form in (
        lambda text: json.dumps({"exit_code": 1, "stdout": text, "stderr": ""}),
        lambda text: text.replace("\n", "\r\n"),
    ):
        one, again = compared(*(form(printed(tool, attempt)) for attempt in (1, 2)))
        (other,) = compared(form(printed(tool, 1, words=OTHERS["words"])))

        assert one == again != other


@pytest.mark.requirement("C1")
def test_edits_that_leave_the_error_are_a_loop() -> None:
    """Six rounds of an edit and the same error are found, in each form."""
    fired = rules_by_task(rounds([printed(tool, n) for n in range(6)], tool) for tool in OUTPUT)

    assert [tool for tool in OUTPUT if "persistent_failure" not in fired[tool]] == []


@pytest.mark.requirement("C4")
def test_edits_that_bring_other_errors_are_work() -> None:
    """Six rounds of an edit and another error each are no loop, in any form."""
    words = "tax", "sum", "net", "fee", "vat", "due"
    fired = rules_by_task(
        rounds([printed(tool, n, words=word) for n, word in enumerate(words)], tool)
        for tool in OUTPUT
    )

    assert [tool for tool in OUTPUT if fired[tool] - {"no_measurable_progress"}] == []


@pytest.mark.requirement("C1")
def test_one_error_in_a_row_has_one_signature() -> None:
    """Where nothing lies between, `signature_repeat` finds it."""
    fired = rules_by_task(
        rounds([printed(tool, n) for n in range(4)], tool).filter(pl.col("name") == "build")
        for tool in OUTPUT
    )

    assert [tool for tool in OUTPUT if "signature_repeat" not in fired[tool]] == []


@pytest.mark.requirement("C4")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("connect ECONNREFUSED db.internal:5432", "connect ECONNREFUSED db.internal:5433"),
        ("step 3 failed", "step 4 failed"),
        ("line 3 is no address", "line 4 is no address"),
        ("users.csv has no column 3", "users.csv has no column 4"),
        ("12 rows are missing", "13 rows are missing"),
        ("expected 42, got 41", "expected 42, got 40"),
        ("want 2:1", "want 3:1"),
        ("3c3\n< a\n---\n> b", "3c3\n< a\n---\n> c"),
        ("a.ts(1,2): error TS1: x\na.ts(9,2): error TS1: x", "a.ts(1,2): error TS1: x"),
    ],
)
def test_figures_that_are_no_place_stay(one: str, other: str) -> None:
    """Ports, steps, counts, values, differences, and how many errors there are make a failure."""
    first, second = compared(one, other)

    assert first != second


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "\n",
        "    \n",
        " |",
        "> ",
        "^ ",
        "a.py:",
        "a.py:1:2-",
        "at (",
        "    at a (b.js:1:2)\n",
        '  File "a.py", line 1, in b\n',
        '  File "a.py", line 1, in b\n    c\n',
        "a()\n\tb.go:1\n",
        "   1: a\n      at b\n",
        "    a\n",
        "> a\n",
        "  |  ^ ",
        "a/" * 50 + ".",
    ],
)
def test_hostile_texts_take_linear_time(unit: str) -> None:
    """A pattern that takes the square of the length would stop a server with one span."""
    text = (unit * 400_000)[:400_000]
    start = time.process_time()
    compared(text)

    assert time.process_time() - start < LINEAR_S
