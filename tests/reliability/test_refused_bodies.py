"""Bodies that are large on the wire and refused: none outlives its request."""

import asyncio
import gc
import gzip
import os
import random
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest
from starlette.applications import Starlette

from looptrace.analyzer.settings.server_limits import Limits
from looptrace.collector.server.receiver.sink import SinkFull
from looptrace.collector.store.locks import StoreError
from tests.collector.conftest import pack_zstd
from tests.otlp import as_json
from tests.reliability.receivers import EXPORT, JSON, PROTO, intake, sample
from tests.reliability.serving import Served, served, until
from tests.reliability.test_fuzz import post
from tests.seeds import in_turn

KIB, MIB = 1 << 10, 1 << 20
IN_TURN = int(os.environ.get("LOOPTRACE_SOAK_BODIES", "12"))
AT_ONCE = IN_TURN // 2
COST_KIB_MAX = 64 * KIB
SHOWN = "a-token-of-sixteen-characters"

NOISE = random.Random(1).randbytes(15 * MIB)  # what no packing makes smaller
LONGER = NOISE + NOISE[: 2 * MIB]
# Media type, packing, body, whether it has a length, and how it is answered on its own.
REFUSED = {
    "no protobuf": (PROTO, "identity", NOISE, True, 400),
    "no JSON": (JSON, "identity", NOISE, True, 400),
    "no gzip": (JSON, "gzip", NOISE, True, 400),
    "gzip of noise": (PROTO, "gzip", gzip.compress(NOISE, 1), True, 400),
    "zstd of noise": (PROTO, "zstd", pack_zstd(NOISE), True, 400),
    "too large": (PROTO, "identity", LONGER, True, 413),
    "too large in the end": (PROTO, "identity", LONGER, False, 413),
    "another media type": ("text/plain", "identity", NOISE, True, 415),
    "another packing": (JSON, "br", NOISE, True, 415),
}
REFUSED_CALLS = {
    "no protobuf": (NOISE, grpc.StatusCode.INVALID_ARGUMENT),
    "gzip of noise": (gzip.compress(NOISE, 1), grpc.StatusCode.INVALID_ARGUMENT),
    "too large": (LONGER, grpc.StatusCode.RESOURCE_EXHAUSTED),
}


# Whether tokens are asked for; each day half of the bodies with either.
TOKENS = [("",), (SHOWN,)]


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Return a server that has already refused a request."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOOPTRACE_TOKENS", request.param)
        with served(tmp_path_factory.mktemp("store")) as one:
            until(one.is_ready)
            assert send(one, JSON, "identity", b"{", has_length=True) == 400
            yield one


