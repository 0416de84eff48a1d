"""README and tutorial work as they are written, in the order in which they stand."""

from __future__ import annotations

import os
import re
import socket
import sys
import tomllib
from pathlib import Path

import pytest

from docs.generate import installing
from looptrace.installation import SOURCE
from tests.page_script import PageError, run, script_of
from tests.paths import ROOT
from tests.wheels import checkout_in

# The interpreter of the tests and the commands beside it, as an environment that is active has.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def test_the_readme(tmp_path: Path) -> None:
    """Each command, but for the server and the installation, which the tutorial has."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    script = re.sub("(?m)^(python3 -m venv|[.] [.]venv|pip install).*$", "", script_of(page))
    assert (script.count("looptrace serve"), page.count("```sh")) == (1, 6)
    printed = run(re.sub("(?m)^looptrace serve.*$", "", script), tmp_path, PATH=PATH)

    assert "5 loops in 5 of 10 tasks" in printed
    assert "exit code 1" in printed
    assert "is resolved: continue" in printed
    assert "looptrace.toml: ok" in printed
    assert "Error" not in printed
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"traces", "loops.html", "loops.sarif", "store", "looptrace.toml"}


def test_the_tutorial(tmp_path: Path) -> None:
    """It installs looptrace; the agent is stopped, goes on, and the receiver hears of both."""
    checkout = checkout_in(tmp_path)
    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    for port in ("8080", "4318"):
        page = page.replace(port, str(_free_port()))
    ports = f"--http-port {re.findall(r'127.0.0.1:([0-9]+)/readyz', page)[0]} --grpc-port 0"
    page = page.replace("looptrace serve", f"looptrace serve {ports}")
    constraints = str(ROOT / "constraints.txt")
    printed = run(script_of(page), checkout, PATH=PATH, PIP_CONSTRAINT=constraints)

    assert "ok    installation" in printed
    folder = checkout / "build" / "tutorial"
    said = (folder / "agent.txt").read_text()
    assert re.search(r"stopped\..*a person says: Mark it as applied: skip 42", said, re.DOTALL)
    assert said.endswith("ok, up to date\n")
    alerts = (folder / "alerts.txt").read_text().splitlines()
    assert [line.partition(" - ")[0] for line in alerts[1:]] == [
        "looptrace.gate.opened",
        "looptrace.gate.resolved",
    ]
    assert alerts[2].endswith("Mark it as applied: skip 42.")
    assert re.search(r"gates resolved +1", printed)


# A command to install looptrace, up to its end; pages, examples, and messages have such.
INSTALLS = re.compile(r"pip install [^`\"\n]*looptrace[^`\"\n]*")


def test_it_can_be_installed_as_every_file_says() -> None:
    """Nobody can install a package that is not published; the tutorial's test runs the command."""
    texts = {
        path: path.read_text(encoding="utf-8")
        for path in (*installing(), *(ROOT / "src").rglob("*.py"), *(ROOT / "deploy").iterdir())
        if path.is_file()
    }
    commands = {path.name: INSTALLS.findall(text) for path, text in texts.items()}
    published = [f"{name}: {each}" for name, found in commands.items() for each in found]
    with_others = [each for each in published if "@ git+https" not in each]

    assert sum(f"pip install '{SOURCE}[" in text for text in texts.values()) > 5
    assert with_others == [] or SOURCE != "."


def test_every_extra_that_a_page_names_exists() -> None:
    """A command with an extra that is misspelt installs the rest and says nothing."""
    known = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    )
    texts = [path.read_text(encoding="utf-8") for path in installing()]
    named = {name for text in texts for name in re.findall(r"(?:looptrace|'\.)\[(\w+)\]", text)}

    assert named
    assert named <= known


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
    return port


def test_a_page_with_a_command_that_fails_is_seen(tmp_path: Path) -> None:
    """The last command of a block must not hide one before it."""
    with pytest.raises(PageError, match="the page returned 1"):
        run(script_of("```sh\nfalse\ntrue\n```\n"), tmp_path)
