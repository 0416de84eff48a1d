"""The public names: documented, typed, without needless imports, and all of them used."""

import ast
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from docs.api_page import PUBLIC, Function, definition, page, public_names
from tests.paths import ROOT
from tests.wheels import built_wheel

CONSUMER = ROOT / "tests/typing/consumer.py"
NAMES = [(module, name) for module in PUBLIC for name in public_names(module)]


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_resolve(module: str) -> None:
    """A name in `__all__` that cannot be imported, or twice, breaks every `import *`."""
    names = public_names(module)
    loaded = import_module(module)

    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(loaded, name)] == []


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_listed(module: str) -> None:
    """A notebook and a shell complete names from `dir()`, in a process that has used none yet."""
    code = f"import {module} as here; print(set(here.__all__) - set(dir(here)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


@pytest.mark.parametrize("module", PUBLIC)
def test_other_names_are_refused(module: str) -> None:
    """A package with lazy names must fail for a wrong one as any module does."""
    with pytest.raises(AttributeError, match="no_such_name"):
        import_module(module).no_such_name  # noqa: B018 - the access is what fails


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_names_say_what_they_are(module: str, name: str) -> None:
    """A public name is documented, and its signature is typed without `Any`."""
    _, node = definition(module, name)

    assert "Any" not in {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    if isinstance(node, Function | ast.ClassDef):
        assert (ast.get_docstring(node) or "").split("\n")[0].endswith((".", ":"))


def test_the_page_is_written_from_the_sources() -> None:
    """A public name, or a signature of a user's, that changes changes the page for a reviewer."""
    assert page() == (ROOT / "docs/api.md").read_text(encoding="utf-8"), "run `make docs`"


def test_the_consumer_uses_every_name() -> None:
    """What the typed consumer does not use, no type checker checks."""
    tree = ast.parse(CONSUMER.read_text(encoding="utf-8"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}

    assert sorted({name for _, name in NAMES} - used) == []


def test_an_installed_wheel_is_typed(tmp_path: Path) -> None:
    """A wheel without its marker or a type is untyped for every user, whatever the sources say."""
    site = tmp_path / "site"
    built_wheel(tmp_path).extractall(site)
    shutil.copy(CONSUMER, tmp_path)

    # As for a package that is installed, what mypy thinks of its modules is not the user's.
    mypy = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file="]
    checked = subprocess.run(
        [*mypy, "consumer.py"],
        cwd=tmp_path,
        env={"MYPYPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (site / "looptrace/py.typed").is_file()
    assert checked.returncode == 0, checked.stdout
