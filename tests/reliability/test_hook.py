"""Hooks of coding agents, as the programs start them, against a server on loopback."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from examples.make_sessions import SESSIONS
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.coding_agents.claude_code import ClaudeCodeLog
from looptrace.collector.coding_agents.hook.doing import span_of
from looptrace.collector.coding_agents.hook.programs import HOOK_FILE
from tests.ports import free_ports
from tests.reliability.serving import Served, served, until

PROGRAMS = ["claude-code", "codex", "gemini-cli", "opencode"]
# A second, on a crowded machine.
MOMENT_S = 30.0
FAILED = "Exit code 1\n1 failed in 0.12s"
WARNS = "".join(
    f"[rules.{rule}]\nladder = [{{ attempts = 3, action = 'warn' }}]\n"
    for rule in ("repeated_call", "repeated_failure", "signature_repeat")
)
# What a process that has to start within milliseconds does not import.
HEAVY = {
    *("looptrace", "typing", "site", "http", "urllib", "hashlib", "ssl"),
    *("dataclasses", "pathlib"),
}


@dataclass
class Session:
    """A session of a program, whose hooks are called as the program calls them."""

    program: str
    server: str
    cache: Path
    fails: str = "open"
    environ: dict[str, str] = field(default_factory=dict)
    calls: int = 0

    def ask(self, event: str, **call: Any) -> dict[str, Any]:
        """Call the hook; returns its answer, {} for none."""
        done = self.run(event, json.dumps({"session_id": "s 1/ü", **call}).encode())
        assert (done.returncode, done.stderr) == (0, b"")
        return dict(json.loads(done.stdout or b"{}"))

    def run(self, event: str, given: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
        """Run the hook."""
        words = [*options, "-I", "-S", str(HOOK_FILE), self.program, event]
        return subprocess.run(
            [sys.executable, *words, self.server, self.fails],
            input=given,
            env={**os.environ, "XDG_CACHE_HOME": str(self.cache), **self.environ},
            capture_output=True,
            check=False,
        )

    def before(self) -> dict[str, Any]:
        """Ask whether the next call may be made."""
        self.calls += 1
        return self.ask("before", **self._call())

    def after(self) -> dict[str, Any]:
        """Tell how the call failed, in the form of the program."""
        response: dict[str, Any] = {"tool_response": FAILED}
        if self.program in ("claude-code", "opencode"):
            response = {"error": FAILED, "duration_ms": 3}
        elif self.program == "gemini-cli":
            text = f"<untrusted_context>\n{FAILED}\nProcess Group PGID: {self.calls}"
            response = {"tool_response": {"llmContent": text, "returnDisplay": FAILED}}
        return self.ask("after", **self._call(), **response)

    def _call(self) -> dict[str, Any]:
        own = {} if self.program == "gemini-cli" else {"tool_use_id": f"t{self.calls}"}
        return {"tool_name": "Bash", "tool_input": {"command": "pytest -q"}, **own}


def fail_until_gate(server: Served, session: Session) -> None:
    """Make the same failing call until a gate is open."""
    for _ in range(6):
        if session.before():  # The gate opened a moment after the rules had seen the call.
            break
        fail(server, session)
        if server.gates("status=open"):
            break
    assert server.gates("status=open")


def fail(server: Served, session: Session) -> dict[str, Any]:
    """Let a call fail, and wait until the rules have run on it; returns the hook's answer."""
    count = server.number("looptrace_detection_spans_total")
    answer = session.after()
    until(lambda: server.number("looptrace_detection_spans_total") > count)
    return answer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve for the tests that need no settings."""
    with served(tmp_path_factory.mktemp("served") / "store") as server:
        yield server


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_session_is_stopped_at_a_gate_until_a_person_decides(
    program: str, server: Served, tmp_path: Path
) -> None:
    """The model reads the directive in the place of the call."""
    session = Session(program, f"http://{server.address}", tmp_path)
    assert session.ask("start", source="startup") == {}
    assert session.ask("prompt", prompt="Fix the tests.") == {}
    fail_until_gate(server, session)

    told = json.dumps(refused := session.before())
    assert "A person has to decide" in told
    assert ("continue" in refused) == (program != "codex")  # Codex refuses it here.
    if program == "claude-code":
        assert session.ask("batch", tool_calls=[])["continue"] is False
    (gate,) = server.gates("status=open")
    assert gate["id"] in session.ask("stop")["systemMessage"]
    assert session.before() == refused

    server.resolve(gate["id"], "continue", note="Pin the seed.")
    until(lambda: not server.gates("status=open"))
    said = session.before() or session.after()
    assert "Pin the seed." in said["hookSpecificOutput"]["additionalContext"]
    assert session.before() == {}


def test_what_a_person_writes_opens_the_way(server: Served, tmp_path: Path) -> None:
    """As it does in the log of a session."""
    session = Session("claude-code", f"http://{server.address}/", tmp_path)
    session.server = f"http://{server.address}"
    session.ask = lambda event, _ask=session.ask, **call: _ask(  # type: ignore[method-assign]
        event, **{**call, "session_id": "written"}
    )
    fail_until_gate(server, session)
    refused = session.before()
    count = server.number("looptrace_receiver_spans_total")
    session.ask("prompt", prompt="<task-notification>The command has ended.</task-notification>")
    assert server.number("looptrace_receiver_spans_total") == count > 0
    assert session.before() == refused != {}
    session.ask("prompt", prompt="The test is wrong, change it.", prompt_id="p1")
    until(lambda: not session.before())


@pytest.mark.parametrize(("program", "event"), [("codex", "before"), ("gemini-cli", "after")])
def test_a_warning_is_told_once_and_the_call_is_made(
    program: str, event: str, tmp_path: Path
) -> None:
    """Gemini CLI has room for it only after a call."""
    with served(tmp_path / "store", config=WARNS) as server:
        session = Session(program, f"http://{server.address}", tmp_path)
        assert session.ask("start") == {}
        told: list[dict[str, Any]] = []
        for _ in range(5):
            said = session.before()
            told += [said] if event == "before" else []
            said = fail(server, session)
            told += [said] if event == "after" else []
    words = [each["hookSpecificOutput"]["additionalContext"] for each in told if each]
    assert len(words) == 1
    assert words[0].count("the same thing 3 times") == 1


@pytest.mark.parametrize("program", PROGRAMS)
def test_without_a_server_calls_are_made_or_not_as_set(program: str, tmp_path: Path) -> None:
    """P10: a person is told, once for each prompt."""
    (port,) = free_ports(1)  # Nobody listens there now.
    session = Session(program, f"http://127.0.0.1:{port}", tmp_path)
    assert session.before() == session.after() == session.ask("start") == {}
    assert "nothing stops a loop" in session.ask("prompt", prompt="Go.")["systemMessage"]

    session.fails = "closed"
    assert "does not say whether" in json.dumps(session.before())
    assert session.after() == {}
    assert "no tool is called" in session.ask("prompt", prompt="Go.")["systemMessage"]


ANSWERS = [
    b"",
    b"SSH-2\n",
    b"\xff" * 5_000,
    b"HTTP/1.1 500 No\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n:",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: {}\n\r\n9\r\nabc",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nc\r\ndata: []\n\n:\n\r\n0\r\n\r\n",
]


def test_a_server_that_hangs_or_is_none_costs_a_moment(tmp_path: Path) -> None:
    """P10: a call waits a second, however little a server sends at a time; all wait at once."""

    def asked(case: tuple[bytes, bool]) -> tuple[str, float]:
        answer, drips = case
        with hanging(answer, drips=drips) as port:
            cache = tmp_path / str(port)
            session = Session("claude-code", f"http://127.0.0.1:{port}", cache, "closed")
            began_s = time.monotonic()
            return json.dumps(session.before()), time.monotonic() - began_s

    cases = list(product(ANSWERS, (False, True)))
    with ThreadPoolExecutor(len(cases)) as pool:
        for case, (said, took_s) in zip(cases, pool.map(asked, cases), strict=True):
            assert "does not say whether" in said, case
            assert took_s < MOMENT_S, case


def test_a_server_with_tokens_is_asked_with_one(tmp_path: Path) -> None:
    """It comes from the environment, as for the other clients."""
    tokens = tmp_path / "tokens"
    tokens.write_text("a-long-enough-token\n", encoding="utf-8")
    with served(tmp_path / "store", "--token-file", str(tokens)) as server:
        session = Session("claude-code", f"http://{server.address}", tmp_path, "closed")
        assert "401" in json.dumps(session.before())
        session.environ = {"LOOPTRACE_TOKEN": "a-long-enough-token"}
        assert session.before() == {}


def test_a_server_with_tls_is_asked(certificates: Path, tmp_path: Path) -> None:
    """Its authority is the one that OpenTelemetry's exporters are given."""
    cert, key = (str(certificates / f"server.{kind}") for kind in ("pem", "key"))
    with served(tmp_path / "store", "--tls-cert", cert, "--tls-key", key) as server:
        session = Session("claude-code", f"https://{server.address}", tmp_path, "closed")
        assert "certificate" in json.dumps(session.before())
        session.environ = {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(certificates / "ca.pem")}
        assert session.before() == session.after() == {}


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"session_id": ["a"]}',
        b'{"session_id": ""}',
        b'{"session_id": "' + b"x" * 2_000 + b'"}',
        b"[" * 100_000,
        b'{"session_id": "a"',
    ],
    ids=range(9),
)
def test_what_is_no_call_is_said_and_follows_the_setting(given: bytes, tmp_path: Path) -> None:
    """P10: exit code 1 blocks nothing in any of the programs."""
    session = Session("claude-code", "http://127.0.0.1:9", tmp_path)
    done = session.run("before", given)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"looptrace: the hook was not called as expected")
    assert b"Traceback" not in done.stderr
    assert session.run("stop", given).returncode == 1

    session.fails = "closed"
    done = session.run("before", given)
    assert done.returncode == 0
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert session.run("stop", given).stdout == b""  # There it would make the agent go on.


