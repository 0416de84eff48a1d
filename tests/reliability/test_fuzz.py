"""Bodies that are broken in every way that chance finds.

LOOPTRACE_FUZZ_BODIES says how many of each kind; `make soak` tries 12,500.
"""

import asyncio
import gzip
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from google.protobuf import json_format  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from starlette.applications import Starlette

from looptrace.analyzer.settings.server_limits import Limits
from looptrace.collector.server.receiver import pipeline
from looptrace.collector.server.receiver.decoding import DecodedRequest, WireFormat
from tests.otlp import any_value, as_json, key_values
from tests.reliability.receivers import JSON, PROTO, intake, sample
from tests.seeds import seeds

BODIES = int(os.environ.get("LOOPTRACE_FUZZ_BODIES", "2500"))
STATUSES = {200, 400, 413}
LIMITS = Limits(unpacked_bytes_max=1 << 20, spans_max=8, span_bytes_max=4096)

SMALL = sample("call")
SEVERAL = sample("a", "b", "c")
# What any of the log records of agents may have, and their names.
SAID: dict[str, Any] = {
    "output": '{"output":"x","metadata":{"exit_code":1}}',
    "status_code": 500,
    "session.id": "s",
    "prompt": "Build it.",
    "tool_name": "Bash",
    "success": "false",
    "duration_ms": "1500",
    "input_tokens": 5,
    "event.timestamp": "2026-03-02T09:00:00.5Z",
    "tool_parameters": '{"full_command":"make"}',
}
EVENTS = (
    *("claude_code.user_prompt", "claude_code.api_request", "claude_code.tool_result"),
    *("codex.tool_result", "gemini_cli.api_error", "else"),
)


def record_of(number: int, name: str) -> dict[str, Any]:
    """Return a log record of an agent."""
    said = SAID | {"event.name": name.partition(".")[2], "event.sequence": number}
    time_ns = str(1_700_000_000_000_000_000 + number)
    return {"timeUnixNano": time_ns, "body": any_value(name), "attributes": key_values(said)}


RECORDS = [record_of(number, name) for number, name in enumerate(EVENTS)]
RESOURCE = {"attributes": key_values({"service.name": "claude-code"})}
LOGS = json_format.ParseDict(
    {"resourceLogs": [{"resource": RESOURCE, "scopeLogs": [{"logRecords": RECORDS}]}]},
    ExportLogsServiceRequest(),
)
TRACES_PATH, LOGS_PATH = "/v1/traces", "/v1/logs"
SEEDS = {
    (TRACES_PATH, PROTO): [SMALL.SerializeToString(), SEVERAL.SerializeToString()],
    (TRACES_PATH, JSON): [as_json(SMALL), as_json(SEVERAL)],
    (LOGS_PATH, PROTO): [LOGS.SerializeToString()],
    (LOGS_PATH, JSON): [json_format.MessageToJson(LOGS, indent=None).encode()],
}
RESPONSES: dict[str, Any] = {
    TRACES_PATH: ExportTraceServiceResponse,
    LOGS_PATH: ExportLogsServiceResponse,
}
HOSTILE: list[Any] = [
    *(None, True, -1, 0.5, 1e308, 10**30, -(10**19), [], {}, [[]], [None], {"": None}),
    *("", "9" * 5000, "NaN", "-Infinity", "1e999", "0x10", "\udc80", "\x00", "x" * 5000),
    json.loads("[" * 60 + "]" * 60),
    json.loads('{"arrayValue":{"values":[' * 20 + "{}" + "]}}" * 20),
]
TOKENS = [b"null", b"[", b"{", b'"', b"\\ud83d", b"\\", b"NaN", b"1e999", b"\xff", b"\xed\xa0\x80"]


def broken_bytes(chance: random.Random, body: bytes) -> bytes:
    """Change a body in a few places, as a bad line or a bad program does."""
    data = bytearray(body)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        stop = min(len(data), at + chance.randint(1, 16))
        match chance.randrange(7):
            case 0:
                data[at:stop] = b""
            case 1:
                data[at:at] = chance.randbytes(chance.randint(1, 8))
            case 2:
                data[at:at] = data[at:stop] * chance.randint(1, 50)
            case 3:
                data[at:stop] = chance.randbytes(stop - at)
            case 4:
                data[at:at] = chance.choice(TOKENS)
            case 5 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case _:
                del data[at:]
    return bytes(data)


