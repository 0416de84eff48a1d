"""README and tutorial work as they are written, in the order in which they stand."""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path

import pytest

from tests.page_script import PageError, run, script_of
from tests.paths import ROOT

# The interpreter of the tests and the commands beside it, as an environment that is active has.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def test_the_readme(tmp_path: Path) -> None:
    """Each command, but for the server, which the tutorial starts, and the installation."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    script = script_of(page)
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
    """The agent is stopped, goes on with the note, and the receiver hears of both."""
    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    install, rest = page.split("looptrace doctor\n", maxsplit=1)
    assert "pip install 'looptrace[server]'" in install
    for port in ("8080", "4318"):
        rest = rest.replace(port, str(_free_port()))
    ports = f"--http-port {re.findall(r'127.0.0.1:([0-9]+)/readyz', rest)[0]} --grpc-port 0"
    rest = rest.replace("looptrace serve", f"looptrace serve {ports}")
    printed = run(script_of(rest), tmp_path, PATH=PATH)

    said = (tmp_path / "agent.txt").read_text()
    assert re.search(r"stopped\..*a person says: Mark it as applied: skip 42", said, re.DOTALL)
    assert said.endswith("ok, up to date\n")
    alerts = (tmp_path / "alerts.txt").read_text().splitlines()
    assert [line.partition(" - ")[0] for line in alerts[1:]] == [
        "looptrace.gate.opened",
        "looptrace.gate.resolved",
    ]
    assert alerts[2].endswith("Mark it as applied: skip 42.")
    assert re.search(r"gates resolved +1", printed)


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
    return port


def test_a_page_with_a_command_that_fails_is_seen(tmp_path: Path) -> None:
    """The last command of a block must not hide one before it."""
    with pytest.raises(PageError, match="the page returned 1"):
        run(script_of("```sh\nfalse\ntrue\n```\n"), tmp_path)
