"""A server from outside: spans in, gates out, decisions in, and what a restart makes of it."""

import http.client
import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from looptrace.analyzer.gates.notice import GateNotice
from looptrace.collector import GateOpenError, LoopSpanProcessor
from looptrace.collector.sdk.gate_stream import GateStream, Server
from looptrace.collector.sdk.server_watch import ServerWatch
from looptrace.collector.store import reader
from tests.collector.server.test_catch_up import told_twice
from tests.commands import printed, refused, run
from tests.otlp import Trace, tool_call
from tests.reliability.forked import Forked
from tests.reliability.receivers import running
from tests.reliability.serving import OK, Served, looping, served, until

requirement = pytest.mark.requirement


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    """Serve an empty store."""
    with served(tmp_path / "store") as found:
        yield found


@requirement("D4")
def test_a_loop_opens_a_gate_that_a_person_resolves(server: Served) -> None:
    """Over HTTP and by the command line alike."""
    assert server.send(looping("s1", 6).request()) == OK
    (gate,) = until(server.gates)
    assert (gate["task"], gate["status"]) == ("s1", "open")

    status, shown = server.ask("GET", f"/v1/gates/{gate['id']}")
    assert status == OK
    assert shown["report"]["iterations"][0]["label"].startswith("run_tests(")
    url = f"http://{server.address}"
    assert gate["id"] in run("gates", "list", "--server", url).stdout
    assert "failures before it" in run("gates", "show", "--server", url, gate["id"][:6]).stdout

    words = ("--decision", "reviewed", "--note", "Go on.", "--by", "Ada")
    decided = printed("gates", "resolve", "--server", url, gate["id"][:6], *words)
    assert "An agent that waits receives it now." in decided
    (resolved,) = until(lambda: server.gates("status=resolved"))
    assert (resolved["decision"], resolved["note"]) == ("reviewed", "Go on.")
    assert resolved["resolved_by"] == "Ada"
    assert "resolved by" in run("gates", "show", "--server", url, gate["id"]).stdout
    again = refused("gates", "resolve", "--server", url, gate["id"], "--decision", "cancel")
    assert "is already resolved, by reviewed" in again
    # An analysis of the store beside the server sees it, too, although no further span came.
    until(lambda: "reviewed" in reader.read_turns_of(server.store_dir, "s1")["name"].to_list())


def test_metrics_of_a_server_are_those_of_its_store(server: Served) -> None:
    """They are also for people without a shell on the machine of the store."""
    assert server.send(looping("s1", 6).request()) == OK
    until(server.gates)
    asked = printed("gates", "metrics", "--server", f"http://{server.address}", "--format", "json")
    assert json.loads(asked)["gates_open"] == 1
    stored = run("gates", "metrics", "--store", server.store_dir, "--format", "json")
    assert asked == stored.stdout


def test_tasks_are_listed_those_that_wait_first(server: Served) -> None:
    """The list shows at once which agent waits for a person, and the id for requests."""
    for trace in (looping("stuck/1", 6), looping("fine", 1, at="2026-03-03T09:00:00+00:00")):
        assert server.send(trace.request()) == OK
    until(server.gates)
    listed = until(lambda: (found := server.ask("GET", "/v1/tasks")[1])["total"] == 2 and found)
    assert [task["task"] for task in listed["tasks"]] == ["stuck/1", "fine"]
    stuck, fine = listed["tasks"]
    assert (stuck["status"], fine["status"]) == ("paused_for_intervention", "active")
    assert fine["last_turn"].startswith("2026-03-03T09:00:")
    for task in listed["tasks"]:
        shown = server.ask("GET", f"/v1/tasks/{task['task']}")[1]
        same = shown.keys() & task.keys()
        assert {name: shown[name] for name in same} == {name: task[name] for name in same}


@requirement("B8")
def test_a_task_says_how_far_it_has_come(server: Served) -> None:
    """Attempts and the last of them, with what blocked it."""
    trace = Trace("s1")
    for status in ("in_progress", "blocked"):
        said = {"looptrace.task.id": "build", "looptrace.task.status": status}
        trace.span("attempt", attributes={**said, "looptrace.blockers": '["no key"]'})
    assert server.send(trace.request()) == OK

    def attempts() -> Any:
        status, task = server.ask("GET", "/v1/tasks/build")
        return task if status == OK and task["attempts"] == 2 else None

    task = until(attempts)
    assert task["last_status"] == "blocked"
    assert task["last_attempt"] == "2026-03-02T09:00:02.000+00:00"
    assert server.ask("GET", "/v1/tasks/none")[0] == 404


