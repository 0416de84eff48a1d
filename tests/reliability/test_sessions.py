"""P30: a session belongs to its service, for people, agents and stores of earlier versions."""

import http.client
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.policy import DEFAULT
from looptrace.analyzer.fingerprint.equivalence import Sameness, Sessions
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.collector.files.reader import read_spans
from looptrace.collector.sdk.gate_stream import Server
from looptrace.collector.server.asked_tasks import asked_of, tasks_of
from looptrace.collector.store import reader, writer
from tests.collector.store.stored import call, looping, spans_of
from tests.otlp import Trace
from tests.reliability.serving import OK, served, until
from tests.reliability.serving import looping as failing

EARLIER = replace(DEFAULT, sameness=Sameness(sessions=Sessions(join_services=True)))
CONFLICT = 409


def of(service: str, name: str = "", calls: int = 5) -> Trace:
    """Return a looping trace of session 1 of a service."""
    trace = Trace("1", service=service, name=f"{service}{name}")
    for _ in range(calls):
        call(trace)
    return trace


def asking(first: str, second: str) -> list[Trace]:
    """Return one trace in which two services name session 1, with a span each."""
    traces = [Trace("1", service=service, name="shared") for service in (first, second)]
    call(traces[0])
    # Ids of spans go by their number in the trace: the second service's is the second.
    left_out = call(traces[1])
    call(traces[1], n=7, tool="answer")
    del traces[1]._spans[left_out]
    return traces


def test_a_decision_of_one_service_touches_no_other(tmp_path: Path) -> None:
    """P30: however the two are asked for, also after a restart."""
    store = tmp_path / "store"
    with served(store, "--no-grpc") as server:
        url = f"http://{server.address}"
        until(server.is_ready)
        for service in ("shop", "desk"):
            assert server.send(of(service).request()) == OK
        until(lambda: len(server.gates("status=open")) == 2)

        status, answer = server.ask("GET", "/v1/gates?task=1")
        assert (status, "1@desk, 1@shop" in answer["error"]) == (CONFLICT, True)
        assert server.ask("GET", "/v1/gates/stream?task=1")[0] == CONFLICT
        assert server.ask("GET", "/v1/tasks/1")[0] == CONFLICT
        with pytest.raises(OSError, match="1@desk, 1@shop"):
            Server(url).open_gates("1", None, 5)

        (gate,) = server.gates("status=open&task=1&service=shop")
        assert gate["task"] == "1@shop"
        assert (
            server.ask("GET", "/v1/tasks/1?service=shop")[1]["status"] == "paused_for_intervention"
        )
        server.resolve(gate["id"], "continue")
        until(lambda: not server.gates("status=open&task=1&service=shop"))
    with served(store, "--no-grpc") as server:
        until(server.is_ready)
        assert [gate["task"] for gate in server.gates("status=open")] == ["1@desk"]
        assert not Server(f"http://{server.address}").open_gates("1", "shop", 5)
        (notice,) = Server(f"http://{server.address}").open_gates("1", "desk", 5)
        assert notice.task == "1@desk"


def test_a_stream_by_a_session_alone_ends_with_a_second_service(tmp_path: Path) -> None:
    """P30: a request without a service gets no gate of another one, but the hint to name it."""
    with served(tmp_path / "store", "--no-grpc") as server:
        until(server.is_ready)
        connection = http.client.HTTPConnection(server.address, timeout=20)
        with closing(connection):
            connection.request("GET", "/v1/gates/stream?task=1")
            lines = connection.getresponse()
            assert server.send(of("shop").request()) == OK
            told: list[bytes] = []
            while not any(b"gate_opened" in line for line in told):
                told.append(lines.readline())
            assert server.send(of("desk").request()) == OK
            told += lines.readlines()
        assert b"1@shop" in b"".join(told)
        assert b"1@desk" not in b"".join(told)
        assert server.ask("GET", "/v1/gates/stream?task=1")[0] == CONFLICT


