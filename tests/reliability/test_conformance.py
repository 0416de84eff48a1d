"""What the OTLP specification demands of a server, statement by statement."""

import gzip
import http.client
import json
import socket
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc  # type: ignore[import-untyped]
import httpx
import pytest
from google.protobuf import json_format  # type: ignore[import-untyped]
from google.rpc.error_details_pb2 import BadRequest, RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from looptrace.analyzer.settings.server_limits import MIB, Limits
from looptrace.collector.server.receiver.sink import SinkFull
from looptrace.collector.store.locks import StoreError
from tests.collector.conftest import pack_zstd
from tests.otlp import as_json
from tests.reliability.receivers import EXPORT, HOST, JSON, PROTO, Receiver, running, sample
from tests.reliability.serving import NO_TLS

PROTO_BODY = sample("call").SerializeToString()
JSON_BODY = as_json(sample("call"))
TRACE = "00112233445566778899aabbccddeeff"
LIMITS = Limits(body_bytes_max=4 * MIB)
RETRYABLE = {429, 502, 503, 504}
RETRY_S = 7
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": pack_zstd,
}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """Return a receiver that all tests of this file share."""
    with running(LIMITS) as one:
        yield one


@pytest.fixture(autouse=True)
def emptied(receiver: Receiver) -> None:
    """Forget what earlier tests sent."""
    receiver.sink.frames.clear()
    receiver.sink.refuse = lambda: None