def test_what_cannot_be_is_refused_with_a_sentence(server: Served) -> None:
    """Whatever is asked wrongly says what is wrong."""
    for method, path, body, status, says in (
        ("GET", "/v1/gates?status=shut", None, 400, "status must be one of"),
        ("GET", "/v1/gates/nope", None, 404, "there is no gate 'nope'"),
        ("POST", "/v1/gates/nope/resolve", b"{}", 400, "decision"),
        ("POST", "/v1/gates/nope/resolve", b"\xff", 400, "the body must be like"),
        ("POST", "/v1/gates/nope/resolve", b'{"decision":"continue"}', 404, "no gate"),
        ("POST", "/v1/gates/nope/resolve", b" " * 70_000, 400, "more than"),
        ("GET", "/v1/gate", None, 404, "GET /v1/gate: there is none"),
        ("GET", "/v1/gates/..%2F%00", None, 404, "there is none"),
        ("DELETE", "/v1/gates", None, 405, "DELETE /v1/gates"),
        ("GET", "/v1/gates/" + "a" * 9_000, None, 404, "there is no gate"),
    ):
        answered, answer = server.ask(method, path, body)
        assert (answered, says in answer["error"]) == (status, True), (path, answer)
        assert len(answer["error"]) < 600
    for last in ("9" * 30, "-1", "a"):
        connection = http.client.HTTPConnection(server.address, timeout=30)
        connection.request("GET", "/v1/gates/stream", headers={"Last-Event-ID": last})
        assert connection.getresponse().status == 400
        connection.close()


@requirement("F1")
def test_an_agent_is_stopped_and_goes_on_by_a_persons_word(server: Served) -> None:
    """The processor forwards; the gate comes back, and so does its resolution."""
    processor = LoopSpanProcessor.forward(f"http://{server.address}")
    provider = TracerProvider()
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("agent")
    gate = processor.gate("s1")
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "s1"}
    tool = tool_call("run_tests")
    failed = {"gen_ai.tool.call.arguments": "{}", "gen_ai.tool.call.result": "Error: no database"}

    def work() -> None:
        for _ in range(500):
            with tracer.start_as_current_span("execute_tool", attributes=tool | failed):
                time.sleep(0.02)
            gate.raise_if_open()

    with (
        tracer.start_as_current_span("invoke_agent", attributes=agent) as span,
        pytest.raises(GateOpenError, match=r"Work on task .* stops here"),
    ):
        work()
    assert any(event.name == "looptrace.gate" for event in span.events)  # type: ignore[attr-defined]
    gate.resolve("continue", "The tests need a database.")
    until(lambda: not gate.check().open)
    provider.shutdown()


STUCK_AGENT = """
import sys, time
from opentelemetry.sdk.trace import TracerProvider
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.cli.main import main
from looptrace.collector import GateOpenError, LoopSpanProcessor
from looptrace.collector.sdk.gate_stream import GateStream, Server

processor = LoopSpanProcessor.forward(sys.argv[1])
provider = TracerProvider()
tracer = processor.use(provider) and provider.get_tracer("agent")
agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "s1"}
tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "run_tests"}
failed = {"gen_ai.tool.call.arguments": "{}", "gen_ai.tool.call.result": "Error: no database"}
steps, gate = 0, processor.gate("s1")
try:
    with tracer.start_as_current_span("invoke_agent", attributes=agent):
        while steps < 500:
            gate.raise_if_open()
            with tracer.start_as_current_span("execute_tool", attributes=tool | failed):
                time.sleep(0.02)
            steps += 1
except GateOpenError as error:
    print(steps, error)
provider.shutdown()
"""


@requirement("F1")
def test_an_agent_that_is_started_anew_does_no_step(server: Served) -> None:
    """Its gate is open, and its process has never seen the trace that opened it."""
    command = [sys.executable, "-c", STUCK_AGENT, f"http://{server.address}"]
    steps = []
    for _ in range(3):
        agent = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        steps.append(int(agent.stdout.split()[0]))

    assert steps[0] > 0
    assert steps[1:] == [0, 0]


