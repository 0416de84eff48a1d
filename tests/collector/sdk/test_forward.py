"""Spans go to a server by the official exporter, and its gates come back to the agent."""

from __future__ import annotations

import json
import logging
import random
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from queue import Empty, Queue
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from looptrace.analyzer.fields.span_fields import span_fields_of_rows
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.schema.span_fields import SpanFields
from looptrace.collector import GateOpenError, GateState, LoopSpanProcessor
from looptrace.collector.api_paths import STREAM_NAMES_MAX
from looptrace.collector.otlp.sdk_spans import row_of
from looptrace.collector.sdk import followed as followed_module
from looptrace.collector.sdk.followed import Followed, Names
from looptrace.collector.sdk.forward import ForwardEngine, Protocol, exporter_to
from looptrace.collector.sdk.gate_stream import (
    LINE_BYTES_MAX,
    GateStream,
    Server,
    events_in,
    notice_of_json,
)
from looptrace.collector.sdk.processor import QueueLimits
from looptrace.collector.sdk.server_watch import ServerWatch
from tests.collector.sdk.test_processor import AGENT, Setup, actions
from tests.http_threads import QuietHandler, answering
from tests.reliability.serving import until

requirement = pytest.mark.requirement
WAIT_S = 60.0
SOON = QueueLimits(delay_s=0.02)
TOKEN = "sixteen-characters"  # noqa: S105


class Fake:
    """A server on loopback that takes spans and streams what a test puts into `events`."""

    def __init__(self, port: int = 0) -> None:
        self.spans: list[dict[str, Any]] = []
        self.events: Queue[str | None] = Queue()  # None ends a connection
        self.opened = b": here\n\n"  # what the stream of one task begins with
        self.is_old = False  # of a version with streams of all tasks
        self.change_status = 200  # what a change of names is answered with
        self.silence_s = 0.0  # before each line of it
        self.status = 200  # of its answers to decisions
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def _handler(self) -> type[Handler]:
        return type("Bound", (Handler,), {"fake": self})

    def bodies(self, path: str) -> list[dict[str, Any]]:
        """Return what was posted to a path."""
        asked = [(posted, body) for method, posted, _, body in self.asked if method == "POST"]
        return [json.loads(body) for posted, body in asked if posted == path]

    def tell(self, number: int, **fields: Any) -> None:
        """Stream one event."""
        self.events.put(f"id: {number}\ndata: {json.dumps(fields)}\n\n")


class Handler(QuietHandler):
    """Answers for a fake server."""

    fake: Fake

    def do_POST(self) -> None:
        """Take spans, stream, or take names."""
        body = self.body()
        self.fake.asked.append(("POST", self.path, dict(self.headers), body))
        if self.path == "/v1/gates/stream":
            self._stream()
            return
        status = self.fake.status
        if self.path == "/v1/traces":
            self.fake.spans += spans_in(body)
            status = 200
        elif self.path.startswith("/v1/gates/stream/"):
            status = self.fake.change_status
        self.answer(status)

    def do_GET(self) -> None:
        """Stream the open gates of a task, or all events."""
        self.fake.asked.append(("GET", self.path, dict(self.headers), b""))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        if "?task=" not in self.path:
            self._write_events()
            return
        for line in self.fake.opened.splitlines(keepends=True):
            time.sleep(self.fake.silence_s)
            self.wfile.write(line)

    def _stream(self) -> None:
        if self.fake.is_old:
            self.send_error(405)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Looptrace-Stream", "s1")
        self.end_headers()
        self._write_events()

    def _write_events(self) -> None:
        self.wfile.write(b": here\n\n")
        while (event := self.fake.events.get()) is not None:
            self.wfile.write(event.encode())
            self.wfile.flush()


