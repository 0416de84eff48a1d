"""Which calls have failed though nothing but their text says so: test runs, and exit codes."""

import json
from typing import Any

import polars as pl
import pytest

from looptrace._core import says_nothing
from tests.drivers import batch, live
from tests.fields import result_of
from tests.turn_rows import turns_with

RUN = """\
FAIL src/auth.test.ts
  ● {first}
  ● logout assertion

Tests:       2 failed, 3 passed, 5 total
Time:        1.{n}2 s
"""
WRAPPED = "Running tests... 2 failed: auth.test.ts - login timeout, logout assertion"
SIGNATURE = "test-fail:2-auth.test.ts:login-timeout,logout-assertion"


def turns_of(*calls: dict[str, Any]) -> pl.DataFrame:
    """Return fingerprinted calls of one task, one a second."""
    return turns_with(*({"name": "bash", "arguments": "{}"} | call for call in calls))


def rules_that_fire(turns: pl.DataFrame) -> set[str]:
    """Return the rules that fire, in batch and live alike."""
    stored = batch(turns)
    assert live(turns) == stored
    return {finding.rule for finding in stored}


def shell(command: str, **fields: object) -> dict[str, Any]:
    """Return a call of a shell."""
    return {"arguments": json.dumps({"command": command}), **fields}


def edited(n: int) -> dict[str, Any]:
    """Return an edit unlike the others."""
    return {"name": "edit_file", "arguments": f'{{"text":{n}}}', "result": f"changed {n}"}


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("status", [None, False, True])
@pytest.mark.parametrize("text", [RUN.format(n=1, first="login timeout"), WRAPPED])
def test_a_run_with_failing_tests_has_failed(status: bool | None, text: str) -> None:
    """Tools report success because the runner started; what failed is told by the tests' names."""
    turns = turns_of(shell("npm test", result=text, failed=status))

    assert turns["failed"].to_list() == [True]
    assert turns["error_kind"].to_list() == ["logic"]
    assert turns["signature"].to_list() == [SIGNATURE]


@pytest.mark.requirement("C1")
def test_the_same_failing_tests_are_one_failure() -> None:
    """Edits between runs that leave the same tests failing are attempts, found at the third."""
    stuck, others = [], []
    for n in range(3):
        stuck += [edited(n), shell("npm test", result=RUN.format(n=n, first="login timeout"))]
        others += [edited(n), shell("npm test", result=RUN.format(n=n, first=f"login {n} fails"))]

    assert rules_that_fire(turns_of(*stuck)) == {"persistent_failure"}
    assert rules_that_fire(turns_of(*others)) == set()


@pytest.mark.requirement("C4")
def test_tests_that_fail_ever_less_are_progress() -> None:
    """An agent that mends one test after the other has failing runs all the time."""
    calls = []
    for n in range(6):
        left = ", ".join(f"case {i}" for i in range(n, 6))
        calls += [edited(n), shell("npm test", result=f"Running tests... {6 - n} failed: {left}")]
    turns = turns_of(*calls, shell("npm test", result="12 passing (3s)"))

    assert turns["failed"].to_list()[1::2] == [True] * 6
    assert rules_that_fire(turns) == set()


@pytest.mark.parametrize(
    "call",
    [
        {"name": "read_file", "arguments": '{"path":"log.txt"}'},
        {"name": "Grep", "arguments": '{"pattern":"failed"}'},
        shell("cat log.txt"),
        shell("cd /srv && tail -n 50 log.txt | head -5"),
        shell("git show HEAD"),
        {"arguments": '{"command":["bash","-lc","sed -n 1,20p log.txt"]}'},
    ],
)
def test_reading_of_a_failing_run_is_no_failure(call: dict[str, Any]) -> None:
    """What a file says of a run does not make reading it one."""
    turns = turns_of(call | {"result": RUN.format(n=1, first="login timeout")})

    assert turns["failed"].to_list() != [True]