def named_last(session: str, **names: str) -> tuple[Trace, list[dict[str, Any]], dict[str, Any]]:
    """Return a trace of a loop, its calls, and the agent's own span, which alone has names."""
    began = datetime.now(UTC) - timedelta(minutes=1)
    trace = Trace(session, session_key=None, at=began.isoformat())
    agent = {f"gen_ai.{name}": value for name, value in names.items()}
    root = trace.span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"} | agent)
    failed = {"error.type": "TestError", "gen_ai.tool.call.result": "Error: 1 failed"}
    for _ in range(6):
        trace.span("execute_tool run_tests", root, tool_call("run_tests") | failed)
    *calls, last = trace.requests()
    return trace, calls, last


@pytest.mark.parametrize("decided", [True, False])
def test_a_name_that_comes_last_opens_no_second_gate(tmp_path: Path, *, decided: bool) -> None:
    """Only the agent's own span names its session, and it ends after the gate has opened.

    After a restart the store says the name, of the same gate, with what a person decided.
    """
    names = {"agent.name": "fixer", "conversation.id": "talk"}
    trace, calls, last = named_last("s1", **names)
    with served(tmp_path) as server:
        for request in calls:
            assert server.send(request) == OK
        (gate,) = until(server.gates)
        assert gate["task"] == trace.trace_id
        if decided:
            server.resolve(gate["id"], "continue")
            until(lambda: server.gates("status=resolved"))
        assert server.send(last) == OK
    with served(tmp_path) as server:
        until(server.is_ready)
        (renamed,) = until(server.gates)
        with reader.open_gates(tmp_path) as known:
            told = [event.type for _, event in known.events()]

    assert renamed["id"] == gate["id"]
    assert (renamed["task"], renamed["agent"]) == ("talk", "fixer")
    assert renamed["status"] == ("resolved" if decided else "open")
    ends = ["gate_resolved", "counter_reset"] if decided else []
    assert told == ["gate_opened", *ends, "gate_renamed"]


def test_two_that_loop_in_one_session_named_last_are_told_of(tmp_path: Path) -> None:
    """Both gates opened under their traces; one of them goes, and its end reaches who follows."""
    traces = [named_last(name, **{"conversation.id": "talk"}) for name in ("s1", "s2")]
    said: list[GateNotice] = []
    with served(tmp_path) as server:
        stream = GateStream(
            Server(f"http://{server.address}"), said.append, ServerWatch(fail_closed=False)
        )
        stream.follow(traces=[trace.trace_id for trace, _, _ in traces])
        assert all(server.send(call) == OK for _, calls, _ in traces for call in calls)
        until(lambda: len(server.gates("status=open")) == 2)
        assert all(server.send(last) == OK for _, _, last in traces)
        until(lambda: [each.decision for each in said if each.type == "gate_resolved"])
        stream.close()
        assert {each["status"] for each in server.gates()} == {"open", "withdrawn"}
        assert server.number("looptrace_detection_failed_total") == 0


def test_a_restart_tells_nothing_twice_and_forgets_nothing(tmp_path: Path) -> None:
    """P3, P4: killed again and again while spans come in any order, the gates are the same."""
    now = "2026-03-02T09:00:00+00:00"
    requests = [r for s in ("s1", "s2", "s3") for r in looping(s, 9, at=now).requests()]
    random.Random(3).shuffle(requests)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    with served(whole) as server:
        for request in requests:
            assert server.send(request) == OK
        # Gates may open that more spans withdraw.
        until(lambda: server.number("looptrace_detection_spans_total") == len(requests))
        until(lambda: len(server.gates("status=open")) == 3)
    for start in range(0, len(requests), 7):
        server = Served(killed)
        for request in requests[start : start + 7]:
            assert server.send(request) == OK
        server.kill()
    with served(killed) as server:
        until(server.is_ready)
        until(lambda: len(server.gates("status=open")) == 3)
    told = {}
    for folder in (whole, killed):
        with reader.open_gates(folder) as known:
            # The id is that of the opening that was told first, which may know fewer spans.
            told[folder] = {(gate.task, gate.loop_count) for gate in known.gates("open")}
        assert told_twice(folder) == Counter()
    assert told[whole] == told[killed]
    assert len(told[whole]) == 3


