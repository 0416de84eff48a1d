"""The package as a wheel, built from the sources as they are."""

import fcntl
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from tests.paths import ROOT

# Each build is of a copy at one place: cargo compiles the core anew wherever else it finds it.
CHECKOUT = ROOT / "target/tests-checkout"
# What the package is built from. The lock file is there as soon as cargo ran once.
FOLDERS = ("core", "src")
FILES = ("Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "pyproject.toml")


def build_environment() -> Mapping[str, str]:
    """Return variables with which pip builds the package, also where HOME is another.

    A test needs no fast core, so that it takes what `cargo test` compiled of the core's needs.
    """
    programs = str(Path(sys.executable).parent)
    homes = {"CARGO_HOME": Path.home() / ".cargo", "RUSTUP_HOME": Path.home() / ".rustup"}
    return {
        **{name: str(path) for name, path in homes.items() if path.exists()},
        **{name: os.environ[name] for name in homes if name in os.environ},
        "CARGO_TARGET_DIR": str(ROOT / "target"),
        "MATURIN_PEP517_ARGS": "--profile=dev",
        "PATH": os.pathsep.join([programs, os.environ["PATH"]]),
        "PIP_NO_COMPILE": "1",  # Of what is installed, a test imports a part.
    }


@contextmanager
def building() -> Iterator[Mapping[str, str]]:
    """Yield variables for one build of CHECKOUT, offline; others wait for their turn."""
    (ROOT / "target").mkdir(exist_ok=True)
    with (ROOT / "target/tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(CHECKOUT, ignore_errors=True)
        copy_sources(CHECKOUT)
        yield {**build_environment(), "CARGO_NET_OFFLINE": "true"}


def copy_sources(checkout: Path) -> None:
    """Copy what the package is made of, without what an earlier build left, into a folder."""
    for name in FOLDERS:
        left = shutil.ignore_patterns("*.egg-info", "*.so", "__pycache__", "node_modules")
        shutil.copytree(ROOT / name, checkout / name, ignore=left)
    for name in FILES:
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, checkout)


def built_wheel(folder: Path, *, fast: bool = False) -> zipfile.ZipFile:
    """Build the wheel in a folder; with the core as users get it only if it shall be fast.

    The wheel of the same sources is built once and kept, because it takes some ten seconds.
    """
    with building() as variables:
        kept = ROOT / "target/tests-wheels" / f"{digest_of(CHECKOUT)}-{'fast' if fast else 'dev'}"
        if not list(kept.glob("*.whl")):
            shutil.rmtree(kept.parent, ignore_errors=True)
            _build(kept, {**variables, **({"MATURIN_PEP517_ARGS": ""} if fast else {})})
        (wheel,) = kept.glob("*.whl")
        return zipfile.ZipFile(shutil.copy(wheel, folder))


def digest_of(folder: Path) -> str:
    """Return a digest of the names and contents of all files of a folder."""
    digest = sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder)}\0".encode())
        digest.update(sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _build(folder: Path, variables: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    options = ["--no-build-isolation", "--no-index", "--wheel-dir", str(folder), str(CHECKOUT)]
    environment = {**os.environ, **variables}
    subprocess.run([*command, *options], check=True, capture_output=True, env=environment)