def test_hostile_calls_become_turns(server: Served, tmp_path: Path) -> None:
    """Whatever a tool gets and returns, the request is one that the server takes."""
    session = Session("claude-code", f"http://{server.address}", tmp_path)
    before = server.number("looptrace_detection_spans_total")
    hostile: list[dict[str, Any]] = [
        {"tool_name": {"a": 1}, "tool_input": "\ud800", "tool_response": None},
        {"tool_name": "\x1b[31m", "tool_input": [float("nan")], "tool_response": ["\udfff"]},
        {"tool_name": "Read", "tool_input": {}, "tool_response": {"content": "x" * 3_000_000}},
        {"tool_name": "Bash", "duration_ms": float("nan"), "tool_use_id": 7, "error": {}},
        {"tool_name": "Bash", "duration_ms": -1e300, "agent_id": "\0", "is_interrupt": True},
    ]
    for call in hostile:
        assert session.run("after", json.dumps({"session_id": "h", **call}).encode()).stdout == b""
    assert session.ask("prompt", prompt=[{"type": "text", "text": "Go on."}, None, 7]) == {}
    count = before + len(hostile) + 1
    until(lambda: server.number("looptrace_detection_spans_total") == count)


def test_a_hook_imports_little(tmp_path: Path) -> None:
    """Each call of a tool waits for it."""
    session = Session("claude-code", "http://127.0.0.1:9", tmp_path)
    done = session.run("after", b'{"session_id": "a"}', "-X", "importtime")
    names = {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()}
    assert {"asking", "doing", "json"} <= names
    assert not {name.partition(".")[0] for name in names} & HEAVY