def post(
    receiver: Receiver, body: bytes, kind: str = JSON, path: str = "/v1/traces", **headers: str
) -> httpx.Response:
    """Send a body; underscores in the names of headers are hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    headers = {"content-type": kind, **named}
    return httpx.post(f"{receiver.http}{path}", content=body, headers=headers, verify=NO_TLS)


def json_request(*spans: Any, **fields: Any) -> bytes:
    """Return a request in JSON, with spans as they are given."""
    resource_spans = [{"scopeSpans": [{"spans": list(spans)}]}]
    return json.dumps({"resourceSpans": resource_spans, **fields}).encode()


def json_span(name: str = "call", **fields: Any) -> dict[str, Any]:
    """Return a span in JSON; `fields` replace its fields."""
    span = {"traceId": TRACE, "spanId": "0102030405060708", "name": name}
    return {**span, "startTimeUnixNano": "1000", "endTimeUnixNano": "2000", **fields}


@dataclass(frozen=True)
class Statement:
    """One demand: a request, and how it must be answered."""

    says: str
    body: bytes
    kind: str = JSON
    status: int = 200
    path: str = "/v1/traces"
    packing: str = ""
    names: tuple[str, ...] = ()  # of the spans that are kept


def bad_spans(*names: str) -> bytes:
    """Return a request in protobuf with spans without ids."""
    request = sample(*names)
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.trace_id = b""
    body: bytes = request.SerializeToString()
    return body


LOGS = json_format.ParseDict(
    {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "x"}}] * 2}]}]},
    ExportLogsServiceRequest(),
).SerializeToString()
BAD_ID = json_span("bad", traceId="12")
NEW: dict[str, Any] = {"isNew": {"deep": [1, {"x": None}]}}
taken = partial(Statement, names=("call",))
bad = partial(Statement, status=400)
BOMB = gzip.compress(b" " * ((16 << 20) + 1))
NO_LOGS = ExportLogsServiceRequest().SerializeToString()
NO_METRICS = ExportMetricsServiceRequest().SerializeToString()
STATEMENTS = [
    taken("protobuf is taken", PROTO_BODY, PROTO),
    taken("JSON is taken at the same port and path", JSON_BODY),
    taken("a charset changes nothing", JSON_BODY, f"{JSON}; charset=utf-8"),
    taken("media types have no case", JSON_BODY, "Application/JSON"),
    taken("gzip", gzip.compress(PROTO_BODY), PROTO, packing="gzip"),
    taken("gzip of JSON", gzip.compress(JSON_BODY), packing="GZIP"),
    taken("deflate", zlib.compress(PROTO_BODY), PROTO, packing="deflate"),
    taken(
        "deflate without its head, as some send it",
        zlib.compress(JSON_BODY, wbits=-15),
        packing="deflate",
    ),
    taken("zstd", pack_zstd(PROTO_BODY), PROTO, packing="zstd"),
    taken("identity is no packing", JSON_BODY, packing="identity"),
    Statement("an empty request succeeds", b"", PROTO),
    Statement("an empty request succeeds in JSON", b"{}"),
    Statement("an empty list of spans succeeds", b'{"resourceSpans": []}'),
    Statement("null is as if it were not there", b'{"resourceSpans": null}'),
    taken("unknown fields are ignored at every level", json_request(json_span(**NEW), **NEW)),
    taken("ids have no case", json_request(json_span(traceId=TRACE.upper()))),
    taken(
        "64-bit integers may be numbers",
        json_request(json_span(startTimeUnixNano=1000, endTimeUnixNano=2000)),
    ),
    Statement(
        "enums are numbers; names are put up with",
        json_request(
            json_span(status={"code": 2}), json_span("b", status={"code": "STATUS_CODE_OK"})
        ),
        names=("call", "b"),
    ),
    Statement(
        "half of an emoji, as JavaScript cuts it, is no error",
        json_request(json_span("x")).replace(b'"x"', rb'"x\ud83d"'),
        names=("x\ufffd",),
    ),
    Statement(
        "nor is it in logs",
        rb'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"\ud83d"}}]}]}]}',
        path="/v1/logs",
    ),
    taken(
        "values may be empty, bytes, and maps within lists",
        json_request(
            json_span(
                attributes=[
                    {"key": "empty", "value": {}},
                    {"key": "none"},
                    {"key": "bytes", "value": {"bytesValue": "AAE="}},
                    {"key": "list", "value": {"arrayValue": {"values": [{}, {"kvlistValue": {}}]}}},
                ]
            )
        ),
    ),
    taken("a bad span among good ones", json_request(json_span(), BAD_ID)),
    bad("nothing but bad spans is bad data", json_request(BAD_ID)),
    bad("so it is in protobuf", bad_spans("a", "b"), PROTO),
    bad("logs are no spans", LOGS, PROTO),
    bad("bytes that are no protobuf are bad data", b"\x07", PROTO),
    bad("protobuf that is cut off is bad data", PROTO_BODY[:-1], PROTO),
    bad("JSON that is cut off is bad data", JSON_BODY[:-1]),
    bad("JSON as protobuf is bad data", JSON_BODY, PROTO),
    bad("protobuf as JSON is bad data", PROTO_BODY),
    bad("an empty body is no JSON", b""),
    bad("a list is no request", b"[]"),
    bad("a wrong type is bad data", b'{"resourceSpans": {}}'),
    bad("damaged gzip is bad data", b"\x1f\x8b" + JSON_BODY, packing="gzip"),
    bad("gzip that is cut off is bad data", gzip.compress(JSON_BODY)[:-9], packing="gzip"),
    bad("plain bytes said to be zstd are bad data", JSON_BODY, packing="zstd"),
    Statement("other media types are refused", JSON_BODY, "text/plain", 415),
    Statement("so is none", JSON_BODY, "", 415),
    Statement("other packings are refused", JSON_BODY, status=415, packing="br"),
    Statement("so are two at once", JSON_BODY, status=415, packing="gzip, gzip"),
    Statement("a body above the limit", b" " * ((4 << 20) + 1), status=413),
    Statement("a body above the limit once unpacked", BOMB, status=413, packing="gzip"),
    Statement("logs are taken", NO_LOGS, PROTO, path="/v1/logs"),
    Statement("logs in JSON are taken", b'{"resourceLogs": []}', path="/v1/logs"),
    Statement("metrics are taken", NO_METRICS, PROTO, path="/v1/metrics"),
    Statement("metrics in JSON are taken", b'{"resourceMetrics": []}', path="/v1/metrics"),
]


@pytest.mark.parametrize("one", STATEMENTS, ids=lambda one: one.says)
def test_a_request_is_answered_as_the_specification_says(
    receiver: Receiver, one: Statement
) -> None:
    """P6: the status is that of OTLP, the body is its message, in the form of the request."""
    headers = {"content_encoding": one.packing} if one.packing else {}
    answer = post(receiver, one.body, one.kind, one.path, **headers)
    assert answer.status_code == one.status, answer.text
    assert tuple(receiver.sink.names) == one.names
    form = PROTO if one.kind == PROTO else JSON
    assert answer.headers["content-type"] == form
    if one.status != 200:
        assert status_of(answer).message
        assert one.status not in RETRYABLE
        assert "retry-after" not in answer.headers


def status_of(answer: httpx.Response) -> Status:
    """Read the status out of the body of an error."""
    if answer.headers["content-type"] == PROTO:
        return Status.FromString(answer.content)
    said = answer.json()
    return Status(code=said["code"], message=said["message"])


def test_success_says_nothing_more(receiver: Receiver) -> None:
    """P6: `partial_success` is unset on full success, in both forms and for each signal."""
    assert post(receiver, PROTO_BODY, PROTO).content == b""
    assert post(receiver, JSON_BODY).json() == {}
    answers: dict[str, Any] = {
        "logs": ExportLogsServiceResponse,
        "metrics": ExportMetricsServiceResponse,
    }
    for signal, message in answers.items():
        answer = post(receiver, b"", PROTO, f"/v1/{signal}")
        assert not message.FromString(answer.content).HasField("partial_success")


def test_partial_success_counts_and_explains(receiver: Receiver) -> None:
    """P6: what was rejected is counted, and the message says what and why."""
    body = json_request(json_span(), BAD_ID, json_span("worse", spanId=7))
    said = post(receiver, body).json()["partialSuccess"]
    assert said["rejectedSpans"] == "2", "64-bit integers are strings in JSON"
    assert "spans[1]" in said["errorMessage"]
    assert "traceId must be 32 hex digits" in said["errorMessage"]
    request = sample("good", "bad")
    request.resource_spans[0].scope_spans[0].spans[1].span_id = b"short"
    answer = post(receiver, request.SerializeToString(), PROTO)
    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert partial.rejected_spans == 1
    assert "spanId" in partial.error_message
    assert receiver.sink.names == ["call", "good"]


def test_another_signal_is_warned_of(receiver: Receiver) -> None:
    """P6: a warning has a message and rejects 0."""
    said = post(receiver, b'{"somethingElse": [1]}').json()["partialSuccess"]
    assert "rejectedSpans" not in said
    assert "no resourceSpans" in said["errorMessage"]


def test_both_forms_give_the_same_spans(receiver: Receiver) -> None:
    """P6: protobuf and JSON of one request are kept as equal rows, through every packing."""
    for body, kind in ((PROTO_BODY, PROTO), (JSON_BODY, JSON)):
        for packing, pack in PACKERS.items():
            post(receiver, pack(body), kind, content_encoding=packing)
    first, *others = receiver.sink.frames
    assert len(others) == 2 * len(PACKERS) - 1
    assert all(first.equals(other) for other in others)


@pytest.mark.parametrize("kind", [PROTO, JSON])
def test_bad_data_is_described(receiver: Receiver, kind: str) -> None:
    """P6: the details of a 400 hold a `BadRequest`."""
    answer = post(receiver, b"\x07", kind)
    if kind == PROTO:
        details = BadRequest()
        assert Status.FromString(answer.content).details[0].Unpack(details)
        assert details.field_violations[0].description
    else:
        violations = answer.json()["details"][0]["fieldViolations"]
        assert "valid JSON" in violations[0]["description"]


@pytest.mark.parametrize(("error", "retry_s"), [(SinkFull(RETRY_S), RETRY_S), (StoreError("x"), 5)])
def test_what_is_not_the_clients_fault_is_to_be_tried_again(
    receiver: Receiver, error: Exception, retry_s: int
) -> None:
    """P6: a full queue and a failing disk are 503 with `Retry-After`, and UNAVAILABLE in gRPC."""

    def refuse() -> None:
        raise error

    receiver.sink.refuse = refuse
    answer = post(receiver, PROTO_BODY, PROTO)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == str(retry_s)
    info = RetryInfo()
    assert Status.FromString(answer.content).details[0].Unpack(info)
    assert info.retry_delay.seconds == retry_s
    with grpc.insecure_channel(receiver.grpc) as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(EXPORT)(PROTO_BODY, timeout=10)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    trailing = dict(refused.value.trailing_metadata())
    assert Status.FromString(trailing["grpc-status-details-bin"]).details[0].Unpack(info)
    assert info.retry_delay.seconds == retry_s
    assert RetryInfo.FromString(trailing["google.rpc.retryinfo-bin"]) == info


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_other_methods_are_refused(receiver: Receiver, method: str) -> None:
    """P6: only POST is allowed, and pages of other origins get no answer."""
    answer = httpx.request(
        method, f"{receiver.http}/v1/traces", headers={"origin": "http://x.test"}
    )
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_an_unknown_encoding_is_told_the_known_ones(receiver: Receiver) -> None:
    """P6: a 415 names the encodings that would be taken."""
    answer = post(receiver, JSON_BODY, content_encoding="br")
    assert answer.headers["accept-encoding"] == "gzip, deflate, zstd"


def test_a_connection_is_kept(receiver: Receiver) -> None:
    """P6: request after request is taken on one connection, also after ones that are refused."""
    connection = http.client.HTTPConnection(receiver.http.removeprefix("http://"))
    sockets = set()
    for body, kind, status in (
        (PROTO_BODY, PROTO, 200),
        (b"\x07", PROTO, 400),
        (b" " * (5 << 20), JSON, 413),
        (JSON_BODY, "text/plain", 415),
        (JSON_BODY, JSON, 200),
    ):
        connection.request("POST", "/v1/traces", body, {"content-type": kind})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
        sockets.add(id(connection.sock))
    connection.close()
    assert len(sockets) == 1
    assert None not in sockets
    assert receiver.sink.names == ["call", "call"]


def test_chunks_are_put_together(receiver: Receiver) -> None:
    """P6: a body without a length is taken, and limited as it comes."""

    def chunks(body: bytes, size: int) -> Iterator[bytes]:
        for at in range(0, len(body), size):
            yield body[at : at + size]

    headers = {"content-type": JSON}
    url = f"{receiver.http}/v1/traces"
    assert httpx.post(url, content=chunks(JSON_BODY, 7), headers=headers).status_code == 200
    assert receiver.sink.names == ["call"]
    large = httpx.post(url, content=chunks(b" " * (5 << 20), 1 << 16), headers=headers)
    assert large.status_code == 413


@pytest.mark.parametrize("said", ["0", "7"])
def test_a_body_of_two_lengths_ends_the_connection(receiver: Receiver, said: str) -> None:
    """P6: the rest may be another client's request, smuggled past a proxy."""
    host, _, port = receiver.http.removeprefix("http://").partition(":")
    head = f"POST /v1/traces HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: {JSON}\r\n"
    both = (
        f"{head}content-length: {said}\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
    )
    after = f"{head}content-length: {len(JSON_BODY)}\r\n\r\n".encode() + JSON_BODY
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(both.encode() + after)
        answers = b"".join(iter(lambda: client.recv(4096), b""))
    assert answers.count(b"HTTP/1.1 ") == 1
    assert answers.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answers
    assert not receiver.sink.names


