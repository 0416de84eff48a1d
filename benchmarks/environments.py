"""The wheel in environments of its own, and beside the packages of agents.

Each extra on each Python at hand: its size, its start-up time, and whether it works.

An environment has the requirements of the wheel and nothing else, in the newest versions that fit.
The package is imported in it, `pip check` finds no conflict, and the commands of the extra run on
the examples, away from the checkout. Then base and each extra are resolved beside distributions
that pin OpenTelemetry. Each of these must get the same version as it gets alone, and the server is
installed and used beside it. Packages come from the index that is configured for pip and uv; uv
resolves in seconds what takes pip hundreds of releases.

All of it takes half an hour. With pyenv, PYENV_VERSION=3.11.7:3.12.1:3.13.0 puts several Pythons
at hand.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from tests.paths import ROOT
from tests.wheels import built_wheel

PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
# Frameworks and distributions whose pins of OpenTelemetry have been in the way.
BESIDE = (
    *("strands-agents", "google-adk", "agent-framework-core"),
    *("openlit", "traceloop-sdk", "azure-monitor-opentelemetry", "aws-opentelemetry-distro"),
)
MIB = 2**20
_SDK = "opentelemetry-sdk"
TIMEOUT_S = 600
TIMES = 3  # The least of this many times counts, because the first one reads from the disk.

_TRACES = str(ROOT / "examples/traces")
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("looptrace", "demo"),
    ("looptrace", "analyze", _TRACES, "--format", "json", "--output", "report.json"),
    ("looptrace", "ingest", _TRACES, "--store", "store"),
    ("looptrace", "query"),
)
_KNOWS_OBJECTS = """
from looptrace.collector.store.objects.client import Objects
Objects("s3://bucket/store")
"""
# The commands that show that an extra is complete, beside its import.
USES: Mapping[str, Sequence[tuple[str, ...]]] = {
    "": (("python", "-c", "import looptrace; looptrace.instrument"),),
    "analyzer": _COMMANDS,
    "judge": (*_COMMANDS[:1], ("python", "-c", "import looptrace.collector.judge.chat")),
    "mcp": (*_COMMANDS[:1], ("python", "-c", "import looptrace.collector.mcp_server")),
    "server": (*_COMMANDS[:1], ("looptrace", "doctor")),
    "learn": (*_COMMANDS[:1], ("python", "-c", "import sklearn.linear_model")),
    "semantic": (
        *_COMMANDS[:1],
        ("python", "-c", "import looptrace.analyzer.fingerprint.embeddings"),
    ),
    "objects": (*_COMMANDS[:1], ("python", "-c", _KNOWS_OBJECTS)),
    "ray": (*_COMMANDS[:1], ("python", "-c", "import looptrace.ray_tasks")),
    "all": _COMMANDS,
}


class BrokenEnvironmentError(Exception):
    """An environment could not be made, or the package does not work in it."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The cost of one environment: packages beside pip, their size, and the times in seconds."""

    python: str
    extra: str
    packages: int
    size_mib: float
    import_s: float
    version_s: float


