"""Where failures happened, what kind they are, and when two stack traces are the same."""

import json
from typing import Any

import polars as pl
import pytest

from looptrace._core import EXTERNAL
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from tests.turn_rows import turns_with

PYTHON = """\
Traceback (most recent call last):
  File "/work/shop/main.py", line 9, in <module>
    total(order)
  File "/work/shop/cart.py", line {line}, in total
    return tax(order)
  File "/usr/lib/python3.12/site-packages/taxes/rates.py", line 3, in tax
    return order["country"]
KeyError: 'country'
"""
NODE = """\
TypeError: Cannot read properties of null (reading 'id')
    at login (/srv/app/src/auth.ts:{line}:15)
    at async handle (file:///srv/app/src/server.ts:4:3)
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)
"""
JAVA = """\
java.lang.IllegalStateException: no rate
\tat java.base/java.util.Objects.requireNonNull(Objects.java:233)
\tat org.springframework.web.Dispatcher.run(Dispatcher.java:12)
\tat shop.Cart.tax(Cart.java:{line})
\tat shop.Main.main(Main.java:5)
"""
DOTNET = """\
System.InvalidOperationException: no rate
   at System.Linq.Enumerable.First(Object source)
   at Shop.Cart.Tax(Order order) in /src/shop/Cart.cs:line {line}
"""
GO = """\
panic: runtime error: index out of range [3] with length 3

goroutine 1 [running]:
main.tax(...)
\t/home/me/shop/cart.go:{line} +0x1d
main.main()
\t/home/me/shop/main.go:5 +0x2a
"""
RUST = """\
thread 'main' panicked at src/cart.rs:{line}:18:
called `Option::unwrap()` on a `None` value
stack backtrace:
   0: rust_begin_unwind
             at /rustc/9fc6b431/library/std/src/panicking.rs:645:5
   1: shop::tax
             at ./src/cart.rs:{line}:18
"""


def failed(*errors: str | None, **fields: Any) -> pl.DataFrame:
    """Return the failed calls of a tool, one for each error."""
    row = {"arguments": "{}", "failed": True}
    return turns_with(*(row | {"error": error} | fields for error in errors))


@pytest.mark.requirement("A1")
@pytest.mark.parametrize(
    ("trace", "location"),
    [
        (PYTHON, "/work/shop/cart.py:7"),
        (NODE, "/srv/app/src/auth.ts:7"),
        (JAVA, "Cart.java:7"),
        (DOTNET, "/src/shop/Cart.cs:7"),
        (GO, "/home/me/shop/cart.go:7"),
        (RUST, "src/cart.rs:7"),
    ],
)
def test_stack_traces_tell_where(trace: str, location: str) -> None:
    """The innermost frame in the project's own code is the place, not the library it called."""
    found = failed(trace.format(line=7), trace.format(line=8), trace.replace("a", "b"))

    assert found["location"][0] == location
    assert found["location"][1] == location.replace("7", "8")
    assert found["trace_hash"][0] == found["trace_hash"][1] != found["trace_hash"][2]


@pytest.mark.requirement("A1")
@pytest.mark.parametrize(
    ("error", "location"),
    [
        ("src/auth.ts(12,5): error TS2345: Argument of type 'null'", "src/auth.ts:12"),
        ("error[E0308]: mismatched types\n --> src/main.rs:4:5", "src/main.rs:4"),
        ("tests/test_cart.py:12: AssertionError", "tests/test_cart.py:12"),
        ("invalid value in config.yaml, line 3", "config.yaml:3"),
        ("cannot parse 'src/cart.py'", "src/cart.py"),
        ("null pointer in Cart.total()", "Cart.total"),
        ("Error in component <CartView>", "CartView"),
        ("connect ECONNREFUSED db.internal:5432", None),
        ("it failed at 12:30", None),
    ],
)
def test_errors_without_a_trace_tell_where(error: str, location: str | None) -> None:
    """A file with its line is the place, else a file, a function or a component, else unknown."""
    assert failed(error)["location"].to_list() == [location]


@pytest.mark.requirement("A1")
def test_context_stands_for_a_trace() -> None:
    """Without a stack trace, the text is compared without folders, lines, addresses and times."""
    found = failed(
        "/home/a/shop/cart.py:12: bad rate at 0x7f21, 2026-01-01T10:00:00Z",
        "/srv/b/cart.py:48: bad rate at 0x7f9c, 2026-01-02T11:30:00Z",
        "/srv/b/cart.py:48: no rate",
        None,
        "An error occurred. Please try again.",
    )
    first, second, other, *unknown = found["trace_hash"]

    assert first == second != other
    assert unknown == [None, None]
    assert failed("bad rate", failed=False)["trace_hash"].to_list() == [None]


@pytest.mark.requirement("A1")
def test_stack_trace_of_the_exception_event_is_read() -> None:
    """The message is compared without its trace, and the trace has a column of its own."""
    raised = {"exception.message": "'country'", "exception.stacktrace": PYTHON.format(line=7)}
    row: dict[str, Any] = dict.fromkeys(SPAN_SCHEMA) | {
        "trace_id": "t",
        "span_id": "s",
        "name": "execute_tool run",
        "start_ns": 0,
        "end_ns": 1,
        "status": 2,
        "service": "",
        "attributes": json.dumps({"gen_ai.operation.name": "execute_tool"}),
        "events": json.dumps([{"name": "exception", "attributes": raised}]),
        "links": "[]",
    }
    found, _ = turns_of(pl.DataFrame([row], SPAN_SCHEMA))

    assert found["error"].to_list() == ["'country'"]
    assert found["location"].to_list() == ["/work/shop/cart.py:7"]
    assert found["trace_hash"].str.len_chars().to_list() == [16]


@pytest.mark.requirement("A1")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("SyntaxError: '(' was never closed", "syntax"),
        ("TypeError: unsupported operand", "runtime"),
        ("AssertionError: expected 401 Unauthorized, got 200", "logic"),
        ("ModuleNotFoundError: No module named 'yaml'", "dependency"),
        ("API timeout: external service unavailable", "network"),
        ("invalid API key", "authentication"),
        ("TimeoutError: deadline exceeded", "timeout"),
        ("429 Too Many Requests", "rate_limit"),
        ("EACCES: permission denied", "permission"),
        ("FileNotFoundError: no such file", "not_found"),
        ("the oven is cold", "unknown"),
        ("An error occurred while running the tool. Please try again.", "untold"),
    ],
)
def test_kinds_of_errors(error: str, kind: str) -> None:
    """Every kind that A1 lists is told, by the type of the error before its message."""
    head, _, message = error.partition(": ")
    typed = head.isidentifier() and head.endswith("Error")
    found = failed(message if typed else error, error_type=head if typed else None)

    assert found["error_kind"].to_list() == [kind]


@pytest.mark.requirement("A10")
def test_external_failures_are_told() -> None:
    """A failing test is the agent's own, even if it is a test of a connection."""
    down = failed("The service is down", "503 Bad Gateway")
    declared = failed("no answer", error_type="dependency")
    tested = failed("FAILED tests/test_net.py::test_connection\n1 failed, 3 passed in 0.10s")

    assert set(down["error_kind"]) <= set(EXTERNAL)
    assert declared["error_kind"].to_list() == ["dependency"]
    assert tested["error_kind"].to_list() == ["logic"]
