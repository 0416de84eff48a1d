"""The package as a wheel, built from the sources as they are."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.paths import ROOT


def checkout_in(folder: Path) -> Path:
    """Copy what the package is made of, without what an earlier build left; return the copy."""
    checkout = folder / "checkout"
    shutil.copytree(ROOT / "src", checkout / "src", ignore=shutil.ignore_patterns("*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, checkout)
    return checkout


def built_wheel(folder: Path) -> zipfile.ZipFile:
    """Build the wheel in a folder."""
    checkout = checkout_in(folder)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    options = ["--no-build-isolation", "--no-index", "--wheel-dir", str(folder), str(checkout)]
    subprocess.run([*command, *options], check=True, capture_output=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))
