"""House rules that no linter knows."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import click
import pytest

from docs.generate import stale
from looptrace.cli.main import COMMANDS, main
from looptrace.rules.contract import Rule
from looptrace.rules.registry import RULES
from tests.conftest import MARKS as PLACED
from tests.paths import ROOT

FUNCTION_LINES_MAX = 50
ITEM_CHARS_MAX = 100
MARKS = ("slow", "seeded", "thorough")
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    """Yield every function of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    yield from (node for node in ast.walk(tree) if isinstance(node, Function))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_are_short(path: Path) -> None:
    """A function that needs more lines does more than one thing."""
    lengths = {f.name: (f.end_lineno or 0) - f.lineno + 1 for f in functions(path)}

    assert {name: n for name, n in lengths.items() if n > FUNCTION_LINES_MAX} == {}


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_tests_say_why(path: Path) -> None:
    """Who breaks a test reads its sentence first."""
    tests = [f for f in functions(path) if f.name.startswith("test_")]
    silent = [f.name for f in tests if not (ast.get_docstring(f) or "").rstrip().endswith(".")]

    assert silent == []


@pytest.mark.parametrize("rule", RULES)
def test_rules_hold_no_thresholds(rule: type[Rule]) -> None:
    """A number in a rule's functions would be a threshold that nobody can set."""
    path = Path(inspect.getfile(rule))
    bodies = [node for f in functions(path) for node in ast.walk(f)]
    thresholds = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value!r} must be a setting, "
        "or a constant of the module with a sentence"
        for node in bodies
        if isinstance(node, ast.Constant)
        and type(node.value) in (int, float)
        and node.value not in (0, 1, 2)
    ]

    assert thresholds == []


def test_a_type_has_one_module() -> None:
    """One word means one thing; who searches for a type finds it once."""
    modules: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if (name := type_name(node)) and not name.startswith("_"):
                modules.setdefault(name, []).append(str(path.relative_to(ROOT)))

    assert len(modules) > 400
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}


def type_name(node: ast.stmt) -> str | None:
    """Return the name of the type that a statement defines, None where it defines none."""
    if isinstance(node, ast.ClassDef):
        return node.name
    if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
        return ast.unparse(node.target)
    return None


def test_generated_pages_are_fresh() -> None:
    """A page that lags behind its rule tells lies."""
    assert list(stale()) == []


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_commands_are_documented(command: str) -> None:
    """A command that its page does not show is not found."""
    assert f"`looptrace {command}" in (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    found = main.get_command(click.Context(main), command)
    assert found is not None
    assert (found.help or "").strip()


def test_an_item_of_the_changelog_is_a_line() -> None:
    """Who looks for a change reads hundreds of them; the log of Git has the rest."""
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    items = lines[lines.index("## [Unreleased]") :]
    long = [line for line in items if len(line) > ITEM_CHARS_MAX or line.startswith("  ")]
    assert [line for line in items if line.startswith("- ")]
    assert long == []


def test_links_between_pages_hold() -> None:
    """A dead link is the first thing that a newcomer meets."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    links = [
        (name, target)
        for name in listed.stdout.split()
        for target in re.findall(
            r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / name).read_text(encoding="utf-8")
        )
    ]

    assert [link for link in links if not (ROOT / link[0]).parent.joinpath(link[1]).exists()] == []


def test_the_groups_of_tests_are_all_tests() -> None:
    """A test that neither `make test` nor `make test-slow` runs can fail for ever."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"^(quick|test|test-slow):.*\n\t(.*)", makefile, re.MULTILINE)
    groups = {
        name: re.sub(r".*/pytest -q -n 2 -m \"(.*?)\".*", r"\1", line) for name, line in commands
    }
    for place in (place for places in PLACED.values() for place in places):
        path, _, name = place.partition("::")
        assert (ROOT / path).exists(), place
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), place
    marks = [
        dict(zip(MARKS, values, strict=True))
        for values in product((False, True), repeat=len(MARKS))
    ]

    for each in marks:
        runs = {name: eval(group, {}, each) for name, group in groups.items()}  # noqa: S307
        assert runs["test"] | runs["test-slow"], each
        assert each["seeded"] or runs["test"] != runs["test-slow"], each
        assert runs["quick"] <= runs["test"], each
        assert runs["test"] or each["slow"], each
    assert "LOOPTRACE_ALL_SEEDS=1" in dict(commands)["test-slow"]
    # There all seeds are gone through with the tests, and not once more with the slow ones.
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert re.search(r"^(.*) LOOPTRACE_ALL_SEEDS=1 make test$", ci, re.MULTILINE)
    assert re.search(r'^OPTIONS="-m slow -n 2" make test-slow$', ci, re.MULTILINE)


def test_what_goes_through_a_share_of_its_seeds_is_marked() -> None:
    """Without the mark, `make test-slow` would leave it out, and most of its seeds never ran."""
    sharing = {
        f"{path.relative_to(ROOT)}::{match[1]}"
        for path in TESTS
        for match in re.finditer(
            r"\bseeds\(\d+\)(?:(?!\ndef ).)*?\ndef (\w+)", path.read_text("utf-8"), re.DOTALL
        )
    }

    assert sharing == set(PLACED["seeded"])
