"""C. Outputs: the same signature three times is a loop, test failures that get fewer are none.

`shrinking` has 3, then 2, then 1 failing tests: three signatures. `retry` fails twice the same way,
a legitimate retry, and then otherwise. `stuck` runs the tests in three ways, and the output has the
same signature each time.
"""

from pathlib import Path

from examples.recorder import Recorder, tell

SUITE = {"path": "tests/test_auth.py"}
FAILED = "FAILED tests/test_auth.py::"


def work(record: Recorder) -> None:
    """Record three tasks of one agent."""
    with record.agent("coder", {"looptrace.task.id": "shrinking"}):
        record.tool("run_tests", SUITE, "3 failed, 13 passed in 0.41s")
        record.tool("run_tests", SUITE, "2 failed, 14 passed in 0.38s")
        record.tool("run_tests", SUITE, "1 failed, 15 passed in 0.40s")

    with record.agent("coder", {"looptrace.task.id": "retry"}):
        for _ in range(2):
            record.tool("load", {"path": "users.csv"}, error="KeyError: 'email' (schema.py:14)")
        record.tool("load", {"path": "users.csv"}, error="KeyError: 'name' (schema.py:15)")

    with record.agent("coder", {"looptrace.task.id": "stuck"}):
        output = f"{FAILED}test_login\n{FAILED}test_logout\n2 failed, 14 passed in 0.39s"
        for option in ("--verbose", "--random-order", "--last-failed"):
            record.tool("run_tests", {**SUITE, "option": option}, output)


if __name__ == "__main__":
    tell(work, Path(__file__).stem)
