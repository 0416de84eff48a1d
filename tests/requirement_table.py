"""Which tests prove which line of the requirements: `python -m tests.requirement_table`.

The lines are those of docs/requirements.md. A test names its lines with
`@pytest.mark.requirement("A2")`. Ends with 1 while a line that is not open has no test.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "requirements.md"
_LINE = re.compile(r"^- \*\*(?P<line>[A-Z]\d+)\*\* .*?(?P<open>\*\(open\)\*)?$", re.MULTILINE)


def lines() -> dict[str, bool]:
    """Return the lines of the page in their order, each with whether it is open."""
    found = _LINE.finditer(PAGE.read_text(encoding="utf-8"))
    return {line["line"]: line["open"] is not None for line in found}


def proofs() -> Iterator[tuple[str, str]]:
    """Yield each line that a test names, with the test."""
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body if "requirement(" in text else ():
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
    proved = list(proofs())
    for line, is_open in lines().items():
        tests = [test for named_line, test in proved if named_line == line]
        print(f"{line:4} {tests[0] if tests else '(open)' if is_open else '-'}")
        for test in tests[1:]:
            print(f"     {test}")
    named = {line for line, _ in proved}
    if missing := [line for line, is_open in lines().items() if not is_open and line not in named]:
        sys.exit(f"no test proves: {', '.join(missing)}")


if __name__ == "__main__":
    main()
