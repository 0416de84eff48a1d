"""Every limit of the receiver, at one below, at, and one above it."""

import asyncio
import gzip
import http.client
import json
import random
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event

import grpc  # type: ignore[import-untyped]
import pytest
from google.protobuf import json_format  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from looptrace.analyzer.settings.server_limits import Limits
from looptrace.collector.server.receiver.decoding import SHOWN_CHARS_MAX, STREAMS_MAX, RefusalError
from looptrace.collector.server.receiver.pipeline import InFlight
from looptrace.collector.server.receiver.receiver_metrics import NAMES, ReceiverCounts
from looptrace.rules.contract import SettingError
from tests.collector.conftest import pack_zstd
from tests.otlp import as_json
from tests.reliability.receivers import EXPORT, JSON, PROTO, Receiver, intake, running, sample
from tests.reliability.serving import until
from tests.reliability.test_fuzz import LOGS, LOGS_PATH, TRACES_PATH, post

BODY = sample("call").SerializeToString()
KIB, MIB = 1 << 10, 1 << 20


def answered(
    limits: Limits, body: bytes, kind: str = PROTO, packing: str = "", path: str = TRACES_PATH
) -> tuple[int, str]:
    """Return the status of a body under some limits, and the counted reason of its refusal."""
    with intake(limits) as receiver:
        status, _ = asyncio.run(post(receiver.app, kind, packing, body, path))
        assert receiver.pipeline.in_flight.bytes_held == 0
        names = [name for name in receiver.counted if name.startswith("refused_")]
    return status, ",".join(names)


def padded(size: int) -> bytes:
    """Return a request of exactly this many bytes of JSON."""
    return b"{}".ljust(size)


@pytest.mark.parametrize(("more", "refused"), [(-1, False), (0, False), (1, True)])
def test_limits_hold_to_the_byte(more: int, refused: bool) -> None:
    """P7: sizes on the wire and unpacked, in flight, and of a request's spans."""
    most = 8 * KIB
    wire = Limits(body_bytes_max=most)
    unpacked = Limits(unpacked_bytes_max=most)
    flight = Limits(in_flight_bytes_max=most)
    spans = Limits(spans_max=3)
    many = sample(*"abcd"[: 3 + more])
    large = (413, "refused_unpacked_too_large")
    for limits, body, kind, packing, refusal in (
        (wire, padded(most + more), JSON, "", (413, "refused_body_too_large")),
        (unpacked, padded(most + more), JSON, "", large),
        (unpacked, gzip.compress(padded(most + more)), JSON, "gzip", large),
        (unpacked, zlib.compress(padded(most + more)), JSON, "deflate", large),
        (unpacked, pack_zstd(padded(most + more)), JSON, "zstd", large),
        (flight, padded(most + more), JSON, "", (503, "refused_in_flight")),
        (spans, many.SerializeToString(), PROTO, "", (413, "refused_too_many_spans")),
        (spans, as_json(many), JSON, "", (413, "refused_too_many_spans")),
    ):
        expected = refusal if refused else (200, "")
        assert answered(limits, body, kind, packing) == expected, (limits, packing)


def test_what_is_unpacked_counts_as_in_flight() -> None:
    """P7: a body is held twice while it is unpacked, and both count."""
    packed = gzip.compress(padded(8 * KIB))
    assert answered(Limits(in_flight_bytes_max=8 * KIB), packed, JSON, "gzip")[0] == 503
    enough = Limits(in_flight_bytes_max=8 * KIB + len(packed))
    assert answered(enough, packed, JSON, "gzip")[0] == 200


def test_a_ratio_that_no_telemetry_has_is_refused() -> None:
    """P7: above 1 MiB, unpacked bytes are limited by packed ones; below it they say nothing."""
    packed = gzip.compress(padded(2 * MIB))
    ratio = 2 * MIB // len(packed)
    assert ratio > 200
    assert answered(Limits(), packed, JSON, "gzip") == (413, "refused_unpacked_too_large")
    assert answered(Limits(unpacked_ratio_max=ratio + 1), packed, JSON, "gzip")[0] == 200
    assert answered(Limits(), gzip.compress(padded(MIB)), JSON, "gzip")[0] == 200