def test_a_restart_knows_what_was_decided(tmp_path: Path) -> None:
    """P1: also where no later span made the server store the task again."""
    now = datetime.now(UTC)
    first = looping("s1", 6, at=(now - timedelta(minutes=5)).isoformat()).request()
    with served(tmp_path) as server:
        assert server.send(first) == OK
        (gate,) = until(server.gates)
        until(lambda: server.ask("GET", "/v1/tasks/s1")[1].get("turns") == 6)
        server.resolve(gate["id"], "continue")
        until(lambda: server.gates("status=resolved"))
    # However long the server took to start, these come after the decision.
    later = looping("s1", 6, at=datetime.now(UTC).isoformat()).request()
    (trace_id,) = set(re.findall(r'"traceId": "(\w+)"', json.dumps(later)))
    with served(tmp_path) as server:
        assert server.send(json.dumps(later).replace(trace_id, "ab" * 16).encode()) == OK
        until(lambda: len(server.gates()) == 2)
        assert [found["status"] for found in server.gates()] == ["open", "resolved"]


def test_the_stream_begins_with_open_gates_and_goes_on_after_a_number(server: Served) -> None:
    """A restarted agent gets its gate, and one that was away gets the events that it missed."""
    assert server.send(looping("s1", 6).request()) == OK
    until(server.gates)
    first, opened = _next_event(server, {})
    assert json.loads(opened)["type"] == "gate_opened"
    assert server.send(looping("s2", 6).request()) == OK
    number, missed = _next_event(server, {"Last-Event-ID": first})
    assert int(number) > int(first)
    assert json.loads(missed)["task"] == "s2"


def _next_event(server: Served, headers: dict[str, str]) -> tuple[str, str]:
    connection = http.client.HTTPConnection(server.address, timeout=30)
    connection.request("GET", "/v1/gates/stream", headers=headers)
    answer = connection.getresponse()
    found: dict[str, str] = {}
    while "data" not in found:
        name, _, value = answer.readline().decode().strip().partition(": ")
        found[name] = value
    connection.close()
    return found["id"], found["data"]


def test_gates_are_watched_until_the_server_ends(tmp_path: Path) -> None:
    """`looptrace watch` prints the open gates, and later events."""
    with served(tmp_path / "store") as server:
        assert server.send(looping("s1", 6).request()) == OK
        until(server.gates)
        url = f"http://{server.address}"
        watch = Forked(["watch", "--server", url])
        assert watch.stdout.readline().startswith("gate opened: task s1, ")
        assert server.send(looping("s2", 6).request()) == OK
        until(lambda: len(server.gates()) == 2)
        server.stop()
        rest = watch.rest()
    assert "gate opened: task s2, " in rest


def test_gates_go_back_into_the_agents_trace(tmp_path: Path) -> None:
    """What the server decides is a span that a tracing system shows beside the agent's own."""
    trace = looping("s1", 6)
    with running() as tracing, served(tmp_path / "store", "--export-to", tracing.http) as server:
        assert server.send(trace.request()) == OK
        until(lambda: "looptrace.gate" in tracing.sink.names)
        spans = tracing.sink.spans.filter(name="looptrace.gate")
    assert set(spans["trace_id"]) == {trace.trace_id}


def test_a_wrong_start_is_one_clear_line(tmp_path: Path, server: Served) -> None:
    """A folder of something else, a store that is served, and a port that is taken."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    port = server.address.rpartition(":")[2]
    no_pem = str(other / "thesis.txt")
    for arguments, says in (
        (["--store", str(other), "--http-port", "0"], "is not a store"),
        (["--store", str(server.store_dir), "--http-port", "0"], "is using this store"),
        (["--store", str(tmp_path / "new"), "--http-port", port], "Address already in use"),
        (
            ["--store", str(tmp_path / "new"), "--http-port", "0", "--grpc-port", port],
            f"port {port} of 127.0.0.1 cannot be opened (Address already in use); see --host and "
            "--grpc-port.",
        ),
        (["--store", str(tmp_path / "new"), "--tls-cert", no_pem, "--tls-key", no_pem], "PEM"),
    ):
        ended = refused("serve", "--grpc-port", "0", *arguments)
        assert says in ended
        assert len(ended.splitlines()) == 1
    assert [path.name for path in other.iterdir()] == ["thesis.txt"]
