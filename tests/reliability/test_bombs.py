"""Small requests that would be large in memory, against a receiver in a process of its own."""

import gzip
import json
import os
import random
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import httpx
import pytest

from looptrace.analyzer.settings.server_limits import Limits
from tests.collector.conftest import pack_zstd
from tests.otlp import as_json
from tests.reliability.receivers import EXPORT, JSON, PROTO, Process, process, sample
from tests.reliability.serving import served

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
AT_ONCE = 50
CALLS = int(os.environ.get("LOOPTRACE_SOAK_CALLS", "40"))
CONNECTIONS = 10
ONE_KIB_MAX = 64 * KIB  # How much more memory one bomb may take, in KiB.
ALL_KIB_MAX = 512 * KIB
PARTS = 15 * MIB  # Of what fits a request once it is unpacked.


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """Return 1 MiB of gzip that unpacks to 1 GiB of spaces."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    first, other = (packer.compress(b" " * MIB) + packer.flush(zlib.Z_FULL_FLUSH) for _ in "ab")
    return first + other * (GIB // MIB - 1)  # Its end is never reached.


@pytest.fixture(scope="module")
def shared() -> Iterator[Process]:
    """Return a receiver that has already accepted a request."""
    with process() as one:
        assert post(one, sample().SerializeToString(), PROTO) == 200
        yield one


@pytest.fixture
def warm(shared: Process) -> Process:
    """Return a receiver whose memory peak is that of one test."""
    shared.forget_peak()
    return shared


def post(receiver: Process, body: bytes, kind: str = JSON, packing: str = "identity") -> int:
    """Send a body; return the status."""
    headers = {"content-type": kind, "content-encoding": packing}
    url = f"{receiver.http}/v1/traces"
    return httpx.post(url, content=body, headers=headers, timeout=60).status_code


def test_a_bomb_is_refused_and_costs_little(warm: Process, bomb: bytes) -> None:
    """P7: 1 MiB that unpacks to 1 GiB is 413, and takes no more memory than a request may."""
    before = warm.kib("VmRSS")
    assert post(warm, bomb, packing="gzip") == 413
    assert warm.kib("VmHWM") - before < ONE_KIB_MAX


def test_zstd_bombs_are_refused_too(warm: Process) -> None:
    """P7: zstd packs a gigabyte into kilobytes."""
    before = warm.kib("VmRSS")
    assert post(warm, pack_zstd(b" " * (256 * MIB)), packing="zstd") == 413
    assert warm.kib("VmHWM") - before < ONE_KIB_MAX


def test_many_bombs_at_once_are_refused(warm: Process, bomb: bytes) -> None:
    """P7: fifty bombs at once: each is refused, and the sum of them stays small.

    A busy machine may unpack none of them, and one alone it does.
    """
    assert post(warm, bomb, packing="gzip") == 413
    with ThreadPoolExecutor(AT_ONCE) as clients:
        statuses = list(clients.map(lambda _: post(warm, bomb, packing="gzip"), range(AT_ONCE)))
    assert set(statuses) <= {413, 503}
    assert warm.kib("VmHWM") < ALL_KIB_MAX
    assert post(warm, sample().SerializeToString(), PROTO) == 200


def test_bombs_over_grpc_are_refused(warm: Process) -> None:
    """P7: gRPC unpacks by itself, within the same limit."""
    before = warm.kib("VmRSS")
    options = [("grpc.max_send_message_length", -1)]
    channel = grpc.insecure_channel(warm.grpc, options, compression=grpc.Compression.Gzip)
    export = channel.unary_unary(EXPORT)
    with channel, pytest.raises(grpc.RpcError) as refused:
        export(b" " * (128 * MIB), timeout=60)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert warm.kib("VmHWM") - before < ONE_KIB_MAX


def test_calls_without_a_token_are_neither_read_nor_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: forty of them that unpack to 15 MiB each cost less than one may."""
    monkeypatch.setenv("LOOPTRACE_TOKENS", "a-token-of-sixteen-characters")
    with served(tmp_path / "store") as server:
        before = server.kib("VmRSS")
        assert set(calls_of_15_mib(server.grpc)) == {grpc.StatusCode.UNAUTHENTICATED}
        assert server.kib("VmHWM") - before < ONE_KIB_MAX


def test_what_grpc_unpacks_counts_as_in_flight(tmp_path: Path) -> None:
    """P7: calls that unpack to 15 MiB each are refused within what may be in flight."""
    with served(tmp_path / "store") as server:
        assert server.send(as_json(sample())) == 200
        codes = set(calls_of_15_mib(server.grpc))
        assert codes <= {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE}
        assert server.kib("VmHWM") < ALL_KIB_MAX