@pytest.mark.parametrize("kind", [PROTO, JSON])
def test_a_large_span_costs_only_itself(kind: str) -> None:
    """P7: a span above its limit is rejected, with a message; the others are kept."""
    request = sample("small", "large")
    spans = request.resource_spans[0].scope_spans[0].spans
    spans[1].attributes.add(key="big").value.string_value = "x" * 8 * KIB
    body = request.SerializeToString() if kind == PROTO else as_json(request)
    size = (
        spans[1].ByteSize()
        if kind == PROTO
        else len(json.dumps(json.loads(body)["resourceSpans"][0]["scopeSpans"][0]["spans"][1]))
    )
    for limit, names in ((size, ["small", "large"]), (size - 1, ["small"])):
        with intake(Limits(span_bytes_max=limit)) as receiver:
            status, answer = asyncio.run(post(receiver.app, kind, "", body))
            assert (status, receiver.sink.names) == (200, names)
            assert (b"and a span may have" in answer) is (len(names) == 1)


@pytest.mark.parametrize("kind", [PROTO, JSON])
def test_a_deep_span_costs_only_itself(kind: str) -> None:
    """P7: what is nested deeper than the limit is rejected; brackets in texts do not count."""
    request = sample("texts", "deep")
    spans = request.resource_spans[0].scope_spans[0].spans
    spans[0].attributes.add(key="text").value.string_value = '"[\\"{' * 200
    value = spans[1].attributes.add(key="deep").value
    for _ in range(20):
        value = value.array_value.values.add()
    body = request.SerializeToString() if kind == PROTO else as_json(request)
    for depth, names in ((21, ["texts", "deep"]), (20, ["texts"])):
        with intake(Limits(depth_max=depth)) as receiver:
            assert asyncio.run(post(receiver.app, kind, "", body))[0] == 200
            assert receiver.sink.names == names
            assert receiver.counted.get("spans_rejected", 0) == 2 - len(names)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (PROTO, b"\x0a\x00"),
        (PROTO, b"\x08\x00"),
        (JSON, b"{},"),
        (JSON, b'{"scopeSpans":[{},{}]},'),
    ],
)
def test_a_request_of_empty_parts_is_refused(kind: str, body: bytes) -> None:
    """P7: parts of two bytes each become objects of a hundred, so that they are counted."""
    count = 8 * MIB // len(body)
    body = body * count
    if kind == JSON:
        body = b'{"resourceSpans":[' + body[:-1] + b"]}"
    limits = Limits(body_bytes_max=16 * MIB)
    assert answered(limits, body, kind) == (413, "refused_too_many_spans")
    if kind == PROTO:
        assert answered(limits, body, kind, path=LOGS_PATH) == (413, "refused_too_many_spans")


@pytest.mark.parametrize(("more", "refused"), [(-1, False), (0, False), (1, True)])
def test_log_records_are_limited_as_spans_are(more: int, refused: bool) -> None:
    """P7: by their number, and protobuf's by the size of each, before they become objects."""
    logs = ExportLogsServiceRequest()
    records = logs.resource_logs.add().scope_logs.add().log_records
    for _ in range(3 + more):
        records.add().body.string_value = "x"
    records[0].body.string_value = "x" * (2 * KIB - 10)
    size = records[0].ByteSize()
    body = logs.SerializeToString()
    expected = (413, "refused_too_many_spans") if refused else (200, "")
    assert answered(Limits(spans_max=3), body, path=LOGS_PATH) == expected
    assert answered(Limits(span_bytes_max=size - more), body, path=LOGS_PATH) == expected
    told = json_format.MessageToDict(LOGS)
    (scope,) = told["resourceLogs"][0]["scopeLogs"]
    scope["logRecords"] = scope["logRecords"][2:3] * (3 + more)
    text = json.dumps(told).encode()
    assert answered(Limits(spans_max=3), text, JSON, path=LOGS_PATH) == expected


def test_streams_after_each_other_are_few() -> None:
    """P7: a body may be several streams, as files are, but not as many as fit."""
    one = gzip.compress(b" ")
    last = gzip.compress(b"{}")
    assert answered(Limits(), one * (STREAMS_MAX - 1) + last, JSON, "gzip") == (200, "")
    assert answered(Limits(), one * STREAMS_MAX + last, JSON, "gzip")[0] == 400
    assert answered(Limits(), pack_zstd(b"{") + pack_zstd(b"}"), JSON, "zstd") == (200, "")


