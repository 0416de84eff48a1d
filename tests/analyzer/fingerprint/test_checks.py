"""A check falls short by what it answers; each form has the examples that it was made for."""

from __future__ import annotations

import json
import re

import pytest

from looptrace.analyzer.fingerprint.tool_kinds import (
    DONE,
    FAULT,
    FINE,
    NO_FAULT,
    falls_short,
    may_check,
)
from looptrace.analyzer.fingerprint.waiting import Form

# Answers that nobody wants again and again: they say so, or a program was run to see another one.
SHORT = (
    ("python3 -u run.py --n 4", "result: 3.14"),
    ("python repro.py 2>&1 | tail -20", "Got: []\nWant: [1]"),
    ("cargo run --release < in.txt", "12 17"),
    ("uv run python -m app.cli report", "Revenue: 0.00 EUR"),
    ("docker exec web python check_rows.py", "rows: 0"),
    ("make >/dev/null; ./a.out", "Segmentation fault (core dumped)"),
    ("make 2>&1 | grep -i error | head", "main.c:3:5: error: expected ';' before '}'"),
    ("npx tsc --noEmit | head", "src/a.ts(3,5): error TS2345"),
    ("psql -c 'select count(*) from orders'", " count \n-------\n     0\n(1 row)"),
    ("make test | tail -3", "not ok 3 - totals"),
    ("./app --selftest", "2 of 9 checks pass"),
)
# Good answers, and those of commands that are not run for their output.
FINE_ANSWERS = (
    ("bun run typecheck", "$ tsc --noEmit"),
    ("npm run build", "> app@1.0.0 build\n✓ 34 modules transformed.\ndist/index.js 12 kB"),
    ("cargo build", "   Compiling a v0.1.0\n    Finished dev [unoptimized] target(s)"),
    ("python -m mypy .", "Success: no issues found in 3 source files"),
    ("python manage.py check", "System check identified no issues (0 silenced)."),
    ("helm lint chart", "1 chart(s) linted, 0 chart(s) failed"),
    ("git status -s", " M src/error.ts"),
    ("ls -la", "-rw-r--r-- 1 a a 12 error.log"),
    ("cat test_output.txt", "FAILED: expected 42"),
    ("grep -rn total src", "src/a.py:3: # expected 42"),
    ("curl -s -o /dev/null -w '%{http_code}' localhost:80", "200"),
    ("npx eslint .", "3 problems (0 errors, 3 warnings)"),
    ("bash scripts/deploy.sh", "web-1 live"),
    ("python train.py --help", "train.py [-h]"),
    ("node main.js", ""),
)


@pytest.mark.parametrize("form", [*FAULT, FINE, DONE, NO_FAULT], ids=lambda form: form.about)
def test_a_form_has_its_examples_and_no_others(form: Form) -> None:
    """Letter case does not matter."""
    for texts, expected in ((form.examples, True), (form.others, False)):
        found = [bool(re.search(form.pattern, text, re.IGNORECASE)) for text in texts]
        assert found == [expected] * len(texts), texts


@pytest.mark.parametrize("form", FAULT, ids=lambda form: form.about)
def test_the_first_look_knows_each_fault(form: Form) -> None:
    """A build says nothing that is looked into, unless a word of a fault is in it."""
    for text in form.examples:
        assert falls_short("run_build", "{}", text), text


@pytest.mark.parametrize(("command", "answer"), SHORT)
def test_an_answer_that_falls_short(command: str, answer: str) -> None:
    """An exit code of 0 says little of a program."""
    assert falls_short("bash", json.dumps({"command": command}, separators=(",", ":")), answer)


@pytest.mark.parametrize(("command", "answer"), FINE_ANSWERS)
def test_an_answer_that_is_well(command: str, answer: str) -> None:
    """It comes again after each edit, and should."""
    assert not falls_short("bash", json.dumps({"command": command}, separators=(",", ":")), answer)


def test_a_wrapper_says_nothing_of_the_answer() -> None:
    """That a call came to its end is not that its answer is right."""
    told = {"stdout": "total: 41", "stderr": "", "exit_code": 0, "success": True}
    run = '{"command":"python cart.py"}'

    assert falls_short("bash", run, json.dumps(told))
    assert not falls_short("bash", run, json.dumps(told | {"stdout": ""}))


def test_a_check_is_known_by_its_tool() -> None:
    """What acts, shows or asks checks nothing."""
    assert all(map(may_check, ("run_tests", "verifyTotal", "Bash", "ipython", "getDiagnostics")))
    others = (
        "click",
        "screenshot",
        "inventory",
        "send_mail",
        "checkout_branch",
        "runner_list",
        None,
    )
    assert not any(map(may_check, others))
