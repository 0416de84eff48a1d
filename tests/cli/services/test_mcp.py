"""`looptrace mcp`, asked by the client of the official SDK, over stdio and over HTTP."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from looptrace.analyzer.settings.sections import default
from looptrace.collector.files.reader import read_spans
from looptrace.collector.store.writer import ingest
from tests.commands import refused
from tests.paths import ROOT
from tests.ports import free_ports
from tests.reliability.serving import until

# Importing it takes a second, also where other tests are collected.
if TYPE_CHECKING:
    from mcp import Client, StdioServerParameters

COMMAND = [sys.executable, "-m", "looptrace", "mcp", "--store"]
READING = {"tasks", "loops", "why", "gates", "gate"}
WAIT_S = 30.0


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with the example traces."""
    store_dir = tmp_path_factory.mktemp("mcp") / "store"
    ingest(read_spans([str(ROOT / "examples" / "traces")]).spans, store_dir, default().policy)
    return store_dir


@pytest.fixture
def store_dir(examples: Path, tmp_path: Path) -> Path:
    """Return a copy of the store, which a test may change."""
    return shutil.copytree(examples, tmp_path / "store")


def over_stdio(store_dir: Path, *options: str) -> StdioServerParameters:
    """Return the parameters of a server that the client starts."""
    from mcp import StdioServerParameters  # noqa: PLC0415

    arguments = [*COMMAND[1:], str(store_dir), *options]
    return StdioServerParameters(command=COMMAND[0], args=arguments)


class Session:
    """A client that stays with one server."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal = portal
        self._client = client

    def ask(self, name: str, **arguments: Any) -> tuple[bool, str]:
        """Call a tool; return whether it failed, and its text."""
        result = self._portal.call(self._client.call_tool, name, arguments)
        return bool(result.is_error), result.content[0].text

    def tools(self) -> dict[str, bool | None]:
        """Return the tools by name, and whether each is read-only."""
        found = self._portal.call(self._client.list_tools).tools
        assert all(tool.description for tool in found)
        return {t.name: t.annotations.read_only_hint if t.annotations else None for t in found}


@contextmanager
def session(server: Any) -> Iterator[Session]:
    """Begin a session of a client with a server, which a command starts or which listens."""
    from mcp import Client  # noqa: PLC0415

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(server)) as client,
    ):
        yield Session(portal, client)


@pytest.fixture(scope="module")
def reading(examples: Path) -> Iterator[Session]:
    """Return a session with a server that only reads."""
    with session(over_stdio(examples)) as found:
        yield found


def test_an_agent_asks_whether_it_loops(reading: Session) -> None:
    """It finds its task, its loop, why it was stopped, and the gate that waits."""
    gate = json.loads(reading.ask("gates", status="open")[1])[0]
    tasks = json.loads(reading.ask("tasks")[1])["tasks"]
    task = gate["task"]
    assert task in [each["task"] for each in tasks]
    answers = [
        *(reading.ask(name, task=task) for name in ("loops", "why")),
        reading.ask("gate", gate_id=gate["id"][:6]),
    ]
    assert [failed for failed, _ in answers] == [False] * 3
    loops, why, shown = (json.loads(text) for _, text in answers)
    assert loops["status"] == "paused_for_intervention"
    rules = {rule for loop in loops["loops"] for rule in (loop["rule"], *loop["also"])}
    assert gate["rule"] in rules
    assert why["turns"]
    assert shown["event"]["gate"] == gate["id"]


def test_it_only_reads_unless_told(reading: Session, store_dir: Path) -> None:
    """A gate is resolved only where the person who starts it allows that."""
    assert reading.tools() == dict.fromkeys(READING, True)
    with session(over_stdio(store_dir, "--allow-resolve")) as server:
        assert server.tools() == {**dict.fromkeys(READING, True), "resolve": False}
        gate_id = json.loads(server.ask("gates", status="open")[1])[0]["id"]
        decision = {"gate_id": gate_id, "decision": "continue", "note": "Card 2."}
        (failed, text), (failed_again, why) = (server.ask("resolve", **decision) for _ in range(2))
    gate = json.loads(text)
    assert (failed, gate["decision"], gate["note"]) == (False, "continue", "Card 2.")
    assert gate["resolved_by"] == "an agent, over MCP"
    assert (failed_again, "is already resolved" in why) == (True, True)


def test_what_cannot_be_answered_is_said(reading: Session) -> None:
    """The agent reads one line, and the server goes on."""
    failed, text = reading.ask("loops", task="no such")
    assert failed
    assert text.endswith("the store has no task 'no such'; `tasks` lists those that it has")
    failed, text = reading.ask("gate", gate_id="zz")
    assert failed
    assert "there is no gate 'zz'" in text
    assert not reading.ask("tasks", search="[")[0]


def listens(port: int) -> bool:
    """Return whether a server takes connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def over_http(store_dir: Path, *options: str) -> Iterator[str]:
    """Serve a store over HTTP; yields the address."""
    (port,) = free_ports(1)
    process = subprocess.Popen([*COMMAND, str(store_dir), "--http-port", str(port), *options])
    try:
        until(lambda: listens(port))
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


def test_it_is_served_over_http_on_loopback(examples: Path) -> None:
    """The path is /mcp."""
    with over_http(examples) as url, session(url) as server:
        failed, text = server.ask("tasks", search="zz")
    assert (failed, json.loads(text)) == (False, {"tasks": [], "count": 0})


def test_over_http_it_asks_for_a_token_as_a_server_does(examples: Path, tmp_path: Path) -> None:
    """P18: other users of the machine, and pages in a browser, read nothing."""
    token = "a-token-of-20-letters"  # noqa: S105
    (tmp_path / "tokens").write_text(f"Ada {token}\n")
    about = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": about}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    known = {"authorization": f"Bearer {token}"}
    accepted = {"accept": "application/json, text/event-stream"}
    with (
        over_http(examples, "--token-file", str(tmp_path / "tokens")) as url,
        httpx.Client(trust_env=False, timeout=WAIT_S, headers=accepted) as client,
    ):
        statuses = [
            client.post(url, json=begin, headers=headers).status_code
            for headers in (
                {},
                {"authorization": "Bearer another-token-of-letters"},
                {**known, "host": "elsewhere.example"},
                {**known, "origin": "http://elsewhere.example"},
                known,
            )
        ]
    assert statuses == [401, 401, 403, 403, 200]
    (tmp_path / "tokens").write_text("short\n")
    options = ("--http-port", "1", "--token-file", tmp_path / "tokens")
    said = refused("mcp", "--store", examples, *options)
    assert "a token has fewer than 16 characters" in said


def test_a_folder_that_is_no_store_ends_it(tmp_path: Path) -> None:
    """Before a client has asked anything."""
    said = refused("mcp", "--store", tmp_path)
    assert "is not a store; check the path, or make one with `looptrace ingest`" in said