def test_a_zstd_stream_may_not_ask_for_much_memory() -> None:
    """P7: the window that a zstd stream declares is memory, and is limited to 8 MiB."""
    frame = bytes.fromhex("28b52ffd 00 88 010000")  # An empty block, and a window of 128 MiB.
    small = bytes.fromhex("28b52ffd 00 68 010000")  # The same, with 8 MiB.
    assert answered(Limits(), small, PROTO, "zstd") == (200, "")
    assert answered(Limits(), frame, PROTO, "zstd") == (400, "refused_undecodable")


def test_limits_have_bounds() -> None:
    """P7: a limit that would switch itself off is refused by name."""
    with pytest.raises(SettingError, match=r"^server\.body_bytes_max is 1; it must be between"):
        Limits(body_bytes_max=1)


@contextmanager
def connected(receiver: Receiver) -> Iterator[socket.socket]:
    """Open a connection on which bytes are sent by hand."""
    host, _, port = receiver.http.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as client:
        yield client


def drip(client: socket.socket, data: bytes) -> tuple[bytes, float]:
    """Send bytes one by one until the other side is done; return its answer and the seconds."""
    client.settimeout(0.05)
    start, answer = time.monotonic(), b""
    for at in range(len(data)):
        try:
            client.sendall(data[at : at + 1])
            part = client.recv(4096)
        except TimeoutError:
            continue
        except OSError:
            break
        answer += part
        if not part:
            break
    return answer, time.monotonic() - start


HEAD = b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


def test_who_is_slow_is_not_waited_for() -> None:
    """P7: headers and bodies have a time, however steadily their bytes drip."""
    with running(Limits(header_s=1, body_s=1)) as receiver:
        with connected(receiver) as client:
            answer, seconds = drip(client, HEAD * 10)
            assert (answer, seconds < 10) == (b"", True)
        with connected(receiver) as client:
            client.sendall(HEAD + b"content-length: 4000\r\n\r\n")
            answer, seconds = drip(client, b" " * 4000)
            assert answer.split()[1] == b"408"
            assert seconds < 10
        with connected(receiver) as client:  # It is refused, and sends on without end.
            client.sendall(HEAD + b"content-length: 99999999\r\n\r\n")
            answer, seconds = drip(client, b" " * 4000)
            assert answer.split()[1] == b"413"
            assert seconds < 10
        with connected(receiver) as client:
            assert client.recv(1) == b"", "nothing at all was sent"
        refused = {"refused_slow": 1, "refused_body_too_large": 1}
        assert receiver.counted == {**refused, "closed_slow": 4}


def test_idle_connections_end() -> None:
    """P7: a connection that is kept is closed when it is idle for too long."""
    with running(Limits(idle_s=1)) as receiver, connected(receiver) as client:
        client.sendall(HEAD + b"content-length: 2\r\n\r\n{}")
        with client.makefile("rb") as answer:
            assert answer.read().split()[1] == b"200", "read to the end of the connection"


def test_headers_are_limited() -> None:
    """P7: headers larger than the limit end the connection."""
    with running(Limits(header_bytes_max=2 * KIB)) as receiver:
        for size, status in ((KIB, b"200"), (512 * KIB, b"400")):
            with connected(receiver) as client:
                client.sendall(HEAD + b"x: " + b"y" * size + b"\r\ncontent-length: 2\r\n\r\n{}")
                assert client.recv(4096).split()[1] == status


def test_a_slow_message_of_grpc_is_not_waited_for() -> None:
    """P7: a call without its message ends in time, by gRPC's code for that."""
    with running(Limits(body_s=1)) as receiver, grpc.insecure_channel(receiver.grpc) as channel:
        export = channel.stream_unary(EXPORT)

        refusal = Event()

        def never() -> Iterator[bytes]:
            refusal.wait(20)
            yield b""

        with pytest.raises(grpc.RpcError) as refused:
            export(never(), timeout=20)
        refusal.set()
        assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "message took over 1 s" in refused.value.details()


