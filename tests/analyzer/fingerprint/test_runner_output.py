"""What test runners print at the end of a run, and the figures that are read out of it."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from looptrace._core import figures
from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints
from looptrace.analyzer.schema.turns import TURN_SCHEMA

PYTEST = """\
tests/test_cart.py ..F.E                                                 [100%]
=================================== FAILURES ===================================
E       assert 41 == 42
=========================== short test summary info ============================
FAILED tests/test_cart.py::test_total - assert 41 == 42
ERROR tests/test_cart.py::test_tax
=============== 1 failed, 3 passed, 1 skipped, 2 warnings, 1 error in 0.12s ================
"""
UNITTEST = """\
FAIL: test_total (tests.test_cart.CartTest.test_total)
----------------------------------------------------------------------
Ran 13 tests in 0.010s

FAILED (failures=2, errors=1, skipped=1, expected failures=4)
"""
JEST = """\
FAIL src/cart.test.ts
  ● cart > adds the tax

Test Suites: 1 failed, 3 passed, 4 total
Tests:       2 failed, 1 skipped, 10 passed, 13 total
Snapshots:   0 total
Time:        1.52 s
"""
VITEST = """\
 FAIL  src/cart.test.ts > cart > adds the tax
 Test Files  1 failed | 3 passed (4)
      Tests  2 failed | 10 passed | 1 skipped (13)
   Start at  10:11:12
"""
MOCHA = """\
  cart
    ✔ adds
    1) adds the tax


  10 passing (30ms)
  1 pending
  2 failing

  1) cart
"""
GO = """\
--- FAIL: TestTax (0.00s)
    --- FAIL: TestTax/reduced (0.00s)
        cart_test.go:12: got 41
FAIL
FAIL\texample.org/cart\t0.004s
ok  \texample.org/order\t0.012s
--- FAIL: TestPay (0.00s)
FAIL
FAIL\texample.org/pay\t0.004s
FAIL
"""
GO_VERBOSE = """\
=== RUN   TestAdd
--- PASS: TestAdd (0.00s)
=== RUN   TestTax
--- FAIL: TestTax (0.00s)
--- SKIP: TestSlow (0.00s)
FAIL
FAIL\texample.org/cart\t0.004s
"""
CARGO = """\
running 3 tests
test tests::tax ... FAILED
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 2 tests
test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""
MAVEN = """\
[ERROR] Tests run: 4, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.05 s - in CartTest
[INFO] Results:
[ERROR] Failures:
[ERROR]   CartTest.tax:12 expected: <42> but was: <41>
[ERROR] Tests run: 10, Failures: 1, Errors: 2, Skipped: 1
[INFO] BUILD FAILURE
"""
DOTNET = """\
  Failed Shop.CartTests.Tax [5 ms]
Failed!  - Failed:     1, Passed:     9, Skipped:     0, Total:    10, Duration: 5 ms - Shop.dll
Passed!  - Failed:     0, Passed:     4, Skipped:     1, Total:     5, Duration: 2 ms - Pay.dll
"""
RSPEC = """\
Finished in 0.01 seconds (files took 0.1 seconds to load)
10 examples, 2 failures, 1 pending, 1 error occurred outside of examples

Failed examples:
"""
PHPUNIT = """\
FAILURES!
Tests: 5, Assertions: 10, Errors: 1, Failures: 2, Skipped: 1.
"""
NODE = """\
not ok 1 - tax
# tests 12
# suites 2
# pass 10
# fail 2
# cancelled 0
"""


