"""Failures in the forms of many tools: places are no part of them, words, types and files are."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.fingerprint.equivalence import NOTHING
from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints, policy_of
from looptrace.analyzer.schema.turns import TURN_SCHEMA, numbered
from looptrace.rules.vocabulary import NS_PER_S
from tests.drivers import batch, live

# What tools print, in our own words. `<line>`, `<col>`, `<quote>` and `<below>` (marks below a
# quote) move; `<type>`, `<words>` and `<file>` are what a failure is.
OUTPUT = {
    "tsc": """\
src/<file>.ts(<line>,<col>): error TS<type>: Object is <words>.
src/<file>.ts(<line2>,3): error TS7006: Parameter 'cart' has no type.
""",
    "tsc, in colour": """\
\x1b[96msrc/<file>.ts\x1b[0m:\x1b[93m<line>\x1b[0m:\x1b[93m<col>\x1b[0m - \x1b[91merror\x1b[0m\
 TS<type>: Object is <words>.

\x1b[7m<line>\x1b[0m   <quote>
\x1b[7m \x1b[0m   \x1b[91m<below>\x1b[0m


Found 1 error in src/<file>.ts:<line>
""",
    "mypy": """\
<file>/basket.py:<line>: error: Value <words> is no "Basket"  [arg-<type>]
<file>/basket.py:<line2>: note: See the page on types
Found 1 error in 1 file (checked 3 source files)
""",
    "mypy, in full": """\
src/<file>.py:<line>:<col>: error: Value <words> is no "Basket"  [arg-<type>]
    <quote>
    <below>
""",
    "rustc": """\
error[E<type>]: mismatched <words>
 --> src/<file>.rs:<line>:<col>
  |
<line> |     <quote>
  |              --- ^^^ expected `u32`, found `&str`
  |              |
  |              wanted because of this

error: aborting due to 1 previous error
""",
    "cargo": """\
<progress>   Compiling shop v0.3.0 (/home/kim/shop)
error[E<type>]: no method named `<words>` found
   --> crates/shop/src/<file>.rs:<line>:<col>
    |
<line>  |         <quote>
    |         <below> method not found in `Basket`

error: could not compile `shop` (lib) due to 1 previous error
""",
    "rust, at run time": """\
thread 'main' (<line2>) panicked at src/<file>.rs:<line>:<col>:
<type>: no <words>
stack backtrace:
   0: rust_begin_unwind
             at /rustc/9fc6b431/library/std/src/panicking.rs:645:5
   1: shop::total
             at ./src/<file>.rs:<line>:<col>
""",
    "node": """\
/srv/shop/<file>.js:<line>
    <quote>
    <below>

<type>Error: Cannot read <words> of null
    at total (/srv/shop/<file>.js:<line>:<col>)
    at Object.<anonymous> (/srv/shop/main.js:<line2>:1)
    at Module._compile (node:internal/modules/cjs/loader:1358:14)

Node.js v20.14.0
""",
    "node, JSON": "<type>Error: <words> in JSON at position <line>, <file>.json\n",
    "node, one line": "<type>Error: no <words> at <file>.ts:<line>",
    "eslint": """\
/srv/shop/src/<file>.js
  <line>:<col>  error  'rate' is <words>  no-<type>
  <line2>:1   warning  Missing return type  ret

✖ 2 problems (1 error, 1 warning)
""",
    "go build": """\
# example.org/shop
./<file>.go:<line>:<col>: undefined: <words><type>
./<file>.go:<line2>:2: declared and not used: x
""",
    "go vet": "vet: ./<file>.go:<line>:<col>: <words> has no field <type>\n",
    "go test": """\
--- FAIL: TestTotal (0.00s)
    <file>_test.go:<line>: <type>: <words>, want 3
FAIL
FAIL\texample.org/shop\t0.004s
""",
    "go, at run time": """\
panic: <type> error: index out of <words> [3] with length 3

goroutine <line> [running]:
main.total(0xc000012345)
\t/home/kim/shop/<file>.go:<line> +0x1d
main.main()
\t/home/kim/shop/main.go:<line2> +0x2a
exit status 2
""",
    "javac": """\
src/shop/<file>.java:<line>: error: cannot find <words>
        <quote>
        <below>
  symbol:   method <type>()
  location: class Basket
1 error
""",
    "java, at run time": """\
Exception in thread "main" java.lang.<type>Exception: no <words>
\tat shop.Basket.total(<file>.java:<line>)
\tat shop.Main.main(Main.java:<line2>)
Caused by: java.io.IOException: closed
\tat shop.Rates.read(Rates.java:<line2>)
\t... 2 more
""",
    "gcc": """\
src/<file>.c: In function 'total':
src/<file>.c:<line>:<col>: error: '<words>' undeclared [-W<type>]
   <line> |     <quote>
      |     <below>
      |     rates
src/<file>.c:<line>:<col>: note: it is noted once
""",
    "clang": """\
<file>.cpp:<line>:<col>: error: use of undeclared <words> [<type>]
    <quote>
    <below>
1 error generated.
""",
    "ld": """\
/usr/bin/ld: /tmp/cc<line>.o: in function `main':
<file>.c:(.text+0x1<line>): <type> reference to `<words>'
""",
    "gradle": """\
<gradle>> Task :compileJava FAILED
/srv/shop/src/<file>.java:<line>: error: incompatible <words>
        <quote>
        <below>
1 error

FAILURE: Build failed with an exception.
* What went wrong:
Execution failed for task ':compile<type>'.

BUILD FAILED in <col>s
<line2> actionable tasks: 1 executed
""",
    "kotlin, by gradle": "e: file:///srv/shop/<file>.kt:<line>:<col> <type> reference: <words>\n",
    "maven": """\
[INFO] Total lines read: <line2>
[ERROR] /srv/shop/src/<file>.java:[<line>,<col>] cannot find <words>
[ERROR]   symbol: <type>
""",
    "ruff": """\
<type> Undefined name `<words>`
  --> shop/<file>.py:<line>:<col>
   |
<line2> |     items = []
<line> |     <quote>
   |     <below> <type>
   |

Found 1 error.
""",
    "flake8": "./shop/<file>.py:<line>:<col>: <type> undefined name '<words>'\n",
    "python": """\
Traceback (most recent call last):
  File "/srv/shop/main.py", line <line2>, in <module>
    <quote>
  File "/srv/shop/<file>.py", line <line>, in total
    <quote>
    <below>
<type>Error: no <words>
""",
    "python, that calls itself": """\
Traceback (most recent call last):
  File "/srv/shop/<file>.py", line <line>, in total
    <quote>
  [Previous line repeated <line2> more times]
<type>Error: no end of <words>
""",
    "python, syntax": """\
  File "/srv/shop/<file>.py", line <line>
    <quote>
    <below>
<type>Error: <words> was never closed
""",
    "pytest": """\
collected 3 items

tests/test_<file>.py .F.                                                 [100%]

=================================== FAILURES ===================================
__________________________________ test_total __________________________________

    def test_total():
        <quote>
>       assert total(basket) == 42
E       <type>Error: assert <words> == 42

tests/test_<file>.py:<line>: <type>Error
=========================== short test summary info ============================
FAILED tests/test_<file>.py::test_total - <type>Error: assert <words> == 42
========================= 1 failed, 2 passed in 0.<col>s ==========================
""",
    "jest": """\
FAIL src/<file>.test.ts
  ● basket > adds the tax

    <type>Error: Cannot read <words> of null

      <line2> |   const items = [];
    > <line> |   <quote>
         |   <below>
      <line3> | });

      at total (src/<file>.ts:<line>:<col>)
      at Object.<anonymous> (src/<file>.test.ts:<line2>:3)

Tests:       1 failed, 2 passed, 3 total
""",
    "vitest": """\
 FAIL  src/<file>.test.ts > adds the tax
<type>Error: expected <words> to be 42
 > src/<file>.test.ts:<line>:<col>
     <line2>|   const items = [];
     <line>|   <quote>
       |   <below>
      Tests  1 failed | 2 passed (3)
""",
    "ruby": """\
<file>.rb:<line>:in `total': undefined method `<words>' for nil (<type>Error)

    <quote>
    <below>
\tfrom <file>.rb:<line2>:in `block in run'
\tfrom main.rb:<line2>:in `<main>'
""",
    "php": """\
PHP Fatal error:  Uncaught <type>Error: total(): <words>, called in /srv/<file>.php on line <line2>\
 and defined in /srv/<file>.php:<line>
Stack trace:
#0 /srv/<file>.php(<line2>): total(NULL)
#1 {main}
  thrown in /srv/<file>.php on line <line>
""",
    "php, syntax": "PHP <type> error:  syntax error, <words> in /srv/<file>.php on line <line>\n",
    "csc": """\
C:\\shop\\<file>.cs(<line>,<col>): error CS<type>: '<words>' does not exist [C:\\shop\\shop.csproj]
Build FAILED.
    0 Warning(s)
""",
    "dotnet, at run time": """\
Unhandled exception. System.<type>Exception: no <words>
   at Shop.Basket.Total(Order order) in /srv/shop/<file>.cs:line <line>
   at Shop.Program.Main(String[] args) in /srv/shop/Program.cs:line <line2>
""",
    "swift": """\
/srv/shop/<file>.swift:<line>:<col>: error: cannot find '<words>' in <type>
    <quote>
    <below>
""",
    "bash": "./<file>.sh: line <line>: <words>: <type> not found\n",
    "sh": "./<file>.sh: <line>: <words>: <type> not found\n",
    "make": "Makefile:<line>: *** missing <words> in <file>.mk.  <type> stop.\n",
    "perl": "<type>: no <words> at <file>.pl line <line>.\n",
    "json": "<file>.json: <type>: wanted <words>: line <line> column <col> (char <line2>)\n",
    "psql": """\
ERROR:  <type> error at or near "<words>"
LINE <line>: <quote>
        <below>
CONTEXT:  <file>.sql
""",
    "tools that write JSON": """\
[{"filePath":"<file>.js","messages":[{"ruleId":"<type>","line":<line>,"endLine":<line2>,\
"message":"'rate' is <words>","column":<col>}]}]""",
}
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
    row = dict.fromkeys(TURN_SCHEMA) | {"kind": "tool", "agent": ""}
    row |= {"task": task, "session": task, "trace_id": task}
    times = [{"start_ns": i * NS_PER_S, "end_ns": i * NS_PER_S} for i in range(len(calls))]
    rows = [
        row | call | moment | {"span_id": f"{i:04d}"}
        for i, (call, moment) in enumerate(zip(calls, times, strict=True))
    ]
    return pl.DataFrame(rows, TURN_SCHEMA)


def rules_by_task(tables: Iterable[pl.DataFrame]) -> dict[str, set[str]]:
    """Return the rules that fire in each task, in batch and live alike."""
    turns = numbered(add_fingerprints(pl.concat(tables)).sort("end_ns", "task"))
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
