"""House rules that no linter knows."""

import ast
import inspect
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
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
MARKS = ("slow", "seeded", "thorough", "nightly")
PROJECT = ROOT / "pyproject.toml"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    """Yield every function of a file."""
    for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, Function):
            yield node


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield statements and those inside of them; expressions, which are most of a tree, are not."""
    for node in body:
        yield node
        for inside in ("body", "orelse", "finalbody", "handlers", "cases"):
            # That of a condition or of a lambda is an expression.
            if isinstance(within := getattr(node, inside, None), list):
                yield from statements(within)


def test_functions_are_short() -> None:
    """A function that needs more lines does more than one thing."""
    lines_of = {
        f"{path}:{function.lineno}": (function.end_lineno or 0) - function.lineno + 1
        for path in SOURCES
        for function in functions(path)
    }

    assert len(lines_of) > len(SOURCES)
    assert [place for place, lines in lines_of.items() if lines > FUNCTION_LINES_MAX] == []


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


def fragment_faults(folder: Path) -> list[str]:
    """Return the files of a folder that are no line of the changelog, by name."""
    kinds = "|".join(tomllib.loads(PROJECT.read_text("utf-8"))["tool"]["towncrier"]["fragment"])
    return [
        path.name
        for path in sorted(folder.iterdir())
        if path.name != ".gitkeep"
        and not (
            re.fullmatch(rf"\+[a-z0-9-]+\.({kinds})\.md", path.name)
            and re.fullmatch(rf"\S.{{,{ITEM_CHARS_MAX - 3}}}\n", path.read_text("utf-8"))
        )
    ]


def test_a_fragment_of_the_changelog_is_a_line(tmp_path: Path) -> None:
    """Who looks for a change reads hundreds of them; the log of Git has the rest."""
    line = "x" * (ITEM_CHARS_MAX - 2)
    wrong = {
        "+long.added.md": f"{line}x\n",
        "+two.fixed.md": "One.\nTwo.\n",
        "+unknown.kind.md": "One.\n",
        "44.added.md": "A number is shown with the line.\n",
    }
    for name, text in {**wrong, "+right.added.md": f"{line}\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    assert fragment_faults(tmp_path) == sorted(wrong)
    assert fragment_faults(ROOT / "changes") == []


def test_fragments_become_a_release(tmp_path: Path) -> None:
    """A release that drops a line, or leaves one for the next, tells people the wrong changes."""
    for path in (PROJECT, ROOT / "CHANGELOG.md"):
        shutil.copy(path, tmp_path)
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes/+a-day.added.md").write_text("A day has a limit.\n", encoding="utf-8")
    options = ("--yes", "--version", "9.0.0", "--date", "2030-01-02", "--dir", str(tmp_path))
    subprocess.run(
        [sys.executable, "-m", "towncrier", "build", *options],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )

    text = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "\n## [9.0.0] - 2030-01-02\n\n### Added\n\n- A day has a limit.\n" in text
    assert text.index("[9.0.0]") < text.index("[0.1.0]")
    assert list((tmp_path / "changes").iterdir()) == []


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
    targets = "quick|test|test-slow|test-seeds"
    commands = re.findall(rf"^({targets}):.*\n\t(.*)", makefile, re.MULTILINE)
    groups = {
        name: re.sub(r".*/pytest -q -n \d -m \"(.*?)\".*", r"\1", line) for name, line in commands
    }
    for place in (place for places in PLACED.values() for place in places):
        path, _, name = place.partition("::")
        assert (ROOT / path).exists(), place
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), place
    # A mark beside a test would be one that the collection does not see.
    marked = [
        path
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(rf"mark\.({'|'.join(MARKS)})\b", path.read_text(encoding="utf-8"))
    ]
    assert [path.name for path in marked] == ["conftest.py"]
    marks = [
        dict(zip(MARKS, values, strict=True))
        for values in product((False, True), repeat=len(MARKS))
    ]

    for each in marks:
        runs = {name: eval(group, {}, each) for name, group in groups.items()}  # noqa: S307
        assert [runs["test"], runs["test-slow"], each["slow"] and each["nightly"]].count(True) == 1
        assert runs["quick"] <= runs["test"], each
        assert runs["test"] or each["slow"], each
        assert runs["test-seeds"] == (each["seeded"] or each["nightly"]), each
    assert "LOOPTRACE_ALL_SEEDS=1" in dict(commands)["test-seeds"]
    # A change lands after a day's seeds; each night goes through all, on each Python.
    for name, made in (
        ("run", ("check", "test", "test-slow")),
        ("nightly", ("coverage", "test-seeds", "branches", "matrix")),
    ):
        script = (ROOT / ".ci" / name).read_text(encoding="utf-8")
        assert [
            target for target in made if not re.search(rf"\bmake {target}$", script, re.MULTILINE)
        ] == []