def spans_in(body: bytes) -> list[dict[str, Any]]:
    """Return name and attributes of the spans in an OTLP request."""
    request = ExportTraceServiceRequest.FromString(body)
    return [
        {
            "name": span.name,
            **{a.key: a.value.string_value or a.value.int_value for a in span.attributes},
        }
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


@contextmanager
def faked(port: int = 0) -> Iterator[Fake]:
    """Serve as a fake until the context ends."""
    found = Fake(port)
    with answering(found.server):
        yield found
        found.events.put(None)


@pytest.fixture
def fake() -> Iterator[Fake]:
    """Serve for one test."""
    with faked() as found:
        yield found


@pytest.fixture
def setup(fake: Fake) -> Iterator[Setup]:
    """Set up forwarding to it."""
    found = Setup(LoopSpanProcessor.forward(fake.url, token=TOKEN, limits=SOON))
    yield found
    fake.events.put(None)
    found.provider.shutdown()


def stream_of(setup: Setup) -> GateStream:
    """Return the stream of the processor."""
    engine: Any = setup.processor._engine
    stream: GateStream = engine._streams[0]
    return stream


@requirement("F1")
def test_spans_say_themselves_what_those_above_say(fake: Fake, setup: Setup) -> None:
    """The agent's own span comes last, and a server must not wait for it; others see no change."""
    said = {"looptrace.phase": "fix", "looptrace.iteration": "2"}
    with setup.tracer.start_as_current_span("agent", attributes=AGENT | said) as agent:
        setup.call()
        setup.processor.force_flush()
        until(lambda: fake.spans)

        assert fake.spans[0]["gen_ai.conversation.id"] == "talk"
        assert fake.spans[0]["gen_ai.agent.name"] == "fixer"
        assert fake.spans[0]["looptrace.iteration"] == "2"
        assert isinstance(agent, ReadableSpan)
        assert fake.spans[0]["looptrace.phase.start_ns"] == agent.start_time
    (call,) = [s for s in setup.memory.get_finished_spans() if s.name != "agent"]
    assert "gen_ai.conversation.id" not in (call.attributes or {})
    assert fake.asked[-1][2].get("authorization", TOKEN).endswith(TOKEN)


@requirement("F3")
def test_a_gate_comes_back_to_the_agent(fake: Fake, setup: Setup) -> None:
    """The event is on its live span, the gate is open, and a decision goes to the server."""
    with setup.tracer.start_as_current_span("agent", attributes=AGENT) as agent:
        context = agent.get_span_context()
        where = {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
        said = {"id": "e1", "task": "talk", "rule": "repeated_call", **where}
        fake.tell(1, **said | {"trace_id": "f" * 32}, type="gate_opened", gate="other")
        fake.tell(2, **said, type="gate_opened", action="gate", gate="g1", directive="Stop.")
        gate = setup.processor.gate("talk")
        until(lambda: gate.check().gate == "g1")

        assert gate.check().open
        assert gate.check().directive == "Stop."
        assert isinstance(agent, ReadableSpan)
        assert actions(agent) == ["gate"]
        gate.resolve("reviewed", "Use b.py.")
        method, path, _, body = fake.asked[-1]
        assert (method, path) == ("POST", "/v1/gates/g1/resolve")
        assert json.loads(body) == {"decision": "reviewed", "note": "Use b.py."}
        decided = {"decision": "reviewed", "note": "Use b.py.", "directive": "Go on."}
        fake.tell(3, **said, type="gate_resolved", gate="g1", **decided)
        assert gate.wait(WAIT_S)
        state = gate.check()
        assert {name: getattr(state, name) for name in decided} == decided


def test_a_process_that_begins_anew_is_stopped_before_its_first_step(
    fake: Fake, setup: Setup
) -> None:
    """The gate was opened in a trace of a process that is gone; its decision comes as well."""
    said = {"id": "e1", "task": "talk", "trace_id": "f" * 32, "span_id": "e" * 16}
    opened = said | {"type": "gate_opened", "action": "gate", "gate": "g1", "directive": "Stop."}
    fake.opened = f"id: 1\ndata: {json.dumps(opened)}\n\n: here\n\n".encode()
    gate = setup.processor.gate("talk")
    with pytest.raises(GateOpenError, match="Stop"):
        gate.raise_if_open()
    asked = [path for method, path, _, _ in fake.asked if "?task=talk" in path]
    fake.tell(2, **said | {"id": "e2"}, type="gate_resolved", gate="g1", decision="continue")
    assert gate.wait(WAIT_S)
    gate.raise_if_open()
    gate.raise_if_open()

    assert len(asked) == 1
    assert [path for method, path, _, _ in fake.asked if "?task=" in path] == asked
    assert not setup.processor.counts.errors


def test_a_gate_of_any_of_several_servers_stops_the_agent(fake: Fake) -> None:
    """Spans go to one server; each is asked before the first step, and the gate's owner decides."""
    said = {"id": "e1", "task": "talk", "trace_id": "f" * 32, "span_id": "e" * 16}
    opened = said | {"type": "gate_opened", "action": "gate", "gate": "g1", "directive": "Stop."}
    fake.status = 404
    with faked() as other:
        other.opened = f"id: 1\ndata: {json.dumps(opened)}\n\n: here\n\n".encode()
        found = Setup(LoopSpanProcessor.forward(fake.url, gates=f"{fake.url}, {other.url}"))
        gate = found.processor.gate("talk")
        with pytest.raises(GateOpenError, match="Stop"):
            gate.raise_if_open()
        gate.resolve("reviewed", None)
        other.tell(2, **said | {"id": "e2"}, type="gate_resolved", gate="g1", decision="reviewed")
        until(lambda: not gate.check().open)
        other.status = 404
        other.tell(3, **opened | {"id": "e3", "gate": "g2"})
        until(lambda: gate.check().open)
        with pytest.raises(OSError, match="404"):
            gate.resolve("reviewed", None)
        assert ("POST", "/v1/gates/g1/resolve") in [asked[:2] for asked in other.asked]
        for each in (fake, other):
            each.events.put(None)
        found.provider.shutdown()


def test_the_stream_asks_for_what_the_process_runs(fake: Fake, setup: Setup) -> None:
    """Tasks by name and traces by their spans: with the stream, and beside it when it is open."""
    setup.processor.gate("talk").check()
    until(lambda: "talk" in asked_tasks(fake))
    setup.call()
    setup.processor.force_flush()
    (call,) = setup.memory.get_finished_spans()
    assert call.context
    trace = f"{call.context.trace_id:032x}"
    until(lambda: any(trace in body["traces"] for body in fake.bodies("/v1/gates/stream/s1")))
    fake.events.put(None)
    until(lambda: len(fake.bodies("/v1/gates/stream")) == 2)
    again = fake.bodies("/v1/gates/stream")[-1]

    assert again == {
        "tasks": ["talk"],
        "traces": [trace],
        "dropped": [],
        "service": again["service"],
    }
    assert all("?task=" not in path for _, path, _, _ in fake.asked)


def asked_tasks(fake: Fake) -> list[str]:
    """Return the tasks that the stream asked for so far, also beside it."""
    bodies = fake.bodies("/v1/gates/stream") + fake.bodies("/v1/gates/stream/s1")
    return [task for body in bodies for task in body["tasks"]]


def test_a_server_is_told_of_a_name_until_it_knows_it(fake: Fake, setup: Setup) -> None:
    """Names that it did not accept are sent again; known ones are not."""
    fake.change_status = 503
    until(lambda: fake.bodies("/v1/gates/stream"))
    setup.processor.gate("talk").check()
    until(lambda: len(fake.bodies("/v1/gates/stream/s1")) == 2)
    fake.change_status = 200
    until(lambda: stream_of(setup)._followed.change() is None)
    setup.processor.gate("walk").check()
    until(lambda: stream_of(setup)._followed.change() is None)
    (*first, last) = fake.bodies("/v1/gates/stream/s1")

    assert {*map(str, (body["tasks"] for body in first))} == {"['talk']"}
    assert last["tasks"] == ["walk"]


def test_a_server_of_an_earlier_version_is_followed(fake: Fake) -> None:
    """It sends the events of all tasks, and the process takes its own."""
    fake.is_old = True
    processor = LoopSpanProcessor.forward(fake.url, limits=SOON)
    gate = processor.gate("talk")
    said = {"type": "gate_opened", "action": "gate", "trace_id": "f" * 32, "span_id": "e" * 16}
    fake.tell(1, id="e1", task="other", gate="g0", **said)
    fake.tell(2, id="e2", task="talk", gate="g1", **said)
    until(lambda: gate.check().open)
    fake.events.put(None)
    processor.shutdown()

    assert gate.check().gate == "g1"
    assert ("GET", "/v1/gates/stream") in [(method, path) for method, path, _, _ in fake.asked]


def test_an_event_that_is_repeated_is_told_once(fake: Fake, setup: Setup) -> None:
    """A restarted stream may repeat events."""
    states: list[GateState] = []
    setup.processor.on_gate(states.append)
    gate = setup.processor.gate("talk")
    said = {"type": "loop_detected", "action": "warn", "trace_id": "f" * 32, "span_id": "e" * 16}
    for number, event in enumerate(("e1", "e1", "e2"), 1):
        fake.tell(number, id=event, task="talk", **said)
    until(lambda: gate.check().event == "e2")

    assert [state.event for state in states] == ["e1", "e2"]


def body(tasks: list[str], traces: list[str], dropped: Sequence[str] = ()) -> dict[str, Any]:
    """Return the request of a shop's process to a server."""
    return {"tasks": tasks, "traces": traces, "dropped": [*dropped], "service": "shop"}


def test_names_come_and_go() -> None:
    """If there are too many, the oldest without an open gate go; idle traces are dropped."""
    followed = Followed()
    followed.add(tasks=["first"], traces=["t0"], service="shop")
    assert followed.whole() == body(["first"], ["t0"])
    assert followed.change() is None
    followed.note(GateNotice("e", "gate_opened", "t0", "t0", "s"))
    assert not followed.add(tasks=["first"])
    assert followed.add(traces=[f"t{number}" for number in range(1, STREAM_NAMES_MAX + 1)])
    change, known = followed.change() or ({}, Names())
    assert change == body([], sorted(known.traces - {"t0"}))
    assert len(known.traces) == STREAM_NAMES_MAX
    assert "t1" not in known.traces
    followed.told(known)
    followed.note(GateNotice("e", "gate_resolved", "t0", "t0", "s"))
    followed.add(traces=["new"])
    change, _ = followed.change() or ({}, Names())
    assert change == body([], ["new"], ["t0"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(followed_module, "TRACE_IDLE_S", -1.0)
        assert followed.whole() == body(["first"], [])


@pytest.mark.parametrize("opened", [b"data: {\n\n: here\n\n", b"id: 1\n" * 30 + b": here\n\n"])
def test_a_first_step_waits_a_moment_at_most(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, opened: bytes
) -> None:
    """Where the server talks nonsense or drips, the agent goes on, unless it fails closed."""
    monkeypatch.setattr("looptrace.collector.sdk.processor.ASK_S", 0.3)
    fake.opened, fake.silence_s = opened, 0.02
    processors = [
        LoopSpanProcessor.forward(fake.url, fail_closed=closed) for closed in (False, True)
    ]
    began_s = time.monotonic()
    state = processors[0].gate("talk").raise_if_open()
    processors[0].gate("talk").raise_if_open()
    with pytest.raises(GateOpenError):
        processors[1].gate("talk").raise_if_open()
    took_s = time.monotonic() - began_s
    for processor in processors:
        fake.events.put(None)
        processor.shutdown()

    assert state.broken
    assert took_s < WAIT_S
    assert [p.counts.errors for p in processors] == [{"open_gates": 1}] * 2


def test_the_stream_is_followed_again_from_where_it_ended(fake: Fake, setup: Setup) -> None:
    """Nonsense in between is counted, and stops nothing."""
    with setup.tracer.start_as_current_span("agent", attributes=AGENT) as agent:
        context = agent.get_span_context()
        where = {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
        for nonsense in ("{", "[]", '{"id": 3}', '{"id": "e"}', "[" * 5_000):
            fake.events.put(f"data: {nonsense}\n\n")
        fake.tell(7, id="e1", task="talk", type="loop_detected", action="warn", **where)
        gate = setup.processor.gate("talk")
        until(lambda: gate.check().action == "warn")
        fake.events.put("data: " + "x" * (LINE_BYTES_MAX + 1) + "\n\n")
        chance = random.getstate()
        fake.events.put(None)
        until(lambda: len(fake.bodies("/v1/gates/stream")) == 2)
        assert random.getstate() == chance  # An agent that seeded it does the same again.
        _, path, headers, _ = [asked for asked in fake.asked if "stream" in asked[1]][-1]

        assert path == "/v1/gates/stream"
        assert headers["Last-Event-ID"] == "7"
        assert headers["Authorization"] == f"Bearer {TOKEN}"
        assert stream_of(setup).nonsense == 5


class Refusing(QuietHandler):
    """A server that takes nothing, by default because it knows no token."""

    status = 401

    def do_POST(self) -> None:
        """Answer as looptrace's server does."""
        self.body()
        self.answer(self.status)


def test_a_wrong_token_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """The stream is tried again and again, and an agent without gates must not go unseen."""
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Refusing)) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        stream = GateStream(
            Server(url, TOKEN), lambda _notice: None, ServerWatch(fail_closed=False)
        )
        until(lambda: stream.failures == 2)
        stream.close()
    (warning,) = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert "refuses this token" in warning.getMessage()
    assert TOKEN not in caplog.text


def test_a_server_that_is_away_is_not_felt() -> None:
    """Spans that cannot be sent are counted; the agent and its end go on."""
    processor = LoopSpanProcessor.forward("http://127.0.0.1:9", limits=SOON)
    setup = Setup(processor)
    setup.call()
    began = time.monotonic()
    processor.shutdown(timeout_millis=300)

    assert time.monotonic() - began < WAIT_S
    assert len(setup.memory.get_finished_spans()) == 1
    assert not processor.gate("talk").raise_if_open().open


@pytest.fixture(autouse=True)
def _few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")


def unsent(url: str, **options: Any) -> tuple[ReadableSpan, ...]:
    """Return the spans of a process that could not send them."""
    setup = Setup(LoopSpanProcessor.forward(url, limits=SOON, **options))
    setup.call()
    until(lambda: setup.processor.counts.dropped)
    setup.provider.shutdown()
    return setup.memory.get_finished_spans()


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what an agent's log shows by default; a traceback would be part of a record."""
    shown = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert not any(record.exc_info for record in shown)
    return [record.getMessage() for record in shown]


def test_a_server_that_is_away_is_one_line_and_one_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log names the server, since when, and that nothing is watched; no tries."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    setup = Setup(LoopSpanProcessor.forward(f"http://127.0.0.1:{port}", limits=SOON))
    gate = setup.processor.gate("talk")

    def tried(times: int) -> bool:
        with setup.tracer.start_as_current_span("agent", attributes=AGENT):
            setup.call()
            gate.raise_if_open()
        return setup.processor.counts.dropped.get("failed", 0) >= times

    until(lambda: tried(3))
    (line,) = warnings_in(caplog)
    assert f"the server at http://127.0.0.1:{port} cannot be used since 20" in line
    assert line.endswith("UTC (Connection refused): this agent runs unwatched until it is back")
    with faked(port):
        until(lambda: len(warnings_in(caplog)) == 2 or tried(10**9))
        assert "is back after" in warnings_in(caplog)[1]
        setup.provider.shutdown()
    assert len(warnings_in(caplog)) == 2


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("gates", ["", None])
def test_an_agent_that_fails_closed_says_that_it_waits(
    caplog: pytest.LogCaptureFixture, protocol: Protocol, gates: str | None
) -> None:
    """A step that is not allowed has its reason in the log, by either exporter."""
    unsent("http://127.0.0.1:9", protocol=protocol, gates=gates, fail_closed=True)

    (line,) = warnings_in(caplog)
    # On a busy machine gRPC gives up before it is refused.
    assert "efused" in line or "DEADLINE_EXCEEDED" in line
    assert line.endswith("no step of this agent may begin until it is back (fail_closed)")


def test_exporters_of_others_log_as_they_do(caplog: pytest.LogCaptureFixture) -> None:
    """What the agent's author exports elsewhere is the author's to see."""
    spans = unsent("http://127.0.0.1:9", gates="")
    exporter_to("http://127.0.0.1:9", "http", None).export(spans)

    own, *others = warnings_in(caplog)
    assert "this agent runs unwatched" in own
    assert any("ailed to export" in line for line in others)


@pytest.mark.parametrize("status", [401, 404, 503])
def test_the_reason_is_what_the_server_answers(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """A wrong port, a wrong token and a full disk need different hands."""
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Refusing)) as server:
        monkeypatch.setattr(Refusing, "status", status)
        unsent(f"http://127.0.0.1:{server.server_port}", gates="")
    (line,) = warnings_in(caplog)
    assert str(status) in line or "Service Unavailable" in line
    assert ("LOOPTRACE_TOKEN" in line) == (status == 401)


@pytest.mark.parametrize("url", ["localhost:4318", "ftp://host", "http://"])
def test_an_address_that_is_none_is_an_error(url: str) -> None:
    """It is found when the processor is made, not when the first gate is missed."""
    with pytest.raises(ValueError, match="is not an address such as http"):
        Server(url)


def test_events_of_a_stream_are_read_as_they_are_written() -> None:
    """Comments keep a connection alive, data may have several lines."""
    lines = [b": here\n", b"id: 4\n", b'data: {"a":\n', b"data:1}\n", b"\n", b"data: x\n"]

    assert list(events_in(iter(lines))) == [("4", '{"a":\n1}')]
    with pytest.raises(ValueError, match="turn has the wrong type"):
        notice_of_json(
            {"id": "e", "type": "t", "task": "a", "trace_id": "", "span_id": "", "turn": "1"}
        )


def test_nothing_is_left_in_the_queue(fake: Fake, setup: Setup) -> None:
    """A flush sends what ended so far."""
    for _ in range(2_000):
        setup.call()
    assert setup.processor.force_flush()

    assert len(fake.spans) == 2_000
    with pytest.raises(Empty):
        fake.events.get_nowait()


def sent_with(exporter: InMemorySpanExporter) -> list[SpanFields]:
    """Return the fields of the spans that were sent, in the order of their ends."""
    return list(span_fields_of_rows(list(map(row_of, exporter.get_finished_spans()))))


@pytest.mark.parametrize(
    "above",
    [
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "fixer"},
        {"openinference.span.kind": "AGENT", "agent.name": "fixer"},
        {"traceloop.span.kind": "agent"},
        {"langfuse.observation.type": "agent", "langfuse.session.id": "conv"},
    ],
)
def test_a_call_says_the_names_of_the_spans_that_are_still_open(above: dict[str, str]) -> None:
    """In each dialect, and as the attributes are when the call ends."""
    exporter = InMemorySpanExporter()
    setup = Setup(
        LoopSpanProcessor(ForwardEngine(exporter, "http://127.0.0.1:4318", []), limits=SOON)
    )
    root = setup.tracer.start_span("fixer.agent", attributes=above)
    with trace.use_span(root):
        if "langfuse.session.id" not in above:
            root.set_attribute("session.id", "conv")
        setup.call()
    assert setup.processor.force_flush()
    (span,) = sent_with(exporter)
    assert (span.session, span.agent) == ("conv", "fixer")


def test_a_call_has_the_nearest_name_whatever_its_dialect() -> None:
    """The agent that was called is not the one that called it."""
    exporter = InMemorySpanExporter()
    setup = Setup(
        LoopSpanProcessor(ForwardEngine(exporter, "http://127.0.0.1:4318", []), limits=SOON)
    )
    outer = setup.tracer.start_span("outer", attributes={"gen_ai.agent.name": "outer"})
    with trace.use_span(outer):
        kind = {"openinference.span.kind": "AGENT"}
        with setup.tracer.start_as_current_span("inner.agent", attributes=kind):
            setup.call()
    assert setup.processor.force_flush()
    assert [span.agent for span in sent_with(exporter)] == ["inner", "inner"]