def read(text: str) -> tuple[int | None, int | None, float | None]:
    """Return failed tests, all tests and coverage of one text."""
    return figures(text)


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    ("text", "failed", "total"),
    [
        (PYTEST, 2, 6),
        ("2 failed, 10 passed in 0.12s", 2, 12),
        ("=== 12 passed, 1 xfailed in 61.20s (0:01:01) ===", 0, 13),
        ("!!! Interrupted: 1 error during collection !!!\n=== 1 error in 0.30s ===", 1, 1),
        (UNITTEST, 3, 13),
        ("Ran 1 test in 0.000s\n\nOK", 0, 1),
        ("Ran 4 tests in 0.000s\n\nFAILED (unexpected successes=1)", 1, 4),
        (JEST, 2, 13),
        ("Test Suites: 1 passed, 1 total\nTests:       5 passed, 5 total\n", 0, 5),
        ("Test Suites: 1 failed, 1 passed, 2 total\nTests:       5 passed, 5 total\n", 1, 5),
        ("Test Suites: 1 failed, 1 total\nTests:       0 total\n", 1, 0),
        (VITEST, 2, 13),
        (" Test Files  1 passed (1)\n      Tests  12 passed (12)\n", 0, 12),
        (MOCHA, 2, 13),
        ("  12 passing (2s)\n", 0, 12),
        (NODE, 2, 12),
        (GO, 2, None),
        (GO_VERBOSE, 1, 3),
        ("ok  \texample.org/cart\t(cached)\n", 0, None),
        (
            "# example.org/cart\n./cart.go:3: undefined: x\nFAIL\texample.org/cart [build failed]",
            1,
            None,
        ),
        (CARGO, 3, 5),
        (MAVEN, 3, 10),
        ("Tests run: 5,  Failures: 2\n", 2, 5),
        ("12 tests completed, 2 failed, 1 skipped\n", 2, 12),
        (DOTNET, 1, 15),
        ("Test summary: total: 10, failed: 1, succeeded: 9, skipped: 0, duration: 1.2s", 1, 10),
        (RSPEC, 3, 10),
        ("1 example, 0 failures\n", 0, 1),
        (PHPUNIT, 3, 5),
        ("OK (5 tests, 10 assertions)\n", 0, 5),
        ("  0 passing (2ms)\n  2 failing\n", 2, 2),
        ("  2 failing\n\n  1) cart\n", 2, None),
        ("3 tests failing: tax, total, rate\n", 3, None),
        ("2 tests failed\n", 2, None),
        ("Running tests... 2 failed: auth.test.ts - login timeout, logout assertion", 2, None),
        ("FAILED (failures=2)", 2, None),
        ("FAILED (failures=2, errors=1)\n", 3, None),
        ("Tests: 2 failed, 3 passed\n", 2, None),
        ("71% tests passed, 2 tests failed out of 7\n", 2, 7),
        ("\t Executed 5 tests, with 2 failures (0 unexpected) in 0.1 (0.2) seconds", 2, 5),
        ("     Summary [   0.020s] 3 tests run: 1 passed, 2 failed, 0 skipped\n", 2, 3),
        ("FAILED | 3 passed | 2 failed (12ms)\n", 2, None),
        ("[         3 tests successful      ]\n[         2 tests failed          ]\n", 2, None),
    ],
)
def test_summaries_of_runners(text: str, failed: int, total: int | None) -> None:
    """Each runner's own summary is read, as text, in JSON, and with Windows' line ends."""
    assert read(text)[:2] == (failed, total)
    assert read(text.replace("\n", "\r\n"))[:2] == (failed, total)
    assert read(json.dumps({"exit_code": 1, "stdout": text, "stderr": ""}))[:2] == (failed, total)


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    "text",
    [
        "3 tests failed to convince me",
        "Two suites passed, 3 failed in my head",
        "I ran it: 2 failed, 3 passed, as I said.",
        "The tests passed.",
        "collected 0 items\n=== no tests ran in 0.01s ===",
        "=== 5 deselected in 0.01s ===",
        "Ran 3 tests in 0.1s",
        "Tests:       2 failed, 1",
        "Tests:       0 total",
        "--- FAIL: TestTax (0.00s)\n    cart_test.go:12: got 41",
        "TOTAL 12 3 EUR",
        "Coverage: 812%",
        "The policy has a coverage: 80% of costs",
        "99999999999999999999 failed in 1s",
        "",
    ],
)
def test_what_is_no_summary_has_no_figures(text: str) -> None:
    """Prose, runs of nothing and truncated runs say nothing of how many tests fail."""
    assert read(text) == (None, None, None)


