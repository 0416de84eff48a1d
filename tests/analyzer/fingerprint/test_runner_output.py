"""The figures of a test run reach its turn; `core/data/runners.toml` has what runners print."""

import json
from typing import Any

import pytest

from looptrace._core import figures
from tests.turn_rows import turns_with

PYTEST = "2 failed, 10 passed in 0.12s"
JEST = """\
Test Suites: 1 failed, 3 passed, 4 total
Tests:       2 failed, 1 skipped, 10 passed, 13 total
"""


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    ("text", "failed", "total", "coverage"),
    [
        (PYTEST, 2, 12, None),
        (f"{JEST}\n{PYTEST}", 2, 12, None),
        (f"{PYTEST}\n{JEST}", 2, 13, None),
        ("== \x1b[1m2 failed\x1b[0m, \x1b[32m10 passed\x1b[0m in 0.12s ==", 2, 12, None),
        ("TOTAL   100   19   20   3   80.5%", None, None, 80.5),
        ("coverage: 80.0% of statements\ncoverage: 60.0% of statements", None, None, 70.0),
        ("collected 0 items\n=== no tests ran in 0.01s ===", None, None, None),
        ("", None, None, None),
    ],
)
def test_the_last_summary_counts(
    text: str, failed: int | None, total: int | None, coverage: float | None
) -> None:
    """Colours are no part of it, a run of nothing has none, and Go's packages are averaged."""
    assert figures(text) == (failed, total, coverage)
    assert figures(json.dumps({"stdout": text})) == (failed, total, coverage)


def test_figures_of_turns() -> None:
    """Tools' results are read, then their errors; what an author recorded is kept."""
    rows: list[dict[str, Any]] = [
        {"name": "sh", "result": PYTEST},
        {"name": "sh", "error": PYTEST},
        {"name": "sh", "result": "exit 1", "error": PYTEST},
        {"name": "sh", "result": PYTEST, "tests_failed": 7},
        {"kind": "model", "name": "model", "result": PYTEST},
        {"name": "run_tests", "result": "9 passed, 3 failed"},
        {"name": "upload", "result": "2 failed: a.png, b.png"},
        {"name": "sh", "arguments": '{"command":"npm test"}', "result": "2 failed"},
        {"name": "sh", "arguments": '{"command":"npm run x"}', "result": "2 failed"},
    ]
    found = turns_with(*rows)

    assert found["tests_failed"].to_list() == [2, 2, 2, 7, None, 3, None, 2, None]
    assert found["tests_total"].to_list() == [*[12] * 4, None, 12, *[None] * 3]