def send(server: Served, kind: str, packing: str, body: bytes, *, has_length: bool) -> int:
    """Send a body over a connection of its own; return the status, 0 where there was none."""
    host, port = server.address.split(":")
    length = f"content-length: {len(body)}" if has_length else "transfer-encoding: chunked"
    head = (
        f"POST /v1/traces HTTP/1.1\r\nhost: {server.address}\r\nauthorization: Bearer {SHOWN}\r\n"
        f"content-type: {kind}\r\ncontent-encoding: {packing}\r\n{length}\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        with suppress(OSError):  # The answer may come before all was sent.
            connection.sendall(head.encode())
            if not has_length:
                connection.sendall(b"%x\r\n" % len(body))
            connection.sendall(body)
        with suppress(OSError):
            return int(connection.recv(4 * KIB)[9:12] or b"0")
    return 0


@contextmanager
def small_cost(server: Served) -> Iterator[None]:
    """Assert that the memory of a server rises by less than four bodies."""
    Path(f"/proc/{server.process.pid}/clear_refs").write_text("5", "utf-8")
    before_kib = server.kib("VmRSS")
    yield
    assert server.kib("VmHWM") - before_kib < COST_KIB_MAX


@pytest.mark.parametrize(("refusal", "server"), in_turn(REFUSED, TOKENS), indirect=["server"])
def test_refused_bodies_cost_no_memory(
    server: Served, refusal: tuple[str, str, bytes, bool, int]
) -> None:
    """P7: 15 MiB that do not compress, in turn and at once, over HTTP, with or without a token."""
    kind, packing, body, has_length, status = refusal

    def refused(_: int) -> int:
        return send(server, kind, packing, body, has_length=has_length)

    with small_cost(server):
        assert {refused(number) for number in range(IN_TURN)} - {0} == {status}
        with ThreadPoolExecutor(AT_ONCE) as clients:
            # On a busy machine some take longer than the server waits for a body.
            assert set(clients.map(refused, range(AT_ONCE))) <= {status, 408, 503, 0}


@pytest.mark.parametrize(("refusal", "server"), in_turn(REFUSED_CALLS, TOKENS), indirect=["server"])
def test_refused_calls_cost_no_memory(
    server: Served, refusal: tuple[bytes, grpc.StatusCode]
) -> None:
    """P7: the same over gRPC, ten calls on a connection."""
    body, status = refusal
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    channels = [grpc.insecure_channel(server.grpc, options) for _ in range(AT_ONCE // 10 + 1)]
    exports = [channel.unary_unary(EXPORT) for channel in channels]

    def refused(number: int) -> grpc.StatusCode:
        export = exports[number % len(exports)]
        with pytest.raises(grpc.RpcError) as error:
            export(body, timeout=120, metadata=[("authorization", f"Bearer {SHOWN}")])
        code: grpc.StatusCode = error.value.code()
        return code

    with small_cost(server):
        assert {refused(number) for number in range(IN_TURN)} == {status}
        with ThreadPoolExecutor(AT_ONCE) as clients:
            codes = set(clients.map(refused, range(AT_ONCE)))
            slow = grpc.StatusCode.DEADLINE_EXCEEDED
            assert codes <= {status, slow, grpc.StatusCode.UNAVAILABLE}
    for channel in channels:
        channel.close()


def _full() -> None:
    raise SinkFull(5)


def _damaged() -> None:
    raise StoreError("the disk is full")


def _at_fault() -> None:
    raise ValueError("a fault of ours")


def _good(size: int) -> bytes:
    request = sample("call")
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.add(key="text").value.string_value = "x" * size
    return as_json(request)


# Limits, body, what the sink does, and how it is answered; None where the server is at fault.
ENDS: dict[str, tuple[Limits, bytes, Callable[[], None], int | None]] = {
    "undecodable": (Limits(), NOISE[:MIB], lambda: None, 400),
    "too large": (Limits(body_bytes_max=MIB - 1), NOISE[:MIB], lambda: None, 413),
    "no room": (Limits(in_flight_bytes_max=MIB - 1), NOISE[:MIB], lambda: None, 503),
    "a full log": (Limits(), _good(MIB), _full, 503),
    "a full disk": (Limits(), _good(MIB), _damaged, 503),
    "a fault": (Limits(), _good(MIB), _at_fault, None),
}


@pytest.mark.parametrize("name", ENDS)
def test_bodies_are_gone_without_the_garbage_collector(name: str) -> None:
    """P7: nothing that ends a request is in a circle with its body, or with its spans."""
    limits, body, end, status = ENDS[name]
    with intake(limits) as receiver:
        receiver.sink.refuse = end
        asyncio.run(refusals(receiver.app, body, status, 1))
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            asyncio.run(refusals(receiver.app, body, status, 8))
            receiver.pipeline.close()  # The threads are done, too.
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            gc.enable()
    assert held < MIB


async def refusals(app: Starlette, body: bytes, status: int | None, count: int) -> None:
    """Have an application refuse copies of a body at once."""
    calls = [post(app, JSON, "", bytes(bytearray(body))) for _ in range(count)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    statuses = {answer[0] if isinstance(answer, tuple) else type(answer) for answer in answers}
    assert statuses == {ValueError if status is None else status}