def test_services_that_shared_a_trace_share_the_gate_after_a_restart(tmp_path: Path) -> None:
    """P30: a later trace of one of them is of the same task, and either is stopped."""
    store = tmp_path / "store"
    with served(store, "--no-grpc") as server:
        until(server.is_ready)
        for trace in asking("desk", "shop"):
            assert server.send(trace.request()) == OK
        until(lambda: server.ask("GET", "/v1/tasks/1")[1].get("task") == "1@desk")
    with served(store, "--no-grpc") as server:
        until(server.is_ready)
        assert server.send(of("shop", "later").request()) == OK
        (gate,) = until(lambda: server.gates("status=open"))
        assert gate["task"] == "1@desk"
        for service in ("shop", "desk"):
            (notice,) = Server(f"http://{server.address}").open_gates("1", service, 5)
            assert (notice.task, notice.names) == ("1@desk", ("1@shop",))
        assert server.gates("status=open&task=1") == [gate]


def test_a_store_of_an_earlier_version_keeps_its_gates(tmp_path: Path) -> None:
    """P30: such stores joined the sessions of all services; an ingest separates them."""
    spans = spans_of(of("shop"), of("desk", calls=2), looping("2", service="mail"))
    writer.ingest(spans, tmp_path, EARLIER)
    with reader.open_gates(tmp_path) as store:
        before = {gate.task: gate.id for gate in store.gates("open")}
        store.resolve(before["2"], "cancel", "Enough.")
    assert set(before) == {"1", "2"}

    writer.ingest(spans.clear(), tmp_path)
    with reader.open_gates(tmp_path) as store:
        (still_open,) = store.gates("open")
        (resolved,) = store.gates("resolved")
    assert (still_open.id, still_open.task) == (before["1"], "1@shop")
    assert (resolved.id, resolved.task, resolved.note) == (before["2"], "2@mail", "Enough.")
    turns = pl.concat(reader.read_turns(tmp_path))
    assert set(turns["task"]) == {"1@shop", "1@desk", "2@mail"}


def test_a_batch_names_the_tasks_that_services_share(tmp_path: Path) -> None:
    """P30: a store without a server is asked the same way."""
    writer.ingest(spans_of(*asking("desk", "shop"), of("shop", "later")), tmp_path)

    for service in ("shop", "desk", None):
        assert "1@desk" in asked_of(tmp_path, ["1"], service).tasks
        assert tasks_of(tmp_path, "1", service)[0] == "1@desk"
    with reader.open_gates(tmp_path) as store:
        assert store.names_of("1@desk") == ["1@shop"]


@pytest.mark.parametrize("content", ["full", "redacted"])
def test_a_name_without_end_is_cut_and_stays_itself(tmp_path: Path, content: str) -> None:
    """One session of a megabyte made every list of tasks that long; two such are still two."""
    long = "so long " * 12_500
    names = dict.fromkeys(("gen_ai.agent.name", "looptrace.phase", "gen_ai.tool.name"), long)
    traces = [Trace(f"{long}{end}", service=long, name=end) for end in "ab"]
    for trace in traces:
        for _ in range(6):
            called = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.call.arguments": '{"path": "a.py"}',
                "gen_ai.tool.call.result": "Error: 1 failed",
                "error.type": "TestError",
            }
            trace.span(long, attributes={**called, **names}, status="error")
    with served(tmp_path / "store", "--no-grpc", "--content", content) as server:
        for trace in traces:
            assert server.send(trace.request()) == OK
        gates = until(lambda: (found := server.ask("GET", "/v1/gates")[1])["total"] == 2 and found)
        tasks = server.ask("GET", "/v1/tasks")[1]
    assert len({gate["task"] for gate in gates["gates"]}) == tasks["total"] == 2
    assert len(json.dumps(gates)) + len(json.dumps(tasks)) < 20_000


def test_a_long_name_is_the_same_in_batch_and_live_and_when_asked_for(tmp_path: Path) -> None:
    """The name is cut where it is read, so that a report and a server name the same task."""
    name = "x" * 1_000
    trace = failing(name, 6)
    (file := tmp_path / "trace.json").write_text(json.dumps(trace.request()))
    found = detect(turns_of(read_spans([str(file)]).spans)[0]).findings
    with served(tmp_path / "store", "--no-grpc") as server:
        assert server.send(trace.request()) == OK
        asked = until(lambda: server.ask("GET", f"/v1/gates?task={name}")[1]["gates"])
    assert {gate["task"] for gate in asked} == {finding.task for finding in found}
    assert len(asked[0]["task"]) < 300
