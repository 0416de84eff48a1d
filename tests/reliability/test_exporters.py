"""The exporters that people use, against a receiver on loopback."""

import json
import logging
import os
import subprocess
from collections.abc import Iterator

import grpc  # type: ignore[import-untyped]
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Status, StatusCode

from looptrace.collector.server.receiver.sink import SinkFull
from tests.paths import ROOT
from tests.reliability.receivers import Receiver, running

COUNT = 700  # More than one batch.
NODE_MODULES = ROOT / "build" / "npm" / "node_modules"
JSON_EXPORTER = "opentelemetry.exporter.otlp.json.http.trace_exporter"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return a receiver for one exporter."""
    with running() as one:
        yield one


def export(exporter: SpanExporter, count: int = COUNT) -> None:
    """Send spans as an agent in Python does."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("tests")
    for number in range(count):
        with tracer.start_as_current_span(f"call {number}") as span:
            span.set_attribute("list", ["a", "b"])
            span.record_exception(ValueError("failed"))
            span.set_status(Status(StatusCode.ERROR, "failed"))
    provider.shutdown()


def check(receiver: Receiver, count: int = COUNT) -> None:
    """Check that every span is there once, with what was set on it."""
    spans = receiver.sink.spans
    assert sorted(spans["name"]) == sorted(f"call {number}" for number in range(count))
    assert spans["span_id"].n_unique() == count
    assert set(spans["status"]) == {2}
    assert json.loads(spans["attributes"][0])["list"] == ["a", "b"]
    assert json.loads(spans["events"][0])[0]["name"] == "exception"
    assert not [name for name in receiver.counted if name.startswith("refused_")]


@pytest.mark.parametrize("compression", list(Compression))
def test_python_over_http(receiver: Receiver, compression: Compression) -> None:
    """P6: Python's exporter of protobuf over HTTP, with every packing that it has."""
    export(HttpExporter(f"{receiver.http}/v1/traces", compression=compression))
    check(receiver)


@pytest.mark.parametrize("compression", list(grpc.Compression))
def test_python_over_grpc(receiver: Receiver, compression: grpc.Compression) -> None:
    """P6: Python's exporter over gRPC, with every packing that it has."""
    export(GrpcExporter(f"http://{receiver.grpc}", insecure=True, compression=compression))
    check(receiver)


def test_python_in_json(receiver: Receiver) -> None:
    """P6: Python's exporter of JSON, where it is installed; its versions clash with the others."""
    module = pytest.importorskip(JSON_EXPORTER, reason=f"{JSON_EXPORTER} is not installed")
    export(module.OTLPSpanExporter(f"{receiver.http}/v1/traces"))
    check(receiver)


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_exporters_come_back(
    receiver: Receiver, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """P6: what was refused because there was no room is sent again, and none is lost."""
    refusals = iter(range(1))

    def refuse() -> None:
        for _ in refusals:
            raise SinkFull(1)

    receiver.sink.refuse = refuse
    with caplog.at_level(logging.ERROR):
        if transport == "http":
            export(HttpExporter(f"{receiver.http}/v1/traces"), 5)
        else:
            export(GrpcExporter(f"http://{receiver.grpc}", insecure=True), 5)
    assert receiver.pipeline.counts.read()["refused_sink_full"] == 1
    assert sorted(receiver.sink.names) == [f"call {number}" for number in range(5)]


@pytest.mark.skipif(
    not NODE_MODULES.exists(), reason="JavaScript's exporters are not there: make npm-exporters"
)
@pytest.mark.parametrize("compression", ["NONE", "GZIP"])
@pytest.mark.parametrize("kind", ["http", "proto", "grpc"])
def test_javascript(receiver: Receiver, kind: str, compression: str) -> None:
    """P6: JavaScript's exporters: JSON and protobuf, which they send in chunks, and gRPC."""
    address = f"http://{receiver.grpc}" if kind == "grpc" else f"{receiver.http}/v1/traces"
    script = ROOT / "tests" / "reliability" / "export_spans.cjs"
    subprocess.run(
        ["node", script, kind, address, compression, str(COUNT)],
        env={**os.environ, "NODE_PATH": str(NODE_MODULES)},
        check=True,
        timeout=60,
    )
    check(receiver)
