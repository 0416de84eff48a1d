"""The tree is what the architecture page says, in a checkout and in a wheel."""

import ast
import re
import sys
import tomllib
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import looptrace
from tests.paths import ROOT
from tests.wheels import built_wheel

PACKAGE = ROOT / "src/looptrace"
FOLDER_MODULES_MAX = 16
LINES_MAX = 400
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
PARTS = ("collector", "analyzer", "rules", "queries")
# What a wheel says of itself, beside what every wheel has; no tests, and nothing of the checkout.
DISTRIBUTION = ("entry_points.txt", "licenses/LICENSE")
# The compiled core is one for all versions of Python.
CORE = "looptrace/_core.pyd" if sys.platform == "win32" else "looptrace/_core.abi3.so"


def test_the_version_is_in_one_place() -> None:
    """A second place would be forgotten on the day of a release."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]

    assert looptrace.__version__ == version, "run `make .venv/installed-dev`"
    assert [path for path in MODULES if f'"{version}"' in path.read_text("utf-8")] == []


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


def test_folders_are_small() -> None:
    """Who looks for a place reads a list, which must stay short."""
    sizes = Counter(path.parent for path in MODULES)

    assert [folder for folder, size in sizes.items() if size > FOLDER_MODULES_MAX] == []


def test_modules_are_short() -> None:
    """A module that needs more lines does more than one thing, or says why it does not."""
    long = {path: text for path in MODULES if (text := path.read_text()).count("\n") > LINES_MAX}

    assert len(MODULES) > 1
    assert [path for path, text in long.items() if "It is long because" not in text] == []


def types_of(text: str) -> set[str]:
    """Return the types that a module defines: its classes and aliases, in capitals and small."""
    statements = ast.parse(text).body
    body = [*statements, *(each for s in statements if isinstance(s, ast.If) for each in s.body)]
    classes = [each.name for each in body if isinstance(each, ast.ClassDef)]
    assigned = [each.targets for each in body if isinstance(each, ast.Assign)]
    assigned += [[each.target] for each in body if isinstance(each, ast.AnnAssign)]
    names = [each.id for targets in assigned for each in targets if isinstance(each, ast.Name)]
    return {name for name in [*classes, *names] if _is_camel(name)}


def _is_camel(name: str) -> bool:
    bare = name.lstrip("_")
    return bare[:1].isupper() and not bare.isupper() and "_" not in bare


def test_a_type_name_has_one_module() -> None:
    """Two types of one name are confused by readers, whatever their modules."""
    modules_of: dict[str, list[str]] = {}
    for path in MODULES:
        for name in types_of(path.read_text(encoding="utf-8")):
            modules_of.setdefault(name, []).append(str(path.relative_to(PACKAGE)))

    assert {name: paths for name, paths in modules_of.items() if len(paths) > 1} == {}
    assert types_of("Row = int\nclass _A: ...\nMAX = 3\nif MAX:\n    B_C = Key = str") == {
        "Row",
        "Key",
    }


def test_a_page_names_every_folder() -> None:
    """A folder that the page does not name is found by nobody."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")

    folders = {path.relative_to(PACKAGE).parent for path in MODULES}
    parts = [each.as_posix() for each in folders if each.parent.name in ("analyzer", "collector")]
    assert len(parts) > 1
    assert [each for each in parts if f"`{each}" not in text] == []


# What a file of the core names of others: `use super::{a, b::C}`, `crate::a::f(...)`.
NAMED = re.compile(r"\b(crate|(?:super::)*super)::((?:\w+::)*)(\{[^;]*?\}|\w+)")
CORE_FILES = {
    path.relative_to(ROOT / "core/src").with_suffix("").parts: path
    for path in (ROOT / "core/src").rglob("*.rs")
    if path.stem not in ("lib", "mod")
}


def named_by(file: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Return the files of the core that a file names, but for its tests."""
    text = re.sub("//.*", "", CORE_FILES[file].read_text("utf-8").partition("#[cfg(test)]\nmod")[0])
    found = set()
    for start, between, last in NAMED.findall(text):
        folder = () if start == "crate" else file[: -start.count("super")]
        for name in re.findall(r"(?:^|[{,])\s*(\w+)", last):
            place = (*folder, *between.split("::")[:-1], name)
            found |= {place[:end] for end in range(1, len(place) + 1)} & CORE_FILES.keys() - {file}
    return found


def test_no_files_of_the_core_name_each_other_in_a_circle() -> None:
    """Who reads one file must not have to know all; import-linter looks at those of Python."""
    graph = {file: named_by(file) for file in CORE_FILES}

    assert sum(map(len, graph.values())) > len(graph)
    TopologicalSorter(graph).prepare()
