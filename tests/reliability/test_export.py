"""P11: events reach the agent's trace at least once; P23: as the same span each time."""

import json
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import polars as pl
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.files.reader import read_spans
from looptrace.collector.gate_exporter import (
    LINKS_MAX,
    ExportError,
    GateExporter,
    Target,
    export,
    spans_of,
)
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.protobuf import decode_message
from looptrace.collector.store.reader import open_gates, read_turns
from looptrace.collector.store.writer import ingest
from tests.commands import run
from tests.http_threads import QuietHandler, answering
from tests.otlp import decoded_rows
from tests.ports import closed_port
from tests.reliability.receivers import SERVICE
from tests.reliability.serving import until

LOOP = "examples/traces/nightly_migration_loop.jsonl"
EXAMPLES = "examples/traces"
WAIT_S = 10.0


class Backend(ThreadingHTTPServer):
    """A tracing system on loopback, which takes spans when it is up."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[bytes] = []
        self.status = 200
        self.came = threading.Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def spans(self) -> pl.DataFrame:
        """Return the spans that came."""
        frames = [Frame(0, body) for body in self.requests]
        rows = [row for frame in frames for row in decoded_rows(decode_message("backend", frame))]
        return pl.DataFrame(rows, SPAN_SCHEMA, orient="row")


class Handler(QuietHandler):
    """Takes requests as OTLP has it."""

    server: Backend

    def do_POST(self) -> None:
        """Take one request."""
        body = self.body()
        if self.server.status == 200 and self.path == "/v1/traces":
            self.server.requests.append(body)
        self.answer(self.server.status)
        self.server.came.set()


@pytest.fixture
def backend() -> Iterator[Backend]:
    """Serve on loopback until the test ends."""
    with answering(Backend()) as server:
        yield server


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store with an agent that loops."""
    folder = tmp_path_factory.mktemp("ingested") / "store"
    ingest(read_spans([LOOP]).spans, folder)
    return folder


@pytest.fixture
def store(ingested: Path, tmp_path: Path) -> Path:
    """Copy the store, from which nothing was sent yet."""
    return shutil.copytree(ingested, tmp_path / "store")


def test_gates_are_spans_in_the_agents_trace(backend: Backend, store: Path) -> None:
    """A viewer of the agent's trace sees the gate at the loop."""
    with open_gates(store) as gates:
        (event,) = [e for _, e in gates.events() if e.type == "gate_opened"]

    done = export(store, Target(backend.url))

    (span,) = backend.spans().rows(named=True)
    attributes = json.loads(span["attributes"])
    (turns,) = read_turns(store)
    looping = turns.filter(pl.col("turn").is_between(event.turn_first, event.turn))
    assert done.spans == 1
    assert (span["name"], span["service"], span["scope"]) == ("looptrace.gate", *["looptrace"] * 2)
    assert (span["trace_id"], span["parent_span_id"]) == (event.trace_id, event.span_id)
    assert span["start_ns"] == span["end_ns"] == event.at_ns
    assert attributes["looptrace.gate.id"] == event.gate
    assert attributes["looptrace.task.id"] == event.task
    assert attributes["looptrace.turn.first"] == event.turn_first
    assert attributes["gen_ai.evaluation.score.label"] == "gate"
    assert {link["span_id"] for link in json.loads(span["links"])} == set(looping["span_id"])


def test_words_are_sent_only_when_asked_for(backend: Backend, store: Path) -> None:
    """P17: another tracing system gets no content of a call without an option."""
    export(store, Target(backend.url, every=True))
    assert "apply_migration(" not in backend.spans().write_json()

    export(store, Target(backend.url, every=True, content=True), again=True)
    assert "apply_migration(" in backend.spans().write_json()


def test_nothing_is_sent_twice_and_again_is_the_same_span(backend: Backend, store: Path) -> None:
    """P23: a second export sends nothing; one that sends all again makes no second span."""
    first = export(store, Target(backend.url, every=True))
    second = export(store, Target(backend.url, every=True))
    again = export(store, Target(backend.url, every=True), again=True)

    spans = backend.spans()
    assert (second.spans, again.spans) == (0, first.spans)
    assert first.spans
    assert spans.height == 2 * first.spans
    assert spans.unique().height == spans["span_id"].n_unique() == first.spans


def test_each_target_has_its_own_progress(backend: Backend, store: Path) -> None:
    """One system may have events that another lacks; and no file has a URL with its password."""
    other = backend.url.replace("http://", "http://user:secret-word@")

    assert export(store, Target(backend.url)).spans == 1
    assert export(store, Target(other)).spans == 1
    assert export(store, Target(backend.url, every=True)).spans
    kept = b"".join(path.read_bytes() for path in store.glob("looptrace-store.exports*"))
    assert kept
    assert b"secret-word" not in kept


def test_what_is_not_taken_is_sent_the_next_time(backend: Backend, store: Path) -> None:
    """P11: a target that refuses has got nothing, and gets it when it takes it."""
    backend.status = 400
    with pytest.raises(ExportError, match="does not accept the spans"):
        export(store, Target(backend.url))
    backend.status = 200

    assert export(store, Target(backend.url)).spans == 1