@pytest.mark.parametrize(
    "call",
    [
        shell("npm test | tail -20"),
        shell("cat a.txt && npm test"),
        shell("cat a.txt; npm test"),
        {"name": "check_tests"},
        {"name": "view", "kind": "tool", "failed": True},
    ],
)
def test_a_run_that_is_read_through_a_filter_is_a_run(call: dict[str, Any]) -> None:
    """A command that also reads, and a tool that checks tests, run them."""
    turns = turns_of(call | {"result": RUN.format(n=1, first="login timeout")})

    assert turns["failed"].to_list() == [True]


@pytest.mark.parametrize(
    "text",
    [
        *("Exit code 1\nno such thing: x", "exit code: 2\nusage: x", "x\nexited with code 1"),
        *("x\nProcess finished with exit code 1", "Process exited with code 127\nx", "exit_code=3"),
        *("x\n[exit status: 1]", "returncode: 1", "Command failed with exit code 1: npm start"),
        '{"metadata":{"exit_code":1},"output":"x"}',
        '{"output":"x","returncode":-9}',
        "--- FAIL: TestTax (0.00s)\n    cart_test.go:12: got 41",
    ],
)
def test_an_exit_code_tells_of_a_failure(text: str) -> None:
    """Shells give the code at the head or the end of what was printed, or under a key."""
    assert turns_of(shell("run", result=text))["failed"].to_list() == [True]


@pytest.mark.parametrize(
    "text",
    [
        *("Exit code 0\nx", "x\nProcess finished with exit code 0", '{"exit_code":0,"output":"1"}'),
        *(
            "The exit code 1 means that nothing was found.",
            "returns exit code 12 or more, see below",
        ),
    ],
)
def test_no_other_code_tells_of_one(text: str) -> None:
    """Success has a code too, and prose has codes in its midst."""
    assert turns_of(shell("run", result=text))["failed"].to_list() == [False]


def test_an_exit_code_says_more_than_a_flag() -> None:
    """A tool that ran a command well says so though the command failed."""
    assert result_of({"isError": False, "exitCode": 1, "x": "y"})[1] is True
    assert result_of({"isError": True, "exitCode": 0, "x": "y"})[1] is True
    assert result_of({"isError": False, "exitCode": 0, "x": "y"})[1] is False
    assert result_of({"returncode": 0, "x": "y"})[1] is False


EMPTY = [
    "Exit code 1",
    "Error: Process exited with code 1",
    "command returned non-zero exit status 1.",
    "Command 'grep -n rate cart.py' returned non-zero exit status 1.",
    "Command failed with exit code 1: grep -n rate cart.py",
    '{"exit_code":1,"stderr":"","stdout":""}',
    "exit_code: 1\nduration: 0.2 seconds\nstdout:\nstderr:",
]


@pytest.mark.parametrize("text", EMPTY)
def test_a_code_alone_is_no_sameness(text: str) -> None:
    """Greps that match nothing end with 1, whatever was looked for, and with work between."""
    greps = [shell(f"grep {n}", result=text, error=text, failed=True) for n in range(4)]
    again = []
    for n in range(4):
        again += [shell("grep x", result=text, error=text, failed=True), edited(n)]

    assert says_nothing(text)
    assert rules_that_fire(turns_of(*greps)) == set()
    assert rules_that_fire(turns_of(*again)) == set()


def test_a_code_beside_words_is_a_failure_of_those_words() -> None:
    """The status that a span has may only be the code, and the result says the rest."""
    texts = [f"Exit code 1\nno rate in cart.py:{n}" for n in (4, 17, 9)]
    calls = []
    for n, text in enumerate(texts):
        calls += [shell("npm start", result=text), edited(n)]

    assert not any(map(says_nothing, texts))
    assert rules_that_fire(turns_of(*calls)) == {"persistent_failure"}


@pytest.mark.parametrize("is_error", [False, True])
def test_what_a_tool_said_is_taken_out_of_llama_indexs_output(is_error: bool) -> None:
    """As LlamaIndex's own class is written into a span; the text says whether the call failed."""
    output = {
        "blocks": [{"text": "1 failed"}],
        "tool_name": "run_tests",
        "raw_input": {"args": [], "kwargs": {"path": "tests/test_cart.py"}},
        "raw_output": "1 failed",
        "is_error": is_error,
    }

    assert result_of(json.dumps(output)) == ("1 failed", is_error or None)
