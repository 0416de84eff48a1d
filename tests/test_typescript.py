"""The agent of `docs/typescript.md`: a server that runs stops it, and a healthy run is silent."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.paths import ROOT
from tests.reliability.serving import until

EXAMPLE = ROOT / "examples" / "typescript"
PAGE = ROOT / "docs" / "typescript.md"
NODE_MODULES = ROOT / "build" / "typescript" / "node_modules"
TIMEOUT_S = 120
LEFT_OUT = "…"
# What differs from run to run: ids, and how often the agent called before it was told.
VARIES = re.compile(r"[0-9a-f]{16}|called \d+ times")

pytestmark = pytest.mark.skipif(
    not NODE_MODULES.exists(),
    reason="the packages of examples/typescript are not there: make build/typescript/installed",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Copy the example, as its reader does, beside the packages that it needs."""
    for path in EXAMPLE.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    return tmp_path


@contextmanager
def served(store: Path) -> Iterator[str]:
    """Run a server on a port of its own; return its address."""
    command = [sys.executable, "-m", "looptrace", "serve", "--store", str(store)]
    with subprocess.Popen(
        [*command, "--http-port", "0", "--grpc-port", "0"], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield re.findall(r"http://[\d.:]+", next(server.stdout))[0]
        finally:
            server.terminate()


def npx(folder: Path, *command: str, server: str = "http://127.0.0.1:1") -> tuple[str, str]:
    """Run a command of the packages; return what it printed, and what it warned of."""
    done = subprocess.run(
        [NODE_MODULES / ".bin" / command[0], *command[1:]],
        cwd=folder,
        env={**os.environ, "LOOPTRACE_ENDPOINT": server},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


def asked(url: str) -> Any:
    """Return the server's answer."""
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - on loopback.
        return json.load(answer)


def test_the_types_are_right(folder: Path) -> None:
    """Whoever copies the files compiles them in the strict mode."""
    assert npx(folder, "tsc") == ("", "")


def test_the_server_stops_the_agent(folder: Path) -> None:
    """It makes no more calls at its gate, nor does a process that begins anew before a decision."""
    with served(folder / "store") as server:
        printed, warned = npx(folder, "tsx", "agent.ts", server=server)
        again, _ = npx(folder, "tsx", "agent.ts", server=server)
        (gate,) = asked(f"{server}/v1/gates?status=open&task=ticket-42&service=fixer")["gates"]
    called = int(re.findall(r"called (\d+) times", printed)[0])
    page = PAGE.read_text(encoding="utf-8")
    shown = re.findall(r"```text\n(.*?)```", page, re.DOTALL)[0]

    assert warned == ""
    assert 3 <= called < 30
    assert f"stopped at gate {gate['id']}: {gate['reason']}" in printed
    assert "called 0 times" in again
    assert VARIES.sub("", shown) == VARIES.sub("", printed)


def test_a_healthy_run_is_silent(folder: Path) -> None:
    """Each run of the tests brings news."""
    with served(folder / "store") as server:
        printed, _ = npx(folder, "tsx", "agent.ts", "healthy", server=server)
        tasks = until(lambda: asked(f"{server}/v1/tasks")["tasks"])
        gates = asked(f"{server}/v1/gates")["gates"]

    assert "run_tests was called 3 times" in printed
    assert [(task["task"], task["agents"], task["loop_count"]) for task in tasks] == [
        ("ticket-42@fixer", ["fixer"], 0)
    ]
    assert gates == []


def test_an_agent_without_its_server_goes_on(folder: Path) -> None:
    """It says that it is not watched, and does its work."""
    printed, warned = npx(folder, "tsx", "agent.ts", "healthy")

    assert "run_tests was called 3 times" in printed
    assert "looptrace was not asked, the agent goes on" in warned
    assert "spans were not sent" in warned


def test_the_page_shows_the_programs_lines() -> None:
    """The lines that it shows stand in the files."""
    page = PAGE.read_text(encoding="utf-8")
    lines = {
        LEFT_OUT,
        *(line for path in EXAMPLE.iterdir() for line in path.read_text().splitlines()),
    }
    shown = "".join(re.findall(r"```(?:typescript|json)\n(.*?)```", page, re.DOTALL)).splitlines()

    assert len(shown) > 20
    assert [line for line in shown if line not in lines] == []