def test_grpc_waits_for_room_and_then_says_when() -> None:
    """P7: a message that is too much for what is in flight, or finds no room, is for later."""
    limits = Limits(body_s=3, body_bytes_max=64 * KIB, in_flight_bytes_max=64 * KIB)
    with running(limits) as receiver, grpc.insecure_channel(receiver.grpc) as channel:
        stalled = channel.stream_unary(EXPORT)
        export = channel.unary_unary(EXPORT)
        over = Event()

        def never() -> Iterator[bytes]:
            over.wait(20)
            yield b""

        first = stalled.future(never(), timeout=20)  # It takes the only room there is to read.
        until(first.running)
        second = export.future(BODY, timeout=20)
        until(second.done)
        # They end together: the second gets the room, or has itself waited for too long.
        until(first.done)
        assert first.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert second.code() in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE)
        assert export(BODY, timeout=20) == b"", "there is room again"
        over.set()
    small = replace(limits, in_flight_bytes_max=32 * KIB)
    with running(small) as receiver, grpc.insecure_channel(receiver.grpc) as channel:
        export = channel.unary_unary(EXPORT)
        with pytest.raises(grpc.RpcError) as refused:
            export(b"\x7a\x80\x80\x03" + bytes(48 * KIB), timeout=20)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "google.rpc.retryinfo-bin" in dict(refused.value.trailing_metadata())
        assert receiver.counted == {"refused_in_flight": 1}


def test_what_a_client_left_behind_claims_nothing() -> None:
    """P7: a thread that still unpacks for a client that went away is stopped there."""
    flight = InFlight(Limits())
    with flight.claim() as claim:
        claim.add(5)
    with pytest.raises(RefusalError):
        claim.add(5)
    assert flight.bytes_held == 0


def test_error_messages_fit_headers() -> None:
    """P6: over gRPC what is wrong is a header, also where it quotes much that is not ASCII."""
    request = sample(*"abcdef")
    for span in request.resource_spans[0].scope_spans[0].spans[1:]:
        span.name, span.trace_id = "\N{GRINNING FACE}" * 1000, b""
    del request.resource_spans[0].scope_spans[0].spans[0]
    with running() as receiver, grpc.insecure_channel(receiver.grpc) as channel:
        export = channel.unary_unary(EXPORT)
        with pytest.raises(grpc.RpcError) as refused:
            export(request.SerializeToString(), timeout=20)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "traceId must be" in refused.value.details()
    assert len(refused.value.details()) <= SHOWN_CHARS_MAX


def test_a_client_that_goes_away_leaves_nothing() -> None:
    """P7: what a broken connection claimed is given back."""
    with running() as receiver:
        with connected(receiver) as client:
            client.sendall(HEAD + b"content-length: 1000000\r\n\r\n" + b" " * 100_000)
            until(lambda: receiver.pipeline.in_flight.bytes_held == 100_000)
        until(lambda: receiver.pipeline.in_flight.bytes_held == 0)
        until(lambda: receiver.counted == {"refused_client_gone": 1})


def test_all_requests_together_are_limited() -> None:
    """P7: requests that wait for their bodies count, and refused ones get a time to try again."""
    with running(Limits(in_flight_bytes_max=100 * KIB, retry_after_s=9)) as receiver:
        with connected(receiver) as first:
            first.sendall(HEAD + b"content-length: 1000000\r\n\r\n" + b" " * 90 * KIB)
            until(lambda: receiver.pipeline.in_flight.bytes_held == 90 * KIB)
            second = http.client.HTTPConnection(receiver.http.removeprefix("http://"))
            second.request("POST", "/v1/traces", b" " * 11 * KIB, {"content-type": JSON})
            answer = second.getresponse()
            assert (answer.status, answer.headers["retry-after"]) == (503, "9")
            answer.read()
            second.request("POST", "/v1/traces", b"{}", {"content-type": JSON})
            assert second.getresponse().status == 200
            second.close()
        until(lambda: receiver.pipeline.in_flight.bytes_held == 0)


def test_counts_have_names_of_our_own() -> None:
    """P8: there is a fixed set of names, each with a sentence, and no client adds one."""
    chance = random.Random(1)
    with intake() as receiver:
        for _ in range(50):
            kind, packing = chance.choice([JSON, "x/" + chance.randbytes(4).hex()]), "gzip"
            asyncio.run(post(receiver.app, kind, packing, chance.randbytes(8)))
        assert receiver.pipeline.counts.read().keys() == NAMES.keys()
    assert all(sentence.endswith(".") for sentence in NAMES.values())
    with pytest.raises(KeyError):
        ReceiverCounts().add("something else")
