"""A. Failures: one failure in two sub-tasks, by two agents, is one loop.

`coder` fails twice, with a rate limit in between that is not its fault. `fixer`, at another part of
the task, fails the same way: the third time, and a gate opens. A person says what to do; the count
begins anew. The same failure in another task counts apart.
"""

from pathlib import Path

from examples.recorder import Recorder, tell

CART = {"path": "tests/test_cart.py"}
FAILURE = "AssertionError: expected 42, got 41 (cart.py:17)"


def work(record: Recorder) -> None:
    """Record two agents at one task, and a third at another."""
    totals = {"looptrace.task.id": "totals", "looptrace.task.parent_id": "checkout"}
    with record.agent("coder", totals):
        record.tool("run_tests", CART, error=FAILURE)
        record.tool("read_file", {"path": "cart.py"}, "total = sum(prices)")
        record.tool("fetch_docs", {"page": "rounding"}, error="HTTPError: 429 Too Many Requests")
        record.tool("run_tests", CART, error=FAILURE)

    taxes = {"looptrace.task.id": "taxes", "looptrace.task.parent_id": "checkout"}
    with record.agent("fixer", taxes):
        record.tool("read_file", {"path": "tax.py"}, "tax = net * 0.19")
        record.tool("run_tests", CART, error=FAILURE)  # The third: here a gate opens.
        record.person("The test is wrong, 41 is right. Change the test.")
        record.tool("run_tests", CART, error=FAILURE)  # The first since a person stepped in.
        record.tool("edit_file", {"path": "tests/test_cart.py", "new": "== 41"}, "saved")
        record.tool("run_tests", CART, "12 passed")

    with record.agent("coder", {"looptrace.task.id": "search"}):
        record.tool("run_tests", CART, error=FAILURE)  # Another task begins at 0.
        record.tool("run_tests", CART, error=FAILURE)


if __name__ == "__main__":
    tell(work, Path(__file__).stem)