def broken_value(chance: random.Random, body: bytes) -> bytes:
    """Put something else in the place of one value of a JSON request."""
    root = {"": json.loads(body)}
    places = list(_places(root))
    for _ in range(chance.randint(1, 3)):
        holder, key = chance.choice(places)
        holder[key] = chance.choice(HOSTILE)
    return json.dumps(root[""]).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def broken(chance: random.Random, path: str, kind: str, packing: str) -> bytes:
    """Return a body that was broken before packing, or after."""
    body = chance.choice(SEEDS[path, kind])
    is_whole = packing == "gzip" and chance.random() < 0.3
    if not is_whole:
        ways = [broken_bytes, broken_value] if kind == JSON else [broken_bytes]
        body = chance.choice(ways)(chance, body)
    if packing == "gzip":
        body = gzip.compress(body, 1)
    return broken_bytes(chance, body) if is_whole else body


async def post(
    app: Starlette, kind: str, packing: str, body: bytes, path: str = TRACES_PATH
) -> tuple[int, bytes]:
    """Call an application as a server does; return the status and the body of its answer.

    Raises what the application raises.
    """
    sent: list[dict[str, Any]] = []
    headers = [(b"content-type", kind.encode()), (b"content-encoding", packing.encode())]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app({**scope, "query_string": b""}, receive, send)
    return sent[0]["status"], b"".join(part["body"] for part in sent[1:])


async def outcomes(
    app: Starlette, path: str, kind: str, packing: str, numbers: Iterable[int]
) -> tuple[Counter[int | str], bytes | None]:
    """Send broken bodies, and count the statuses and errors; return the first faulty one."""
    seen = Counter[int | str]()
    fault = None
    for number in numbers:
        body = broken(random.Random(f"{path} {kind} {packing} {number}"), path, kind, packing)
        try:
            status, answer = await post(app, kind, packing, body, path)
            check_answer(path, kind, status, answer)
            seen[status] += 1
            is_fault = status not in STATUSES
        except Exception as error:
            seen[type(error).__name__] += 1
            is_fault = True
        fault = body if is_fault and fault is None else fault
    return seen, fault


def check_answer(path: str, kind: str, status: int, answer: bytes) -> None:
    """Read an answer as a client does."""
    message = RESPONSES[path]() if status == 200 else Status()
    if kind == PROTO:
        message.ParseFromString(answer)
    else:
        json_format.Parse(answer, message)


@pytest.mark.parametrize("packing", ["identity", "gzip"])
@pytest.mark.parametrize("kind", [PROTO, JSON])
@pytest.mark.parametrize("path", list(RESPONSES))
def test_no_body_is_a_fault_of_the_server(path: str, kind: str, packing: str) -> None:
    """P6: whatever a body is, the answer is success, bad data or too large, and well written."""
    numbers = seeds(BODIES)
    with intake(LIMITS) as receiver:
        seen, fault = asyncio.run(outcomes(receiver.app, path, kind, packing, numbers))
        assert fault is None, (seen, fault)
        assert receiver.pipeline.in_flight.bytes_held == 0
        assert sum(seen.values()) == len(numbers)
        assert min(seen[200], seen[400]) > 0, "both ways are tried"


def naive(body: bytes, form: WireFormat, limits: Limits) -> DecodedRequest:  # noqa: ARG001
    """Decode as a program does that trusts its clients."""
    request = json.loads(body)
    spans = [span for one in request["resourceSpans"] for span in one["scopeSpans"][0]["spans"]]
    return DecodedRequest(rejected=sum(not span["name"] for span in spans))


@pytest.mark.parametrize("decode", [naive])
def test_the_harness_finds_faults(
    monkeypatch: pytest.MonkeyPatch, decode: Callable[..., DecodedRequest]
) -> None:
    """P6, the control arm: a decoder that trusts its input fails under the same bodies."""
    monkeypatch.setattr(pipeline, "decode_traces", decode)
    with intake(LIMITS) as receiver:
        seen, fault = asyncio.run(outcomes(receiver.app, TRACES_PATH, JSON, "identity", range(200)))
    assert fault is not None
    assert seen["KeyError"] + seen["JSONDecodeError"] > 0
