"""The tree is what the architecture page says, in a checkout and in a wheel."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

import pytest

import looptrace
from docs.modules import PACKAGE, folders, modules, page
from tests.paths import ROOT
from tests.wheels import built_wheel

FOLDER_MODULES_MAX = 16
MODULE_LINES_MAX = 400
MODULES = [path for folder in folders() for path in modules(folder)]
PARTS = ("collector", "analyzer", "rules", "queries")
# What a wheel says of itself, beside what every wheel has; no tests, and nothing of the checkout.
DISTRIBUTION = ("entry_points.txt", "licenses/LICENSE")
# The compiled core is one for all versions of Python.
CORE = "looptrace/_core.pyd" if sys.platform == "win32" else "looptrace/_core.abi3.so"


def test_the_version_is_one() -> None:
    """Metadata is read from pyproject.toml, and too slow to read for an agent's process."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert looptrace.__version__ == project["version"]


@pytest.mark.parametrize("part", PARTS)
def test_part_is_a_link_at_the_top(part: str) -> None:
    """The four parts are named at the top; on Windows git needs core.symlinks=true for it."""
    link = ROOT / part

    assert link.is_symlink()
    assert link.readlink() == Path("src/looptrace") / part


def test_wheel_holds_every_file(tmp_path: Path) -> None:
    """A build that followed the links wrongly would drop a package or its data files."""
    names = set(built_wheel(tmp_path).namelist())

    source = ROOT / "src"
    kinds = ("*.py", "*.pyi", "*.sql", "*.json", "*.toml", "*.typed", "*.j2", "*.css")
    expected = {str(path.relative_to(source)) for kind in kinds for path in source.rglob(kind)}
    assert expected <= names
    assert {f"looptrace/{part}/__init__.py" for part in (*PARTS, "cli")} <= names
    assert [name for name in names if Path(name).suffix in {".so", ".pyd"}] == [CORE]
    others = {name.split("/", 1)[1] for name in names if not name.startswith("looptrace/")}
    assert others == {"METADATA", "RECORD", "WHEEL", *DISTRIBUTION}


@pytest.mark.parametrize("folder", folders(), ids=str)
def test_folders_are_small(folder: Path) -> None:
    """Who looks for a place reads a list, which must stay short."""
    assert len(modules(folder)) <= FOLDER_MODULES_MAX


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_are_short(path: Path) -> None:
    """A module that needs more lines does more than one thing, or says why it does not."""
    text = path.read_text(encoding="utf-8")
    about = ast.get_docstring(ast.parse(text)) or ""

    assert about
    assert text.count("\n") <= MODULE_LINES_MAX or "It is long because" in about


def test_a_page_names_every_module() -> None:
    """A module that the page does not name is found by nobody."""
    text = (ROOT / "docs/modules.md").read_text(encoding="utf-8")

    assert page() == text, "run `make docs`"
    assert [path.stem for path in MODULES if f"`{path.stem}`" not in text] == []
    assert "## core/src/same\n" in text
