"""An external cause is read from the type, the first and the last line of a failure."""

import polars as pl
import pytest

from looptrace._core import says_failed
from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints
from looptrace.analyzer.testing.notation import turns_in

QUOTES = "Your edit was refused.\n  self.socket = connect(host)  # line 502\nMend the edit."


@pytest.mark.parametrize(
    ("name", "arguments", "error", "kind"),
    [
        ("run", "main.py", "ConnectionError: no route", "network"),
        ("run", "main.py", "Traceback:\n  File x\nconnection refused", "network"),
        ("run", "main.py", QUOTES, "unknown"),
        ("edit", "net.py", "connection is not defined", "unknown"),
        ("bash", '{"command":"cat net.py"}', "socket, 502", "unknown"),
        ("open", '{"path":"net.py"}', "socket, 502", "unknown"),
        ("fetch", "a", "429 Too Many Requests", "rate_limit"),
        ("run", "main.py", "Claude usage limit reached.", "rate_limit"),
        ("run", "main.py", "You exceeded your current spending limit", "rate_limit"),
        ("run", "main.py", "insufficient_quota: check your plan", "rate_limit"),
        ("run", "main.py", "maximum recursion limit reached", "unknown"),
    ],
)
def test_the_head_of_a_failure_says_whose_it_is(
    name: str, arguments: str, error: str, kind: str
) -> None:
    """All external failures of 826 runs of a coding agent were quoted code."""
    turn = turns_in('run(a)->!"boom"').with_columns(
        name=pl.lit(name), arguments=pl.lit(arguments), error=pl.lit(error)
    )
    assert add_fingerprints(turn)["error_kind"].to_list() == [kind]


RAN = '{"output": "%s", "exit_code": 1}'


@pytest.mark.parametrize(
    ("command", "shown", "failed", "tests_failed"),
    [
        ("grep -rn foo src", "Exit code 1", False, None),
        ("rg foo", RAN % "", False, None),
        ("rg foo", "<returncode>1</returncode>\n<output>\n</output>", False, None),
        ("git grep foo", "(no output)\nExit code: 1", False, None),
        ("grep foo a", "The command `grep foo a` exited with code 1.", False, None),
        ("grep foo a", "$ grep foo a\n[exit code: 1]", False, None),
        ("find . | xargs grep foo", "Process exited with code 123", False, None),
        ("grep -c foo a", "0\nexit code 1", False, None),
        ("test -f a", "[exit 1]", False, None),
        ("git diff --exit-code", "exit status 1", False, None),
        ("grep foo a", "Exit code 2", True, None),
        ("grep foo a", "grep: a: No such file or directory\nexit code 1", True, None),
        ("python a.py", "Exit code 1", True, None),
        ("pytest", RAN % "1 failed", True, 1),
        ("pytest", RAN % "2 failed, 3 passed", True, 2),
        ("pytest", "Exit code 1\n1 failed", True, 1),
        ("pytest", "<output>1 failed</output><exit_code>1</exit_code>", True, 1),
        ("mend.sh", RAN % "1 failed", True, None),
    ],
)
@pytest.mark.parametrize("as_error", [False, True])
def test_an_answer_by_an_exit_code_is_no_failure(
    command: str, shown: str, failed: bool, tests_failed: int | None, as_error: bool
) -> None:
    """Twelve searches without a match are no failures, and a failed test is no bare exit code."""
    texts = {"error": shown, "failed": True} if as_error else {"result": shown}
    written = {"error": None, "result": None, "failed": None} | texts
    turn = turns_in('bash(a)->"x"').with_columns(
        pl.lit(f'{{"command":"{command}"}}').alias("arguments"),
        *(
            pl.lit(value, pl.Boolean if name == "failed" else pl.String).alias(name)
            for name, value in written.items()
        ),
    )
    made = add_fingerprints(turn).row(0, named=True)

    assert (made["failed"], made["tests_failed"]) == (failed, tests_failed)
    assert made["outcome"] is not None


@pytest.mark.parametrize(
    ("result", "tool", "arguments"),
    [
        ("Timed out after 30 s.", "wait_for", "#button"),
        ("Timed out after 30 s.", "bash", '{"command":"sleep 30 && gh pr checks 12"}'),
        ("Command timed out, and is still running in the background.", "bash", "make"),
        ("Denied by policy. " + "All that a page says of policies. " * 9, "read", "policy.md"),
    ],
)
def test_waits_and_pages_are_no_refusals(result: str, tool: str, arguments: str) -> None:
    """A wait that ends without what it waited for is how one waits."""
    assert not says_failed(result, tool, arguments)