def test_a_call_has_the_id_that_the_reader_of_the_log_gives_it() -> None:
    """Reading the log of a session into the store of the server adds no call twice."""
    log = ClaudeCodeLog()
    lines = (SESSIONS / "claude_code_loop.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for line in lines for row in log.read(json.loads(line))]
    named = [dict(zip(SPAN_SCHEMA, row, strict=True)) for row in rows]
    fields = next(row for row in named if str(row["name"]).startswith("execute_tool"))
    attributes = json.loads(str(fields["attributes"]))
    call = {
        "session_id": attributes["gen_ai.conversation.id"],
        "tool_name": str(fields["name"]).removeprefix("execute_tool "),
        "tool_use_id": attributes["gen_ai.tool.call.id"],
    }
    span = span_of("claude-code", call, 1, is_prompt=False)["scopeSpans"][0]["spans"][0]
    assert (span["traceId"], span["spanId"]) == (fields["trace_id"], fields["span_id"])


@contextmanager
def hanging(answer: bytes, *, drips: bool) -> Iterator[int]:
    """Listen, say something at once or byte by byte, and then nothing."""
    is_over = threading.Event()
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def answering() -> None:
            connection, _ = listener.accept()
            with closing(connection), suppress(OSError):  # The hook may be gone.
                size = 1 if drips else len(answer) or 1
                for at in range(0, len(answer), size):
                    if is_over.wait(0.1 if drips else 0):
                        return
                    connection.sendall(answer[at : at + size])
                is_over.wait()

        thread = threading.Thread(target=answering, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        is_over.set()
    thread.join()
