"""Test and coverage figures, read from the output of tools.

Only summaries that test runners write themselves count, in the runner's own form and at its place
in the line; prose about tests has no figures. A text may hold several summaries. The last summary
of the last runner counts, except for runners that write one for each package.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from looptrace.analyzer.fingerprint.failure_places import printed_lines
from looptrace.analyzer.text.cut_texts import COVERAGE, FAILED, MARK, NAMES, TOTAL

# Long digit strings are not counts.
_N = r"[0-9]{1,7}"
_WORDS = "failed|passed|skipped|deselected|xfailed|xpassed|warnings?|errors?|rerun|subtests passed"
_OUTCOMES = "failed|passed|skipped|todo|pending|expected fail"
_SECONDS = r"[0-9]+(?:\.[0-9]+)?"


@dataclass(frozen=True, slots=True)
class Runner:
    """How a test runner ends a run; patterns are Rust's.

    If there are several `failed` patterns, the one with the greatest sum counts: a suite that
    cannot start has no failed test. `total` is the sum of all its matches. If `adds` is set, all
    summaries of a text are one run. Without `total` a summary does not give the number of tests.
    """

    summary: str  # the whole summary, which no other runner writes
    failed: tuple[str, ...]
    total: str
    adds: bool = False


RUNNERS = (
    # pytest: "=== 2 failed, 10 passed in 0.12s ==="
    Runner(
        rf"^=* ?(?:{_N} (?:{_WORDS})(?:, )?)+ in {_SECONDS}s(?: \([\d:]+\))?(?: =+)?$",
        (rf"({_N}) (?:failed|errors?)",),
        rf"({_N}) (?:failed|passed|errors?|skipped|xfailed|xpassed)",
    ),
    # unittest: "Ran 13 tests in 0.010s", then "FAILED (failures=2, errors=1)"
    Runner(
        rf"^Ran {_N} tests? in {_SECONDS}s\s+(?:OK|FAILED)\b(?: \([a-z =\d,]+\))?",
        (rf"[(,] ?(?:failures|errors|unexpected successes)=({_N})",),
        rf"Ran ({_N})",
    ),
    # Jest: "Tests:       2 failed, 10 passed, 12 total", below the same of suites
    Runner(
        rf"(?:^Test Suites: [^\n]*\n)?^Tests: +(?:{_N} (?:{_OUTCOMES}), )*{_N} total$",
        (rf"(?m)^Tests: .*?({_N}) failed", rf"^Test Suites: ({_N}) failed"),
        rf"(?m)^Tests: .*?({_N}) total",
    ),
    # Vitest: "      Tests  2 failed | 10 passed (12)", below the same of files
    Runner(
        rf"(?:^ *Test Files  [^\n]*\n)?^ *Tests  (?:{_N} (?:{_OUTCOMES})(?: \| )?)+ \({_N}\)$",
        (rf"(?m)^ *Tests  .*?({_N}) failed", rf"^ *Test Files  ({_N}) failed"),
        rf"(?m)^ *Tests  .*?\(({_N})\)",
    ),
    # Mocha: "  12 passing (30ms)", then "  2 failing"
    Runner(
        rf"^ *{_N} passing \(\d+m?s?\)(?:\s+{_N} pending$)?(?:\s+{_N} failing$)?",
        (rf"({_N}) failing",),
        rf"({_N}) (?:passing|pending|failing)",
    ),
    # Node's own: "# tests 12", and some lines later "# fail 2"
    Runner(
        rf"^[#\u2139] tests {_N}\n(?:[#\u2139] (?:suites|pass) {_N}\n)*[#\u2139] fail {_N}$",
        (rf"fail ({_N})",),
        rf"tests ({_N})",
    ),
    # cargo: "test result: FAILED. 3 passed; 1 failed; 0 ignored; ..."
    Runner(
        rf"^test result: (?:ok|FAILED)\. {_N} passed; {_N} failed; {_N} ignored;",
        (rf"({_N}) failed",),
        rf"({_N}) (?:passed|failed|ignored)",
        adds=True,
    ),
    # Surefire and JUnit 4: "[ERROR] Tests run: 10, Failures: 1, Errors: 1, Skipped: 0"
    Runner(
        rf"^(?:\[\w+\] )?Tests run: {_N}, +Failures: {_N}(?:, [EFS]\w+: {_N})*$",
        (rf"(?:Failures|Errors): ({_N})",),
        rf"Tests run: ({_N})",
        adds=True,
    ),
    # Gradle, which counts only if some failed: "12 tests completed, 2 failed, 1 skipped"
    Runner(
        rf"^{_N} tests? completed, {_N} failed(?:, {_N} skipped)?$",
        (rf"({_N}) failed",),
        rf"({_N}) tests? completed",
        adds=True,
    ),
    # dotnet test: "Failed!  - Failed:     1, Passed:     9, Skipped:     0, Total:    10, ..."
    Runner(
        rf"^ *(?:Failed|Passed)! +- Failed: +{_N}, Passed: +{_N}, Skipped: +{_N}, Total: +{_N},",
        (rf"Failed: +({_N})",),
        rf"Total: +({_N})",
        adds=True,
    ),
    # The same since .NET 9: "Test summary: total: 10, failed: 1, succeeded: 9, skipped: 0, ..."
    Runner(
        rf"^ *Test summary: total: {_N}, failed: {_N}, succeeded: {_N}, skipped: {_N}",
        (rf"failed: ({_N})",),
        rf"total: ({_N})",
    ),
    # RSpec: "10 examples, 2 failures, 1 pending"
    Runner(
        rf"^{_N} examples?, {_N} failures?(?:, {_N} pending)?"
        rf"(?:, {_N} errors? occurred outside of examples)?$",
        (rf"({_N}) (?:failure|error)",),
        rf"({_N}) examples?",
    ),
    # PHPUnit: "OK (5 tests, 10 assertions)", or "Tests: 5, Assertions: 10, Failures: 2."
    Runner(
        rf"^OK \({_N} tests?, {_N} assertions?\)"
        rf"|^Tests: {_N}, Assertions: {_N}(?:, [A-Za-z ]+: {_N})*\.$",
        (rf"(?:Failures|Errors): ({_N})",),
        rf"(?:OK \(|Tests: )({_N})",
    ),
    # CTest, XCTest, nextest, Deno and JUnit 5's console.
    Runner(
        rf"^{_N}% tests passed, {_N} tests? failed out of {_N}$"
        rf"|^\s*Executed {_N} tests?, with {_N} failures? \({_N} unexpected\)"
        rf"|^ *Summary \[[^\]\n]*\] +{_N} tests? run: {_N} passed[^\n]*$"
        rf"|^(?:ok|FAILED) \| {_N} passed[^|\n]*\| {_N} failed"
        rf"|^\[ +{_N} tests (?:successful|failed) +\]$",
        (rf"({_N}) (?:tests? )?(?:failed|failures?)",),
        rf"out of ({_N})|Executed ({_N})|({_N}) tests? run:",
    ),
    # Wrappers print these, and they are what is left if the head or tail of a run is cut off:
    # "2 tests failing", "2 failing", "FAILED (failures=2)", "Tests: 2 failed, 3 passed".
    Runner(
        rf"^ *{_N} tests? (?:failed|failing)(?:[:,.(][^\n]*)?$|^ *{_N} failing$"
        rf"|^(?:Running tests|Test run)\W+{_N} (?:tests? )?(?:failed|failing)(?:[:,.(][^\n]*)?$"
        rf"|^FAILED \((?:[a-z ]+={_N}(?:, )?)+\)$"
        rf"|^ *Tests: +{_N} failed(?:, {_N} (?:{_OUTCOMES}))*$",
        (rf"({_N}) (?:tests? )?fail(?:ed|ing)|\b(?:failures|errors|unexpected successes)=({_N})",),
        "",
    ),
    # go test: "ok" or "FAIL" for each package, and lines of the tests that failed, or of all tests.
    Runner(
        r"^--- (?:PASS|FAIL|SKIP): \S+ \(\d+\.\d+s\)$"
        r"|^(?:ok|FAIL)[ \t]+\S+\s+(?:\d+\.\d+s|\(cached\)).*$|^FAIL[ \t]+\S+ \[[a-z ]+\]$",
        (),
        "",
        adds=True,
    ),
)
_GO = len(RUNNERS) - 1
# A truncated run has tests without their package; Go shows all tests only on request.
_GO_TEST, _GO_PASSED = "--- ", "--- PASS"
_SUMMARY = "|".join(runner.summary for runner in RUNNERS)
# Tells the runner of a summary. It is only applied to what the linear-time engine has found.
_BY_RUNNER = re.compile(
    "|".join(f"(?P<r{i}>{runner.summary})" for i, runner in enumerate(RUNNERS)), re.MULTILINE
)

# A text without any of these has no figures; looking for them is the cheapest step.
_MARKERS = [
    *(" failed", " passed", "Ran ", "Tests", " passing", "tests ", "test result: ", "ok  "),
    *("FAIL", " examples, ", " example, ", "OK (", "Test summary: ", "Failed!", "Passed!"),
    *(" error in ", " errors in ", " failing", "tests failed", "FAILED", "Executed ", "Summary ["),
    *("TOTAL", "All files", "overage", "lines.....", "Statements", "(statements)", " figures:"),
]

# By coverage.py, Istanbul (table and summary), Go, lcov, and tools that name coverage.
_COVERAGE = (
    r"^TOTAL +[0-9]+ +[0-9]+(?: +[0-9]+ +[0-9]+)? +[0-9]+(?:\.[0-9]+)?%$",
    r"^All files *\| *[0-9]+(?:\.[0-9]+)? *\|",
    r"^Statements +: [0-9]+(?:\.[0-9]+)?%",
    r"^total:\s+\(statements\)\s+[0-9]+(?:\.[0-9]+)?%$",
    r"^ *lines\.+: [0-9]+(?:\.[0-9]+)?%",
    r"(?:^|reached\. )(?:[Tt]otal |[Tt]est |[Cc]ode )?[Cc]overage: [0-9]+(?:\.[0-9]+)?%\.?$",
    r"^[0-9]+(?:\.[0-9]+)?% coverage, ",
)
_GO_COVERAGE = r"\bcoverage: ([0-9]+(?:\.[0-9]+)?)% of statements"
_PERCENT = r"([0-9]+(?:\.[0-9]+)?) *(?:%|\|)"
PERCENT_MAX = 100.0

# A tool named for tests, or a command that runs tests, may answer with less than a runner's whole
# output.
TESTS = re.compile("test|spec", re.IGNORECASE)
_TESTS_BY_COMMAND = (
    r"\b(?:pytest|unittest|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|nextest)\b"
    r"|\b(?:npm|yarn|pnpm|bun|deno|cargo|go|dotnet|mvn|gradle|gradlew|make|swift|mix|rake|composer"
    r"|flutter|dart|bazel|just)\b(?: run| -\S+)* test"
)
_BARE_CHARS = 200
_BARE = re.compile(
    rf"\W*(?:[A-Za-z]+(?: tests)?(?:: |\.{{1,3}} ?))?({_N}) (?:tests? )?(fail|pass)(?:ed|ing)"
    rf"(?:, ({_N}) (?:tests? )?(fail|pass)(?:ed|ing))?(?:\.|:|\s*$|\n)"
)
_BARE_PARTS = re.compile(r'\\n|\n|": ?"|"[,}\]]|</?[a-z_]+>')

# How runners name the tests that failed, and the files of those tests.
_FAILED_TESTS = (
    r"^(?:FAILED|ERROR) (?P<file>[^\s:]+\.py)(?:::(?P<name>.+?))?(?: - .*)?$",  # pytest
    r"^(?:FAIL|ERROR): (?P<name>[^\s()]+) \([^\s()]+\)$",  # unittest
    r"^ *FAIL +(?P<file>\S+\.[cm]?[jt]sx?)(?: > (?P<name>.+))?$",  # Jest, Vitest
    r"^ *[●✗✖] (?P<name>\S.*)$",  # Jest, Mocha
    r"^ *--- FAIL: (?P<name>\S+)",  # go test
    r"^test (?P<name>\S+)(?: - should panic)? \.\.\. FAILED$",  # cargo
    r"^rspec (?P<file>\S+?):[0-9]+ # (?P<name>.+)$",
    r"^[0-9]+\) (?P<name>[^\s:]+::\S.*)$",  # PHPUnit
    r"^ *Failed (?P<name>\S+) \[",  # dotnet test
    r"^\[ERROR\] +(?P<name>[^\s.:]+\.[^\s.:]+):[0-9]+",  # Surefire
    r"^ *not ok [0-9]+ - (?P<name>.+)$",  # Node's own
    r"^ {4,}[0-9]+\) (?P<name>\S.*)$",  # Mocha
    r"^(?P<name>\S+ > \S.*) FAILED$",  # Gradle
    r"^ +FAIL \[[^\]]*\] +(?P<name>\S.*)$",  # nextest
    r"^\s*Test Case '-?\[?(?P<name>[^'\]]+)\]?' failed \(.*$",  # XCTest
    # Wrappers: "Running tests... 2 failed: auth.test.ts - login timeout, logout assertion"
    r"^(?:Running tests\W+|\W*)[0-9]+ (?:tests? )?(?:failed|failing): "
    r"(?:(?P<file>[\w./\\-]+\.\w+) - )?(?P<names>\w[\w :>.-]*(?:, \w[\w :>.-]*)*)$",
)
_FAILED_LINE = "(?m)" + re.sub(r"\?P<\w+>", "?:", "|".join(_FAILED_TESTS))
_NAMES = [re.compile(pattern) for pattern in _FAILED_TESTS]
_NOT_OF_A_NAME = re.compile(r"[^\w.\[\]-]+")

FIGURES = pl.Schema(
    {"tests_failed": pl.Int64(), "tests_total": pl.Int64(), "coverage": pl.Float64()}
)


def with_figures(turns: pl.DataFrame) -> pl.DataFrame:
    """Fill in the columns of `FIGURES` for turns of tools, if they are not recorded already.

    Errors count as failed tests, skipped tests belong to the total, coverage is in percent. The
    column `failing` is added: the failed tests by the turn's own text.
    """
    figures = _figures_of(turns)
    return turns.with_columns(
        *(pl.coalesce(name, figures[name]) for name in FIGURES), failing=figures["tests_failed"]
    )


def _figures_of(turns: pl.DataFrame) -> pl.DataFrame:
    """Return the `FIGURES` of results, else of errors, else of the head of either."""
    tool = pl.col("kind") == "tool"
    other = tool & (pl.col("error") != pl.col("result")).fill_null(value=True)
    texts = turns.select(result=pl.when(tool).then("result"), error=pl.when(other).then("error"))
    by_result, by_error = figures_of(texts["result"]), figures_of(texts["error"])
    figures = by_result.select(pl.coalesce(name, by_error[name]) for name in FIGURES)
    names = [name for name in turns["name"].drop_nulls().unique() if TESTS.search(name)]
    by_command = pl.when(tool).then("arguments").str.contains(_TESTS_BY_COMMAND)
    is_test = tool & (pl.col("name").is_in(names) | by_command) & figures["tests_failed"].is_null()
    rows = turns.select(is_test).to_series().fill_null(value=False).arg_true()
    if rows.is_empty():
        return figures
    heads = turns.select(pl.coalesce("result", "error").gather(rows)).to_series()
    failed, total = zip(*map(_count_bare, heads), strict=True)
    return figures.with_columns(
        tests_failed=figures["tests_failed"].scatter(rows, pl.Series(failed, dtype=pl.Int64)),
        tests_total=figures["tests_total"].scatter(rows, pl.Series(total, dtype=pl.Int64)),
    )


def figures_of(texts: pl.Series) -> pl.DataFrame:
    """Return the `FIGURES` of each text, null where a text has none."""
    rows = texts.str.contains_any(_MARKERS).arg_true()
    if rows.is_empty():
        return pl.DataFrame([_unknown(name, len(texts)) for name in FIGURES])
    printed = pl.DataFrame({"printed": texts.gather(rows)}).select(printed_lines(pl.col("printed")))
    marks = printed.select(_of_mark(FAILED), _of_mark(TOTAL), _of_mark(COVERAGE))
    read = printed.select(
        summaries=pl.col("printed").str.extract_all(f"(?m){_SUMMARY}"), coverage=_coverage()
    )
    counts = [
        _count_tests(parts) if len(parts) else (None, None) for parts in read["summaries"].to_list()
    ]
    failed, total = zip(*counts, strict=True)
    figures = {"tests_failed": failed, "tests_total": total, "coverage": read["coverage"]}
    return pl.DataFrame(
        [
            _unknown(name, len(texts)).scatter(rows, _coalesced(mark, figures[name], dtype))
            for mark, (name, dtype) in zip(marks, FIGURES.items(), strict=True)
        ]
    )


def _coalesced(mark: pl.Series, read: Iterable[float | None], dtype: pl.DataType) -> pl.Series:
    """Return the figures of the marks of cut texts, else those that were read."""
    known = mark.cast(dtype, strict=False)
    return known.fill_null(pl.Series(list(read), dtype=dtype)) if known.null_count() else known


def _of_mark(group: int) -> pl.Expr:
    return pl.col("printed").str.extract(MARK, group).alias(f"{group}")


def _unknown(name: str, count: int) -> pl.Series:
    return pl.Series(name, [None], FIGURES[name]).new_from_index(0, count)


def failed_tests(texts: pl.Series) -> pl.DataFrame:
    """Return the tests that each text says have failed.

    `names` are sorted and joined with commas, null where a text names none. `file` is the name of
    their file if only one is known, else null. The mark of a cut text stands for all names.
    """
    printed = texts.to_frame("printed").select(printed_lines(pl.col("printed")))
    lines = printed["printed"].str.extract_all(_FAILED_LINE).to_list()
    hashes = printed.select(_of_mark(NAMES)).to_series()
    return pl.DataFrame(
        [
            (None, hashed) if hashed else _names_in(group)
            for hashed, group in zip(hashes, lines, strict=True)
        ],
        {"file": pl.String, "names": pl.String},
        orient="row",
    )


def _names_in(lines: Sequence[str] | None) -> tuple[str | None, str | None]:
    matches = [match for line in lines or () for p in _NAMES if (match := p.fullmatch(line))]
    parts = [match.groupdict() for match in matches]
    files = {re.split(r"[/\\]", str(part["file"]))[-1] for part in parts if part.get("file")}
    listed = [name for part in parts for name in (part.get("names") or "").split(", ")]
    named = [*listed, *(part.get("name") or "" for part in parts)]
    names = {_NOT_OF_A_NAME.sub("-", name).strip("-") for name in named} - {""}
    return files.pop() if len(files) == 1 else None, ",".join(sorted(names)) or None


def _count_tests(parts: Sequence[str]) -> tuple[int | None, int | None]:
    """Return failed tests and all tests by the summaries of a text, which are in order."""
    runners = [int(str(match.lastgroup)[1:]) for part in parts if (match := _BY_RUNNER.match(part))]
    last = runners[-1]
    parts = [part for part, runner in zip(parts, runners, strict=True) if runner == last]
    runner = RUNNERS[last]
    if last == _GO:
        return _counted_go(parts)
    parts = parts if runner.adds else parts[-1:]
    failed = max(sum(_numbers(pattern, parts)) for pattern in runner.failed)
    totals = _numbers(runner.total, parts) if runner.total else []
    total = sum(totals) if totals else None
    # A run without a test says nothing about the tests.
    return (failed, total) if failed or total else (None, None)


def _counted_go(parts: Sequence[str]) -> tuple[int | None, int | None]:
    tests = [part for part in parts if part.startswith(_GO_TEST)]
    if len(tests) == len(parts):
        return None, None
    failed = sum(part.startswith("--- FAIL") for part in tests)
    packages = sum(part.startswith("FAIL") for part in parts)
    whole = any(part.startswith(_GO_PASSED) for part in tests)
    return max(failed, packages), len(tests) if whole else None


def _numbers(pattern: str, parts: Sequence[str]) -> list[int]:
    matches = [match for part in parts for match in re.finditer(pattern, part)]
    return [int(next(filter(None, match.groups()))) for match in matches]


def _coverage() -> pl.Expr:
    """Return the last figure for the whole; without one, the mean of Go's packages."""
    printed = pl.col("printed")
    whole = printed.str.extract_all("(?m)" + "|".join(_COVERAGE)).list.last()
    packages = printed.str.extract_all(_GO_COVERAGE)
    mean = packages.list.eval(pl.element().str.extract(_PERCENT).cast(pl.Float64)).list.mean()
    percent = pl.coalesce(whole.str.extract(_PERCENT).cast(pl.Float64), mean)
    return pl.when(percent <= PERCENT_MAX).then(percent)


def _count_bare(text: str | None) -> tuple[int | None, int | None]:
    """Read "2 failed, 10 passed" from the head of the answer of a tool that runs tests.

    It may stand in a string of JSON, in a tag, or after a line with the exit code.
    """
    parts = _BARE_PARTS.split(text[:_BARE_CHARS]) if text else ()
    match = next(filter(None, map(_BARE.match, parts)), None)
    if match is None:
        return None, None
    counts = {match[2]: int(match[1])} | ({match[4]: int(match[3])} if match[4] else {})
    # A single count may not be the count of all tests.
    return counts.get("fail", 0), sum(counts.values()) if match[4] else None
