"""Which tests prove which line of the requirements: `python -m tests.requirement_table`.

A test names its lines with `@pytest.mark.requirement("A2")`. Ends with 1 while a line has none.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
LINES = {"A": 17, "B": 10, "C": 7, "D": 7, "E": 6, "F": 5}  # by section, how many there are


def proofs() -> Iterator[tuple[str, str]]:
    """Yield each line that a test names, with the test."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                for decorator in node.decorator_list:
                    if line := _line(decorator):
                        yield line, f"{path.relative_to(TESTS.parent)}::{node.name}"


def _line(decorator: ast.expr) -> str | None:
    if not isinstance(decorator, ast.Call) or not decorator.args:
        return None
    called, argument = ast.unparse(decorator.func), decorator.args[0]
    named = called in ("requirement", "pytest.mark.requirement")
    return str(argument.value) if named and isinstance(argument, ast.Constant) else None


def main() -> None:
    """Print the table; end with 1 and name the lines that no test proves."""
    found = list(proofs())
    every = [f"{section}{n}" for section, count in LINES.items() for n in range(1, count + 1)]
    for line in every:
        tests = [test for proved, test in found if proved == line]
        print(f"{line:4} {tests[0] if tests else '-'}")
        for test in tests[1:]:
            print(f"     {test}")
    missing = [line for line in every if line not in {proved for proved, _ in found}]
    unknown = {line for line, _ in found} - set(every)
    if missing or unknown:
        sys.exit(f"no test proves: {', '.join(missing)}; not a line: {', '.join(unknown) or '-'}")


if __name__ == "__main__":
    main()
