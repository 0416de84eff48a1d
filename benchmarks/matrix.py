"""The wheel and the tests on each Python, with the newest requirements and with the oldest.

One wheel serves all of them. Each environment has the wheel, its requirements and those of the
tests. The commands run away from the checkout; the tests of a moment each run on the wheel, because
`src` is in no path. The oldest requirements are the lower bounds in `pyproject.toml`, on the oldest
Python, because old releases have no wheels for new ones.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import perf_counter

from benchmarks.environments import (
    COMMANDS,
    BrokenEnvironmentError,
    pythons_at_hand,
    requirement_of,
    run,
)
from tests.paths import ROOT
from tests.wheels import built_wheel

PROJECT = ROOT / "pyproject.toml"
EXTRAS = ("all", "semantic")
# What behaves otherwise on another Python, or with other requirements; the rest reads the checkout.
TESTS = ("analyzer", "collector", "middleware", "queries", "rules", "testing", "test_dialects.py")
TESTS_TIMEOUT_S = 3_600  # They take minutes, where others work on the machine an hour.
_UV = (sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-annotate", "--no-header")
_SOURCE_OF_PACKAGE = "import looptrace; print(looptrace.__file__)"


@dataclass(frozen=True, slots=True)
class Cell:
    """One environment of the matrix."""

    python: str
    is_oldest: bool  # whether its requirements are the oldest

    @property
    def name(self) -> str:
        """Return the name of its row."""
        return f"{self.python}, {'oldest' if self.is_oldest else 'newest'} requirements"


def main() -> None:
    """Print a line for each environment; exit with 1 where one does not work."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--python", action="append", help="a Python to use; all at hand otherwise")
    parser.add_argument("--wheel", type=Path, help="a wheel that is built; it is built otherwise")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = options.wheel or Path(str(built_wheel(folder, fast=True).filename))
        for cell in cells_of(options.python or pythons_at_hand(folder)):
            begun = perf_counter()
            try:
                said = try_out(cell, wheel.resolve(), folder / "environment")
            except BrokenEnvironmentError as error:
                failed += 1
                said = str(error)
            print(f"{cell.name}: {said} ({perf_counter() - begun:.0f} s)", flush=True)
    sys.exit(1 if failed else 0)


def cells_of(pythons: Sequence[str]) -> Iterator[Cell]:
    """Yield the environments: each Python with the newest, the first also with the oldest."""
    for python in pythons:
        yield Cell(python, is_oldest=False)
    for python in pythons[:1]:
        yield Cell(python, is_oldest=True)


def oldest_of(python: str) -> str:
    """Return the lower bound of each direct requirement, and what fits them, as constraints.

    pip gives up to find what fits; uv has a resolution for it.

    Raises:
        BrokenEnvironmentError: if nothing fits.
    """
    ends = ("--python", python, "--resolution", "lowest-direct")
    extras = chain.from_iterable(("--extra", each) for each in EXTRAS)
    return run([*_UV, *ends, *extras, "--group", "tests", str(PROJECT)], ROOT)


def try_out(cell: Cell, wheel: Path, folder: Path) -> str:
    """Make the environment, run the commands and the tests there, and remove it.

    Returns the last line of the tests.

    Raises:
        BrokenEnvironmentError: if any of that fails.
    """
    try:
        run([cell.python, "-m", "venv", "--without-pip", str(folder)], folder.parent)
        constraints = oldest_of(cell.python) if cell.is_oldest else ""
        (folder / "constraints.txt").write_text(constraints, encoding="utf-8")
        python = str(folder / "bin/python")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
        asked = [requirement_of(wheel, ",".join(EXTRAS)), "--group", f"{PROJECT}:tests"]
        run([*pip, "install", "--quiet", "--constraint", "constraints.txt", *asked], folder)
        run([*pip, "check"], folder)
        for command in COMMANDS:
            run([str(folder / "bin" / command[0]), *command[1:]], folder)
        return _tests_of(python, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tests_of(python: str, folder: Path) -> str:
    package = run([python, "-c", _SOURCE_OF_PACKAGE], ROOT)
    if not Path(package).is_relative_to(folder):
        raise BrokenEnvironmentError(f"the tests would read {package.strip()} and not the wheel")
    options = ("-q", "-n", "2", "-p", "no:cacheprovider", "-m", "not slow and not thorough")
    tests = [f"tests/{name}" for name in TESTS]
    said = run([python, "-m", "pytest", *options, *tests], ROOT, TESTS_TIMEOUT_S)
    return said.splitlines()[-1]


if __name__ == "__main__":
    main()