def test_who_asks_before_sending_is_answered(receiver: Receiver) -> None:
    """P6: `Expect: 100-continue` gets an answer, or a refusal before the body is sent."""
    host, _, port = receiver.http.removeprefix("http://").partition(":")
    assert host == HOST
    for size, told in ((len(JSON_BODY), b"100"), (5 << 20, b"413")):
        with socket.create_connection((host, int(port)), timeout=10) as client:
            head = f"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: {JSON}\r\n"
            client.sendall(f"{head}content-length: {size}\r\nexpect: 100-continue\r\n\r\n".encode())
            assert client.recv(64).split()[1] == told
            if told == b"100":
                client.sendall(JSON_BODY)
                assert client.recv(64).split()[1] == b"200"


def test_grpc_answers_as_http_does(receiver: Receiver) -> None:
    """P6: success, partial success, bad data and size, by gRPC's codes."""
    partly = sample("good", "bad")
    partly.resource_spans[0].scope_spans[0].spans[1].trace_id = b""
    with grpc.insecure_channel(receiver.grpc) as channel:
        export = channel.unary_unary(EXPORT)
        assert export(PROTO_BODY, timeout=10) == b""
        assert export(b"", timeout=10) == b""
        said = ExportTraceServiceResponse.FromString(export(partly.SerializeToString(), timeout=10))
        assert said.partial_success.rejected_spans == 1
        for body, code in (
            (b"\x07", grpc.StatusCode.INVALID_ARGUMENT),
            (b"\x0a\x00" * (1 << 20), grpc.StatusCode.RESOURCE_EXHAUSTED),
            (b"\x0a\x00" * (3 << 20), grpc.StatusCode.RESOURCE_EXHAUSTED),
        ):
            with pytest.raises(grpc.RpcError) as refused:
                export(body, timeout=10)
            assert refused.value.code() is code
            assert "retryinfo" not in str(refused.value.trailing_metadata())
    assert receiver.sink.names == ["call", "good"]


@pytest.mark.parametrize("signal", ["logs.v1.Logs", "metrics.v1.Metrics"])
def test_grpc_takes_the_other_signals(receiver: Receiver, signal: str) -> None:
    """P6: logs and metrics have their services too."""
    with grpc.insecure_channel(receiver.grpc) as channel:
        export = channel.unary_unary(f"/opentelemetry.proto.collector.{signal}Service/Export")
        assert export(b"", timeout=10) == b""


def test_spans_that_lost_attributes_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    """They are taken; the log says once what to do, and metrics how many there are."""
    body = json_request(json_span(droppedAttributesCount=7), json_span(spanId="2" * 16))
    with running(LIMITS) as own, caplog.at_level("WARNING"):
        for _ in range(3):
            assert post(own, body, JSON).status_code == 200

        assert own.counted["spans_cut"] == 3
        assert own.counted["spans"] == 6
    told = [text for text in caplog.messages if "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" in text]
    assert len(told) == 1