def main() -> None:
    """Print a row for each environment; exit with 1 where one does not work."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--python", action="append", help="a Python to use; all at hand otherwise")
    parser.add_argument("--extra", action="append", choices=list(USES), help="all otherwise")
    parser.add_argument("--beside", action="append", help="a distribution; those known otherwise")
    options = parser.parse_args()
    failed = 0
    print("| Python | extra | packages | MiB | `import looptrace` | `--version` |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(str(built_wheel(Path(folder), fast=True).filename))
        pythons = options.python or [name for name in PYTHONS if _works(name, Path(folder))]
        for python in pythons:
            for extra in options.extra or USES:
                try:
                    row = environment_of(python, extra, wheel, Path(folder) / "environment")
                except BrokenEnvironmentError as error:
                    failed += 1
                    print(f"{python}, {extra or 'base'}: {error}", file=sys.stderr)
                    continue
                print(_row(row), flush=True)
        failed += _try_beside(options.beside or BESIDE, wheel, Path(folder))
    sys.exit(1 if failed else 0)


def _try_beside(names: Sequence[str], wheel: Path, folder: Path) -> int:
    """Print each distribution beside looptrace; return how many get another version, or fail."""
    _run([sys.executable, "-m", "venv", str(folder / "resolver")], folder)
    _run([str(folder / "resolver/bin/pip"), "install", "--quiet", "uv"], folder)
    failed = 0
    print("\n| distribution | beside | not beside | SDK | MiB alone | MiB | `import looptrace` |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        try:
            alone = _resolved([name], folder)[name]
            beside = {extra: _resolved([name, _asked(wheel, extra)], folder) for extra in USES}
            others = [extra for extra, versions in beside.items() if versions[name] != alone]
            mib, _ = _installed([name], (), folder)
            both_mib, import_s = _installed([name, _asked(wheel, "server")], USES["server"], folder)
        except BrokenEnvironmentError as error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr)
            continue
        failed += bool(others)
        sdk = beside["server"][_SDK]
        cells = (name, alone, ", ".join(others) or "-", sdk, f"{mib:.0f}", f"{both_mib:.0f}")
        print(f"| {' | '.join(cells)} | {import_s:.2f} s |", flush=True)
    return failed


def _resolved(asked: Sequence[str], folder: Path) -> dict[str, str]:
    """Return the versions of all distributions that these need, by name."""
    (folder / "asked.txt").write_text("\n".join(asked), encoding="utf-8")
    options = ("--quiet", "--no-header", "--no-annotate", "--python", sys.executable)
    lines = _run([_uv(folder), "pip", "compile", *options, "asked.txt"], folder).splitlines()
    return dict(line.partition(" ")[0].split("==", 1) for line in lines if "==" in line)


def _installed(
    asked: Sequence[str], uses: Sequence[tuple[str, ...]], folder: Path
) -> tuple[float, float]:
    """Install these, use them, and remove them; return their MiB and the seconds of an import."""
    environment = folder / "beside"
    python = str(environment / "bin/python")
    try:
        _run([_uv(folder), "venv", "--quiet", "--python", sys.executable, str(environment)], folder)
        _run([_uv(folder), "pip", "install", "--quiet", "--python", python, *asked], folder)
        _run([_uv(folder), "pip", "check", "--quiet", "--python", python], folder)
        for command in uses:
            _run([str(environment / "bin" / command[0]), *command[1:]], folder)
        import_s = _least_s([python, "-c", "import looptrace"], folder) if uses else 0.0
        return _size_mib(environment), import_s
    finally:
        shutil.rmtree(environment, ignore_errors=True)


def _uv(folder: Path) -> str:
    return str(folder / "resolver/bin/uv")


def _asked(wheel: Path, extra: str) -> str:
    return f"looptrace{f'[{extra}]' if extra else ''} @ {wheel.as_uri()}"


def _size_mib(environment: Path) -> float:
    files = environment.glob("lib/*/site-packages/**/*")
    return sum(path.stat().st_size for path in files if path.is_file()) / MIB


def _row(of: Environment) -> str:
    version = f"{of.version_s:.2f} s" if of.extra else "-"
    cells = (of.python, of.extra or "-", of.packages, f"{of.size_mib:.0f}", f"{of.import_s:.2f} s")
    return f"| {' | '.join(map(str, (*cells, version)))} |"


def environment_of(python: str, extra: str, wheel: Path, folder: Path) -> Environment:
    """Make an environment, use the package there, measure it, and remove it.

    Raises:
        BrokenEnvironmentError: if any of that fails.
    """
    try:
        _run([python, "-m", "venv", str(folder)], folder.parent)
        pip = [str(folder / "bin/python"), "-m", "pip", "--disable-pip-version-check"]
        _run([*pip, "install", "--quiet", _asked(wheel, extra)], folder)
        _run([*pip, "check"], folder)
        for command in USES[extra]:
            _run([str(folder / "bin" / command[0]), *command[1:]], folder)
        listed = json.loads(_run([*pip, "list", "--format", "json"], folder))
        size_mib = _size_mib(folder)
        import_s = _least_s([str(folder / "bin/python"), "-c", "import looptrace"], folder)
        version_s = _least_s([str(folder / "bin/looptrace"), "--version"], folder) if extra else 0.0
        version = _run(
            [str(folder / "bin/python"), "-c", "import sys; print(*sys.version_info[:2], sep='.')"],
            folder,
        )
        return Environment(version.strip(), extra, len(listed) - 1, size_mib, import_s, version_s)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _works(python: str, folder: Path) -> bool:
    """Return whether this Python runs; a program in the path may only be a placeholder."""
    try:
        _run([python, "--version"], folder)
    except BrokenEnvironmentError:
        return False
    return True


def _run(command: Sequence[str], folder: Path) -> str:
    said = f"`{' '.join(command)}`"
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BrokenEnvironmentError(f"{said} took more than {TIMEOUT_S} s") from error
    except FileNotFoundError as error:
        raise BrokenEnvironmentError(f"{said}: there is no such program") from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise BrokenEnvironmentError(f"{said} exited with {done.returncode}: {''.join(last)}")
    return done.stdout


def _least_s(command: Sequence[str], folder: Path) -> float:
    times = []
    for _ in range(TIMES):
        begun = perf_counter()
        _run(command, folder)
        times.append(perf_counter() - begun)
    return min(times)


if __name__ == "__main__":
    main()