def calls_of_15_mib(at: str) -> list[grpc.StatusCode]:
    """Send messages that unpack to 15 MiB each, ten on one connection; returns their codes."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [
        grpc.insecure_channel(at, options, compression=grpc.Compression.Gzip)
        for _ in range(CONNECTIONS)
    ]
    calls = [
        channel.unary_unary(EXPORT).future(b" " * PARTS, timeout=120)
        for _ in range(CALLS // CONNECTIONS)
        for channel in channels
    ]
    codes = [call.code() for call in calls]
    for channel in channels:
        channel.close()
    return codes


# What cannot be packed, so that a body is not refused by its ratio before it is decoded.
NOISE = random.Random(1).randbytes(120 * KIB)
SPAN = json.dumps({"traceId": "1" * 32, "spanId": "2" * 16, "startTimeUnixNano": "1"}).encode()
START = b'{"noise":"' + NOISE.hex().encode() + b'",'
OPEN = START + b'"resourceSpans":[{"scopeSpans":[{"spans":['
NOISE_FIELD = b"\x7a" + bytes([0x80, 0xC0, 0x07]) + NOISE
# Form, beginning, what is repeated as often as it fits, end, and how it is answered.
AMPLIFIERS = {
    "empty resources": (PROTO, NOISE_FIELD, b"\x0a\x00", b"", 413),
    "empty fields": (PROTO, NOISE_FIELD, b"\x08\x00", b"", 413),
    "empty spans": (JSON, OPEN, b"{},", b"{}]}]}]}", 413),
    "empty attributes": (JSON, OPEN + SPAN[:-1] + b',"attributes":[', b"{},", b"{}]}]}]}]}", 413),
    "open lists": (JSON, OPEN + SPAN[:-1] + b',"a":', b"[", b"", 400),
    "numbers": (JSON, OPEN + SPAN[:-1] + b',"a":[', b"1,", b"1]}]}]}]}", 400),
    "good spans": (JSON, OPEN, SPAN + b",", SPAN + b"]}]}]}", 413),
}


@pytest.mark.parametrize("name", AMPLIFIERS)
def test_small_parts_do_not_become_large_objects(warm: Process, name: str) -> None:
    """P7: what fits the limits in bytes does not fill the memory with objects."""
    kind, start, part, end, status = AMPLIFIERS[name]
    body = start + part * (PARTS // len(part)) + end
    packed = gzip.compress(body, 6)
    assert len(body) < Limits().unpacked_bytes_max
    assert len(body) < Limits().unpacked_ratio_max * len(packed)
    assert post(warm, packed, kind, "gzip") == status
    assert warm.kib("VmHWM") < ALL_KIB_MAX


def test_a_span_of_empty_attributes_stays_small(warm: Process) -> None:
    """P7: protobuf's own objects of one span are bounded by the bytes that it may have."""
    span = sample().resource_spans[0].scope_spans[0].spans[0].SerializeToString()
    span += b"\x4a\x00" * ((3 * MIB) // 2)
    body = NOISE_FIELD + nested(1, nested(2, nested(2, span)))
    assert post(warm, gzip.compress(body), PROTO, "gzip") == 200
    assert warm.kib("VmHWM") < ALL_KIB_MAX


def test_a_million_unknown_fields_stay_small(warm: Process) -> None:
    """P7: unknown fields are ignored, and only a few are named in the answer."""
    names = b"".join(b'"%x":0,' % number for number in range(1_200_000))
    before = warm.kib("VmRSS")
    assert post(warm, gzip.compress(START + names + b'"":0}', 1), packing="gzip") == 200
    assert warm.kib("VmHWM") - before < 2 * ONE_KIB_MAX


def test_a_resource_of_empty_attributes_is_refused(warm: Process) -> None:
    """P7: what spans share is bounded as they are."""
    resource = b"\x0a\x00" * (5 * MIB)
    body = NOISE_FIELD + nested(1, nested(1, resource))
    assert post(warm, gzip.compress(body), PROTO, "gzip") == 400
    assert warm.kib("VmHWM") < ALL_KIB_MAX


def nested(field: int, message: bytes) -> bytes:
    """Return a field that holds a message, in protobuf."""
    size, length = len(message), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([field << 3 | 2, *length, size]) + message


def test_the_measure_sees_a_bomb_that_goes_off(bomb: bytes) -> None:
    """P7, the control arm: without the limits, the same bomb takes more than one request may."""
    loose = Limits(unpacked_bytes_max=256 * MIB, unpacked_ratio_max=2_000, in_flight_bytes_max=GIB)
    with process(loose) as receiver:
        before = receiver.kib("VmHWM")
        assert post(receiver, bomb, packing="gzip") == 413
        assert receiver.kib("VmHWM") - before > ONE_KIB_MAX
