"""The wheel in environments of its own, and beside the packages of agents.

Each extra on each Python at hand: its size, its start-up time, and whether it works.

An environment has the requirements of the wheel and nothing else, in the newest versions that fit.
The package is imported in it, `pip check` finds no conflict, and the commands of the extra run on
the examples, away from the checkout. Then base and each extra are resolved beside distributions
that pin OpenTelemetry. Each of these must get the same version as it gets alone, and the server is
installed and used beside it. Packages come from the index that is configured for pip and uv; uv
resolves in seconds what takes pip hundreds of releases.

All of it takes half an hour. With pyenv, all its versions are at hand.
"""

import argparse
import json
import os
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
COMMANDS: tuple[tuple[str, ...], ...] = (
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
    "analyzer": COMMANDS,
    "judge": (*COMMANDS[:1], ("python", "-c", "import looptrace.collector.judge.chat")),
    "mcp": (*COMMANDS[:1], ("python", "-c", "import looptrace.collector.mcp_server")),
    "server": (*COMMANDS[:1], ("looptrace", "doctor")),
    "learn": (*COMMANDS[:1], ("python", "-c", "import sklearn.linear_model")),
    "semantic": (
        *COMMANDS[:1],
        ("python", "-c", "import looptrace.analyzer.fingerprint.embeddings"),
    ),
    "objects": (*COMMANDS[:1], ("python", "-c", _KNOWS_OBJECTS)),
    "ray": (*COMMANDS[:1], ("python", "-c", "import looptrace.ray_tasks")),
    "all": COMMANDS,
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
        pythons = options.python or pythons_at_hand(Path(folder))
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
    run([sys.executable, "-m", "venv", str(folder / "resolver")], folder)
    run([str(folder / "resolver/bin/pip"), "install", "--quiet", "uv"], folder)
    failed = 0
    print("\n| distribution | beside | not beside | SDK | MiB alone | MiB | `import looptrace` |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        try:
            alone = _resolved([name], folder)[name]
            beside = {
                extra: _resolved([name, requirement_of(wheel, extra)], folder) for extra in USES
            }
            others = [extra for extra, versions in beside.items() if versions[name] != alone]
            mib, _ = _installed([name], (), folder)
            both_mib, import_s = _installed(
                [name, requirement_of(wheel, "server")], USES["server"], folder
            )
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
    lines = run([_uv(folder), "pip", "compile", *options, "asked.txt"], folder).splitlines()
    return dict(line.partition(" ")[0].split("==", 1) for line in lines if "==" in line)


def _installed(
    asked: Sequence[str], uses: Sequence[tuple[str, ...]], folder: Path
) -> tuple[float, float]:
    """Install these, use them, and remove them; return their MiB and the seconds of an import."""
    environment = folder / "beside"
    python = str(environment / "bin/python")
    try:
        run([_uv(folder), "venv", "--quiet", "--python", sys.executable, str(environment)], folder)
        run([_uv(folder), "pip", "install", "--quiet", "--python", python, *asked], folder)
        run([_uv(folder), "pip", "check", "--quiet", "--python", python], folder)
        for command in uses:
            run([str(environment / "bin" / command[0]), *command[1:]], folder)
        import_s = _least_s([python, "-c", "import looptrace"], folder) if uses else 0.0
        return _size_mib(environment), import_s
    finally:
        shutil.rmtree(environment, ignore_errors=True)


def _uv(folder: Path) -> str:
    return str(folder / "resolver/bin/uv")


def requirement_of(wheel: Path, extra: str) -> str:
    """Return what pip and uv are asked for."""
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
        run([python, "-m", "venv", str(folder)], folder.parent)
        pip = [str(folder / "bin/python"), "-m", "pip", "--disable-pip-version-check"]
        run([*pip, "install", "--quiet", requirement_of(wheel, extra)], folder)
        run([*pip, "check"], folder)
        for command in USES[extra]:
            run([str(folder / "bin" / command[0]), *command[1:]], folder)
        listed = json.loads(run([*pip, "list", "--format", "json"], folder))
        size_mib = _size_mib(folder)
        import_s = _least_s([str(folder / "bin/python"), "-c", "import looptrace"], folder)
        version_s = _least_s([str(folder / "bin/looptrace"), "--version"], folder) if extra else 0.0
        version = run(
            [str(folder / "bin/python"), "-c", "import sys; print(*sys.version_info[:2], sep='.')"],
            folder,
        )
        return Environment(version.strip(), extra, len(listed) - 1, size_mib, import_s, version_s)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def pythons_at_hand(folder: Path) -> list[str]:
    """Return the Pythons that run, and print a sentence for each that does not."""
    if shutil.which("pyenv"):  # Its programs are placeholders for the versions that are named here.
        versions = run(["pyenv", "versions", "--bare"], folder).split()
        os.environ.setdefault("PYENV_VERSION", ":".join(versions))
    at_hand = []
    for python in PYTHONS:
        try:
            run([python, "--version"], folder)
        except BrokenEnvironmentError:
            print(f"{python} is not installed here, and is left out.", file=sys.stderr)
        else:
            at_hand.append(python)
    return at_hand


def run(command: Sequence[str], folder: Path, timeout_s: float = TIMEOUT_S) -> str:
    """Run a command in a folder, and return what it prints.

    Raises:
        BrokenEnvironmentError: if it fails, takes too long, or does not exist.
    """
    said = f"`{' '.join(command)}`"
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BrokenEnvironmentError(f"{said} took more than {timeout_s:.0f} s") from error
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
        run(command, folder)
        times.append(perf_counter() - begun)
    return min(times)


if __name__ == "__main__":
    main()