def test_last_summary_counts() -> None:
    """A text may show several runs; what the last one says is how things stand."""
    assert read("3 failed, 1 passed in 0.1s\n1 failed, 3 passed in 0.1s")[:2] == (1, 4)
    assert read(f"{JEST}\n2 failed, 4 passed in 0.1s")[:2] == (2, 6)
    assert read(f"2 failed, 4 passed in 0.1s\n{JEST}")[:2] == (2, 13)


def test_colours_are_no_part_of_a_summary() -> None:
    """Runners colour what they print where they take the tool for a terminal."""
    text = "\x1b[31m== \x1b[1m2 failed\x1b[0m, \x1b[32m10 passed\x1b[0m\x1b[31m in 0.12s\x1b[0m =="

    assert read(text)[:2] == (2, 12)
    assert read(json.dumps({"stdout": text}))[:2] == (2, 12)


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    ("text", "coverage"),
    [
        ("Name      Stmts   Miss  Cover\n-----\nTOTAL       100     19    81%\n", 81.0),
        ("TOTAL   100   19   20   3   80.5%", 80.5),
        ("File      | % Stmts | % Branch |\nAll files |   81.25 |       50 |   90 |   80 |", 81.25),
        ("Statements   : 81.25% ( 13/16 )\nBranches     : 50% ( 1/2 )", 81.25),
        ("ok  \texample.org/cart\t0.01s\tcoverage: 81.2% of statements", 81.2),
        ("coverage: 80.0% of statements\ncoverage: 60.0% of statements", 70.0),
        ("cart.go:3:\tAdd\t100.0%\ntotal:\t\t\t(statements)\t81.2%", 81.2),
        ("  lines......: 81.2% (65 of 80 lines)", 81.2),
        ("Required test coverage of 80% reached. Total coverage: 85.32%", 85.32),
        ("Coverage: 81%", 81.0),
        ("81.25% coverage, 13/16 lines covered", 81.25),
    ],
)
def test_coverage_figures(text: str, coverage: float) -> None:
    """The figure of the whole is read; Go's packages are averaged, as nothing tells their size."""
    assert read(text)[2] == coverage


def test_figures_of_turns() -> None:
    """Tools' results are read, then their errors; what an author recorded is kept."""
    said = "2 failed, 10 passed in 0.12s"
    rows: list[dict[str, Any]] = [
        {"kind": "tool", "name": "sh", "result": said},
        {"kind": "tool", "name": "sh", "error": said},
        {"kind": "tool", "name": "sh", "result": "exit 1", "error": said},
        {"kind": "tool", "name": "sh", "result": said, "tests_failed": 7},
        {"kind": "model", "name": "model", "result": said},
        {"kind": "tool", "name": "run_tests", "result": "2 failed: login, logout"},
        {"kind": "tool", "name": "upload", "result": "2 failed: a.png, b.png"},
        {"kind": "tool", "name": "run_tests", "result": "9 passed, 3 failed"},
        {"kind": "tool", "name": "run_tests", "result": "9 passed"},
        {"kind": "tool", "name": "sh", "arguments": '{"command":"npm test"}', "result": "2 failed"},
        {
            "kind": "tool",
            "name": "sh",
            "arguments": '{"command":"npm run x"}',
            "result": "2 failed",
        },
    ]
    blank: dict[str, Any] = dict.fromkeys(TURN_SCHEMA)
    turns = pl.DataFrame([blank | row for row in rows], TURN_SCHEMA)
    found = add_fingerprints(turns)

    assert found["tests_failed"].to_list() == [2, 2, 2, 7, None, 2, None, 3, 0, 2, None]
    assert found["tests_total"].to_list() == [*[12] * 4, *[None] * 3, 12, *[None] * 3]
