"""`looptrace mcp`, asked by the client of the official SDK, over stdio and over HTTP."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp import Client, StdioServerParameters

from looptrace.analyzer.settings.sections import default
from looptrace.collector.files.reader import read_spans
from looptrace.collector.store.writer import ingest
from tests.paths import ROOT

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
    arguments = [*COMMAND[1:], str(store_dir), *options]
    return StdioServerParameters(command=COMMAND[0], args=arguments)


def asked(server: Any, *calls: tuple[str, dict[str, Any]]) -> list[tuple[bool, str]]:
    """Call tools one after the other; return whether each failed, and its text."""
    answers: list[tuple[bool, str]] = []

    async def ask() -> None:
        async with Client(server) as client:
            for name, arguments in calls:
                result = await client.call_tool(name, arguments)
                answers.append((bool(result.is_error), result.content[0].text))  # type: ignore[union-attr] # Each answers in text.

    anyio.run(ask)
    return answers


def tools(server: Any) -> dict[str, bool | None]:
    """Return the tools by name, and whether each is read-only."""
    found: dict[str, bool | None] = {}

    async def ask() -> None:
        async with Client(server) as client:
            for tool in (await client.list_tools()).tools:
                assert tool.description
                found[tool.name] = tool.annotations.read_only_hint if tool.annotations else None

    anyio.run(ask)
    return found


def test_an_agent_asks_whether_it_loops(store_dir: Path) -> None:
    """It finds its task, its loop, why it was stopped, and the gate that waits."""
    server = over_stdio(store_dir)
    (_, gates), (_, tasks) = asked(server, ("gates", {"status": "open"}), ("tasks", {}))
    gate = json.loads(gates)[0]
    assert gate["task"] in [task["task"] for task in json.loads(tasks)["tasks"]]
    about = {"task": gate["task"]}
    answers = asked(server, ("loops", about), ("why", about), ("gate", {"gate_id": gate["id"][:6]}))
    assert [failed for failed, _ in answers] == [False] * 3
    loops, why, shown = (json.loads(text) for _, text in answers)
    assert loops["status"] == "paused_for_intervention"
    rules = {rule for loop in loops["loops"] for rule in (loop["rule"], *loop["also"])}
    assert gate["rule"] in rules
    assert why["turns"]
    assert shown["event"]["gate"] == gate["id"]


def test_it_only_reads_unless_told(store_dir: Path) -> None:
    """A gate is resolved only where the person who starts it allows that."""
    assert tools(over_stdio(store_dir)) == dict.fromkeys(READING, True)
    server = over_stdio(store_dir, "--allow-resolve")
    assert tools(server) == {**dict.fromkeys(READING, True), "resolve": False}
    ((_, gates),) = asked(server, ("gates", {"status": "open"}))
    decision = {"gate_id": json.loads(gates)[0]["id"], "decision": "continue", "note": "Card 2."}
    (failed, text), (failed_again, why) = asked(
        server, ("resolve", decision), ("resolve", decision)
    )
    gate = json.loads(text)
    assert (failed, gate["decision"], gate["note"]) == (False, "continue", "Card 2.")
    assert gate["resolved_by"] == "an agent, over MCP"
    assert (failed_again, "is already resolved" in why) == (True, True)


def test_what_cannot_be_answered_is_said(store_dir: Path) -> None:
    """The agent reads one line, and the server goes on."""
    (failed, text), (failed_gate, gate_text), (fine, _) = asked(
        over_stdio(store_dir),
        ("loops", {"task": "no such"}),
        ("gate", {"gate_id": "zz"}),
        ("tasks", {"search": "["}),
    )
    assert failed
    assert text.endswith("the store has no task 'no such'; `tasks` lists those that it has")
    assert failed_gate
    assert "there is no gate 'zz'" in gate_text
    assert not fine


@contextmanager
def over_http(store_dir: Path, *options: str) -> Iterator[str]:
    """Serve a store over HTTP; yields the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([*COMMAND, str(store_dir), "--http-port", str(port), *options])
    try:
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


def test_it_is_served_over_http_on_loopback(store_dir: Path) -> None:
    """The path is /mcp."""
    with over_http(store_dir) as url:
        ((failed, text),) = asked(url, ("tasks", {"search": "zz"}))
    assert (failed, json.loads(text)) == (False, {"tasks": [], "count": 0})


def test_over_http_it_asks_for_a_token_as_a_server_does(store_dir: Path, tmp_path: Path) -> None:
    """P18: other users of the machine, and pages in a browser, read nothing."""
    token = "a-token-of-20-letters"  # noqa: S105
    (tmp_path / "tokens").write_text(f"Ada {token}\n")
    begin = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-03-26",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    known = {"authorization": f"Bearer {token}"}
    with (
        over_http(store_dir, "--token-file", str(tmp_path / "tokens")) as url,
        httpx.Client(
            trust_env=False,
            timeout=WAIT_S,
            headers={"accept": "application/json, text/event-stream"},
        ) as client,
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
    refused = subprocess.run(
        [*COMMAND, str(store_dir), "--http-port", "1", "--token-file", str(tmp_path / "tokens")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert "a token has fewer than 16 characters" in refused.stderr


def test_a_folder_that_is_no_store_ends_it(tmp_path: Path) -> None:
    """Before a client has asked anything."""
    done = subprocess.run([*COMMAND, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not a store; make one with `looptrace ingest`" in done.stderr