def test_it_goes_on_by_itself(backend: Backend, tmp_path: Path) -> None:
    """P11: a server's export sends later events, and those that it could not send before."""
    store = tmp_path / "store"
    spans = read_spans([EXAMPLES]).spans
    loop = read_spans([LOOP]).spans
    ingest(spans.join(loop, on="trace_id", how="anti"), store)
    with open_gates(store) as gates:
        before = sum(event.type == "gate_opened" for _, event in gates.events())
    backend.status = 400
    exporter = GateExporter(store, Target(backend.url))
    exporter.start()
    try:
        assert until(lambda: exporter.failures > 0)
        backend.status = 200
        assert until(lambda: exporter.spans == before > 0)

        ingest(loop, store)
        exporter.wake()
        assert until(lambda: exporter.spans == before + 1)
    finally:
        assert exporter.close(WAIT_S)

    assert backend.spans()["span_id"].n_unique() == before + 1


def test_it_ends_though_nobody_takes_anything(backend: Backend, store: Path) -> None:
    """P25: a stop does not wait for a target that is away."""
    backend.status = 503  # The exporter itself tries again for a while.
    exporter = GateExporter(store, Target(backend.url))
    exporter.start()
    assert backend.came.wait(WAIT_S)

    assert exporter.close(4.0)
    assert export_after(backend, store) == 1


def export_after(backend: Backend, store: Path) -> int:
    """Export to a target that is back."""
    backend.status = 200
    return export(store, Target(backend.url)).spans


@pytest.mark.parametrize("name", sorted(path.name for path in Path(EXAMPLES).iterdir()))
def test_exported_spans_do_not_disturb_analysis(name: str) -> None:
    """What looptrace writes into a trace is no turn, and changes no finding about it."""
    spans = read_spans([f"{EXAMPLES}/{name}"]).spans
    turns, _ = turns_of(spans)
    judged = detect(turns)
    written = encode_spans(spans_of(judged.events, turns, content=True)).SerializeToString()
    rows = decoded_rows(decode_message("test", Frame(0, written)))

    both = pl.concat([spans, pl.DataFrame(rows, SPAN_SCHEMA, orient="row")])

    assert both.height == spans.height + len(judged.events)
    assert detect(turns_of(both)[0]) == judged


def test_links_have_an_end() -> None:
    """P8: a loop of thousands of turns has links to its begin and its end."""
    turns, _ = turns_of(read_spans([LOOP]).spans)
    event = detect(turns).events[-1]
    last = turns.filter(turn=event.turn).head(1)
    many = pl.concat([last] * 1_000).with_columns(
        turn=pl.int_range(pl.len()).cast(turns.schema["turn"]),
        span_id=pl.int_range(1, pl.len() + 1).cast(pl.String).str.zfill(16),
    )

    (span,) = spans_of([replace(event, turn_first=0, turn=999)], many, content=False)

    links = [f"{link.context.span_id:x}" for link in span.links]
    assert len(links) == LINKS_MAX
    assert (links[0], links[-1]) == ("1", "1000")


def test_it_speaks_grpc(store: Path) -> None:
    """Some systems take OTLP over gRPC alone."""
    came: list[bytes] = []

    def take(request: bytes, _context: object) -> bytes:
        came.append(request)
        return b""  # An empty message is a response that took everything.

    server = grpc.server(ThreadPoolExecutor(1))
    handlers = {"Export": grpc.unary_unary_rpc_method_handler(take)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()

    done = export(store, Target(f"grpc://127.0.0.1:{port}"))
    server.stop(0)

    assert done.spans == 1
    assert len(decoded_rows(decode_message("grpc", Frame(0, came[0])))) == 1


def test_the_command_sends_and_says_so(backend: Backend, store: Path) -> None:
    """A person sends the gates of a store, and reads in one line what came of it."""
    sent = run("export", "--store", store, "--to", backend.url)
    backend.status = 400
    refused = run("export", "--store", store, "--to", backend.url, "--again")

    assert (sent.exit_code, "spans sent 1" in sent.output) == (0, True)
    assert backend.spans().height == 1
    assert (refused.exit_code, "does not accept the spans" in refused.output) == (2, True)


@pytest.mark.parametrize("scheme", ["http", "https", "grpc"])
def test_a_receiver_that_is_not_there_is_one_sentence(
    scheme: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exporters log each try in a long line, and the last one without a reason."""
    monkeypatch.setattr("looptrace.collector.gate_exporter.TIMEOUT_S", 4.0)
    with closed_port() as port:
        told = run("export", "--store", store, "--to", f"{scheme}://127.0.0.1:{port}")

    assert told.exit_code == 2
    assert told.output.startswith(
        f"Error: 127.0.0.1:{port} does not accept the spans (Connection refused); check that"
    )
    assert told.output.count("\n") == 1


@pytest.mark.parametrize("url", ["localhost:4318", "ftp://localhost", "http://", "secret-word"])
def test_a_wrong_address_is_told(url: str, tmp_path: Path) -> None:
    """The message says what an address looks like."""
    told = run("export", "--store", tmp_path, "--to", url)

    assert told.exit_code == 2
    assert "not one of OTLP; it begins with http://, https://, grpc://, grpcs://" in told.output
    assert "secret-word" not in told.output
